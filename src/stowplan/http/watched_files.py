"""Files that are read again when they change: certificates, keys, tokens.

`serving` polls them; in a pod they are parts of Secrets, which the kubelet replaces by moving a
symbolic link. Invariants: the last valid content stays in use until new valid content can be read,
and an unusable file is reported once per change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from stowplan.errors import ConfigError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

POLL_S: Final = 1.0
_State: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class WatchedFiles:
    """Files that belong together, and what is to be done when one has changed."""

    def __init__(self, files: Sequence[Path], load: Callable[[], None], what: str) -> None:
        self._files = tuple(files)
        self._load = load
        self._what = what
        self._seen: _State = ()

    def load(self) -> None:
        """For the first time; ConfigError says what is wrong."""
        self._seen = self._state()
        self._load()

    def load_if_changed(self) -> None:
        """Never raises."""
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._load()
        except ConfigError as error:
            log.error("Changed files cannot be used", extra=kv(what=self._what, err=error))
        else:
            log.info("Changed files are in use", extra=kv(what=self._what))

    def _state(self) -> _State:
        return tuple(map(_state_of, self._files))


def _state_of(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


async def keep_loaded(files: Sequence[WatchedFiles], every_s: float = POLL_S) -> None:
    """Until it is cancelled."""
    while True:
        await asyncio.sleep(every_s)
        for each in files:
            each.load_if_changed()


def read_text(file: Path, where: str) -> str:
    """ConfigError if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not a text file", where=where) from None
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", where=where) from None
