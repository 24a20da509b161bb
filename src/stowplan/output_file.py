"""Refuse an output file that cannot be written before the work that would fill it begins.

Commands that run for minutes or hours call `check_output_file` for every `--html`, `--json` and the
like. The check leaves no file behind.
"""

from __future__ import annotations

import os
from pathlib import Path

from stowplan.errors import ConfigError


def check_output_file(path: Path | None, option: str) -> None:
    """Raise ConfigError if the file that `option` names cannot be written; None is no file."""
    if path is None:
        return
    where = f"{option} {path}"
    try:
        _try(path, where)
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
    exists = path.exists()
    if exists and not path.is_file():
        return  # a device or a pipe: opening it may block, or be noticed by its reader
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666))
    if not exists:
        path.unlink()
