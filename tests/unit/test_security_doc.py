"""Every claim of docs/security.md names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text()
TESTS = re.findall(r"^\| .* \| `(tests/[^`]*)` \|$", TEXT, re.MULTILINE)


def test_each_claim_has_a_test() -> None:
    rows = TEXT.partition("## Claims")[2].partition("## What is not")[0]
    claims = [row for row in re.findall(r"^\| .* \|$", rows, re.MULTILINE) if "| test |" not in row]
    assert len(claims) == len(TESTS) > 30


@pytest.mark.parametrize("named", TESTS)
def test_the_test_exists(named: str) -> None:
    file, _, function = named.partition("::")
    assert f"def {function or 'test_'}" in (ROOT / file).read_text()
