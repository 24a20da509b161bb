"""The page of a comparison, and the names of runs on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stowplan.sim.results.comparing import compare
from stowplan.sim.results.files import name_of
from stowplan.sim.results.page import page_of
from stowplan.sim.results.run import FORMAT, Run


def run_of(name: str, **samples: list[float]) -> Run:
    return Run(FORMAT, name, seconds=2.0, samples=samples)


def plotted(page: str) -> list[dict[str, Any]]:
    """The data of each plot."""
    return [
        json.loads(text)
        for text in re.findall(r'<script type="application/json">(.*?)</script>', page)
    ]


def legend(page: str) -> list[str]:
    return re.findall("</i>(.*?)</li>", page)


def test_a_run_without_a_series_of_another_has_an_empty_line() -> None:
    runs = [run_of("a", at=[0.0, 1.0], cpu=[0.5, 0.75]), run_of("b", at=[0.0, 1.0])]
    (plot,) = plotted(page_of(compare(runs)))
    first, second = (line["values"] for line in plot["lines"])
    assert first[0] == 50.0
    assert first[-1] == 75.0
    assert set(second) == {None}


@pytest.mark.parametrize(("count", "drawn"), [(6, 6), (7, 7), (12, 12), (15, 12)])
def test_every_run_is_drawn_in_a_way_of_its_own_or_left_out_in_words(
    count: int, drawn: int
) -> None:
    runs = [run_of(f"run {number}", at=[0.0], cpu=[0.5]) for number in range(count)]
    page = page_of(compare(runs))
    (plot,) = plotted(page)
    looks = {(line["colour"], line["isDashed"]) for line in plot["lines"]}
    assert len(looks) == len(plot["lines"]) == drawn
    assert legend(page) == [
        f"run {number}{' (dashed)' if number >= 6 else ''}" for number in range(drawn)
    ]
    said = f"The plots show the first 12 of {count} runs."
    assert (said in page) == (count > drawn)


def test_a_folder_has_a_name_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuesday" / "inner").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "tuesday")
    assert name_of(Path(), run_of("")) == "tuesday"
    monkeypatch.chdir("inner")
    assert name_of(Path(".."), run_of("")) == "tuesday"
    assert name_of(Path("../a.json.gz"), run_of("")) == "a.json.gz"
    assert name_of(Path(f"{'0' * 32}.json.gz"), run_of("its own")) == "its own"
