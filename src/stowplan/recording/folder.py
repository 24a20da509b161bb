"""Names of the files in a folder of recordings: `2026-01-02T030405Z.jsonl.gz`, by start time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SUFFIX: Final = ".jsonl.gz"
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d{6}Z)(?:-(\d{1,9}))?\.jsonl\.gz$", re.ASCII)


def files_in(folder: Path) -> list[Path]:
    """The recordings in a folder, oldest first. Other files are ignored. Raises OSError."""
    return sorted((each for each in folder.iterdir() if _NAME.match(each.name)), key=order)


def order(path: Path) -> tuple[str, int]:
    """The start time in a file's name, and the number of the file among those of that second."""
    found = _NAME.match(path.name)
    assert found is not None
    return found[1], int(found[2] or 1)
