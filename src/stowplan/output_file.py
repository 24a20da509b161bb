"""Refuse an output file that cannot be written before the work that would fill it begins.

Commands that run for minutes or hours call `check_output_file` for every `--html`, `--json` and the
like. The check leaves no file behind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from stowplan.errors import ConfigError


def check_output_file(
    path: Path | None, option: str = "", *, inputs: Iterable[str | Path | None] = ()
) -> None:
    """Raise ConfigError if the file that `option` names cannot be written; None is no file.

    No option: an argument names it. `inputs` are files that the command reads.
    """
    if path is None:
        return
    where = f"{option} {path}".lstrip()
    try:
        _try(path, where)
        if path.exists() and any(
            each is not None and Path(each).exists() and path.samefile(each) for each in inputs
        ):
            raise ConfigError("is read by this command. Fix: name another file", where=where)
    except OSError as problem:
        raise ConfigError(
            f"cannot be written: {problem.strerror}. Fix: choose a file that you may write",
            where=where,
        ) from None


def _try(path: Path, where: str) -> None:
    if path.is_dir():
        raise ConfigError("is a folder. Fix: name a file in it", where=where)
    if not path.parent.is_dir():
        raise ConfigError(
            f"the folder {path.parent} does not exist. Fix: mkdir -p {path.parent}", where=where
        )
    if not path.exists():
        # Without a name: a script may wait for the file to appear.
        tempfile.TemporaryFile(dir=path.parent).close()
    elif path.is_file():
        os.close(os.open(path, os.O_WRONLY))
    # A device or a pipe is not opened: that may block, or be noticed by its reader.
