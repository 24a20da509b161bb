"""What `stowplan explain --fix` says of the commonest causes, word for word."""

from __future__ import annotations

import pytest

from tests.unit.explain.cases import CASES, TEXTS, shown


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_as_recorded(name: str) -> None:
    assert shown(name) == (TEXTS / f"{name}.txt").read_text()


def test_every_recorded_text_is_of_a_case() -> None:
    assert {each.stem for each in TEXTS.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_it_fits_on_a_narrow_terminal(name: str) -> None:
    """But for commands, which are copied, for scores, and for words that are longer than that."""
    for line in shown(name, 60).splitlines():
        is_whole = line.strip().startswith("kubectl ") or " " not in line.strip()
        is_figure = line.split()[-1:] and line.split()[-1].isdecimal()
        assert len(line) <= 60 or is_whole or is_figure or "worker-1  worker-2" in line, line


def test_a_wide_table_is_a_list_on_a_narrow_terminal() -> None:
    text = shown("cpu", 60)
    assert "NODES   PLUGIN" not in text
    assert "3 nodes: Insufficient cpu (NodeResourcesFit): worker-1,\n  worker-2, worker-3\n" in text
