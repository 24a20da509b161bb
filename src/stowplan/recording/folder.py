"""Names of the files in a folder of recordings: `2026-01-02T030405Z.jsonl.gz`, by start time.

A file whose snapshot is not complete yet has `.new` behind its name, and is no recording.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SUFFIX: Final = ".jsonl.gz"
UNFINISHED: Final = ".new"
#: A name for messages.
EXAMPLE: Final = f"2026-01-02T030405Z{SUFFIX}"
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d{6}Z)(?:-(\d{1,9}))?\.jsonl\.gz(\.new)?$", re.ASCII)


def files_in(folder: Path) -> list[Path]:
    """The recordings in a folder, oldest first. Raises OSError.

    Other files are ignored. So are folders, pipes and broken links with the name of a recording.
    """
    return sorted((each for each in _files(folder) if not _is_unfinished(each)), key=_order)


def unfinished_in(folder: Path) -> list[Path]:
    """The files whose recorders ended before the snapshot was complete. Raises OSError."""
    return [each for each in _files(folder) if _is_unfinished(each)]


def latest_name(folder: Path) -> tuple[str, int] | None:
    """The start time in the last name, and its number in that second. Raises OSError.

    This counts every name that is taken, whatever has it.
    """
    return max(map(_order, _named(folder)), default=None)


def _named(folder: Path) -> Iterator[Path]:
    return (each for each in folder.iterdir() if _NAME.match(each.name))


def _files(folder: Path) -> Iterator[Path]:
    return filter(Path.is_file, _named(folder))


def _is_unfinished(path: Path) -> bool:
    return path.name.endswith(UNFINISHED)


def _order(path: Path) -> tuple[str, int]:
    found = _NAME.match(path.name)
    assert found is not None
    return found[1], int(found[2] or 1)
