"""The libraries of others are the files that their tables name."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("src/stowplan/console/static/vendor", "tests/vendor")
ROW = re.compile(r"\| (\S+) \| [^|]+ \| [^|]+, (\S+) \| ([0-9a-f]{64}) \|")


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_have_the_checksums_and_licences_of_the_table(folder: str) -> None:
    rows = ROW.findall((ROOT / folder / "README.md").read_text("utf-8"))
    licences = {licence for _, licence, _ in rows}
    there = {each.name for each in (ROOT / folder).iterdir()}
    assert there == {"README.md", *licences, *(name for name, _, _ in rows)}
    for name, _, checksum in rows:
        assert hashlib.sha256((ROOT / folder / name).read_bytes()).hexdigest() == checksum, name


def test_there_is_no_other_folder_of_vendored_files() -> None:
    found = {
        str(each.relative_to(ROOT))
        for top in ("src", "tests", "tools", "docs", "deploy", "examples")
        for each in (ROOT / top).rglob("vendor")
    }
    assert found == set(FOLDERS)
