"""What `stowplan explain --fix` says of the commonest causes, word for word."""

from __future__ import annotations

import pytest

from tests.unit.explain.cases import CASES, TEXTS, shown


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_as_recorded(name: str) -> None:
    assert shown(name) == (TEXTS / f"{name}.txt").read_text()


def test_every_recorded_text_is_of_a_case() -> None:
    assert {each.stem for each in TEXTS.iterdir()} == set(CASES)
