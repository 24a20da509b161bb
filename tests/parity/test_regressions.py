"""Questions that were answered differently once, or easily could be: see regressions.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.compare import difference
from tests.parity.examine import Examiner
from tests.parity.oracle import Oracle
from tests.parity.regressions import FOLDER, read, replay

FILES = sorted(FOLDER.glob("*.json"))


def test_there_are_some() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_we_answer_as_kept(path: Path) -> None:
    kept = read(path)
    found = replay(kept)
    assert found is None, f"{kept['about']}\n{found}"


@pytest.mark.e2e
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_upstream_answers_as_kept(path: Path, oracle: Oracle) -> None:
    kept = read(path)
    answers = Examiner(oracle).answers(kept["question"])
    for said, theirs in zip(answers, kept["answers"], strict=True):
        assert difference(said, theirs) is None
