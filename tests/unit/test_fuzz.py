"""`make fuzz`: what it covers, what it says and keeps of a failure, and that a seed repeats it."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import pytest

from tests import fuzz

FAILING = """\
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers())
def test_numbers_are_small(number: int) -> None:
    assert number < 1000
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one property test, which fails, and the profiles of this one."""
    tests = tmp_path / "tests"
    tests.mkdir()
    profiles = (fuzz.TESTS / "conftest.py").read_text().split("def pytest_configure")[0]
    (tests / "conftest.py").write_text(
        re.sub(r"^pytest_plugins = \[.*?\]$", "", profiles, flags=re.DOTALL | re.MULTILINE)
    )
    for needed in ("__init__.py", "examples.py"):
        (tests / needed).write_text((fuzz.TESTS / needed).read_text())
    machine = tests / "test_small.py"
    machine.write_text(FAILING)
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)
    monkeypatch.setattr(fuzz, "TESTS", tests)
    monkeypatch.setattr(fuzz, "FAILURES", tmp_path / "fuzz-failures")
    monkeypatch.setattr(fuzz, "MACHINE", machine)
    (tests / "test_fine.py").write_text(FAILING.replace("number < 1000", "number + 1 > number"))
    return tmp_path


def test_every_second_turn_is_the_machine_and_all_property_tests_have_theirs() -> None:
    others = fuzz.property_tests()
    assert fuzz.TESTS / "property" / "test_queue.py" in others
    assert fuzz.TESTS / "unit" / "present" / "test_markdown.py" in others
    order = list(islice(fuzz.turns(others), 2 * len(others)))
    assert order[::2] == [fuzz.MACHINE] * len(others)
    assert order[1::2] == others


def test_a_failure_is_reported_kept_and_not_the_end(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 0.0, 0.1, 10.0, 10.1, 100.0, 100.0])
    assert fuzz.explore(1, base=7, now=lambda: next(now)) == 1
    said = capsys.readouterr().out
    assert "SEED=7" in said
    assert "FAILED tests/test_small.py with seed 7" in said
    assert "--hypothesis-seed=7" in said
    assert "seed 8  test_fine.py: 500 examples" in said
    kept = (checkout / "fuzz-failures" / "test_small-7.txt").read_text()
    assert "number=1000" in kept
    assert "@reproduce_failure" in kept
