"""Where a recording goes: one file, or a folder of files that are rotated by size and time.

Every file begins with a header and the whole cluster, so each is a recording of its own and the
oldest can be deleted. Files of a folder are named by the time they begin,
`2026-01-02T030405Z.jsonl.gz`, and sort by it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from stowplan.clock import Clock, rfc3339
from stowplan.errors import ConfigError
from stowplan.recording.gzip_lines import LineWriter

SUFFIX: Final = ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a new file begins, and how many are kept."""

    size: int = 256 << 20
    after_s: float = 86_400.0
    keep: int = 0


class Output:
    """The file that is written now. `is_due` says when to `rotate`."""

    def __init__(self, path: Path, *, clock: Clock, rotation: Rotation | None = None) -> None:
        """`rotation` makes `path` a folder. Raises ConfigError if it cannot be written."""
        self._path = path
        self._clock = clock
        self._rotation = rotation
        self._opened_at = 0.0
        self._file: IO[bytes] | None = None
        self.current = path
        self.lines = self._open()

    @property
    def is_due(self) -> bool:
        rotation = self._rotation
        return rotation is not None and (
            self.lines.written >= rotation.size
            or self._clock.monotonic() - self._opened_at >= rotation.after_s
        )

    def rotate(self) -> None:
        """End this file and begin the next one; raises OSError."""
        self.close()
        self.lines = self._open()
        assert self._rotation is not None
        if self._rotation.keep:
            for old in sorted(self._path.glob(f"*{SUFFIX}"))[: -self._rotation.keep]:
                if old != self.current:
                    old.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self.lines.end_member()
            self._file.close()
            self._file = None

    def _open(self) -> LineWriter:
        try:
            if self._rotation is not None:
                self._path.mkdir(parents=True, exist_ok=True)
                self.current = self._new_name()
            # Recordings tell much about a cluster: for their owner only.
            handle = os.open(self.current, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as problem:
            raise ConfigError(
                f"cannot be written: {problem.strerror}. Fix: choose a place that you may write",
                where=str(self.current),
            ) from None
        self._file = os.fdopen(handle, "ab")
        self._opened_at = self._clock.monotonic()
        return LineWriter(self._file)

    def _new_name(self) -> Path:
        stem = rfc3339(self._clock.time()).replace(":", "")
        path = self._path / f"{stem}{SUFFIX}"
        number = 1
        while path.exists():
            number += 1
            path = self._path / f"{stem}-{number}{SUFFIX}"
        return path
