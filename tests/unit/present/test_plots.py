"""Plots: round numbers on their axes, and text that cannot break out of the page."""

from __future__ import annotations

import pytest

from stowplan.present.plots import Bar, Mark, Series, bars, lines, nice_steps, time_steps


@pytest.mark.parametrize("highest", [0.003, 0.7, 1, 3, 8.4, 99, 1644, 120_000])
def test_axes_have_round_numbers_that_cover_everything(highest: float) -> None:
    steps = nice_steps(highest)
    assert steps[0] == 0
    assert steps[-1] >= highest * 0.999999
    assert steps[-2] < highest
    assert 3 <= len(steps) <= 7
    assert all(f"{step:g}".strip("0.").replace(".", "") for step in steps[1:])


def test_labels_are_escaped() -> None:
    bad = "<b>"
    drawn = bars(bad, [Bar(bad, 1.0, 0.5, 2.0, bad, "ours", bad)], mark=1.0)
    drawn += lines(bad, bad, [Series(bad, [(0.0, 1.0), (2.0, 3.0)], "ours")], until_s=2.0)
    assert bad not in drawn


def test_points_are_scaled_to_the_axes() -> None:
    drawn = lines("a", "b", [Series("c", [(0.0, 0.0), (5.0, 4.0)], "ours")], until_s=10.0)
    assert 'points="0.0,300.0 500.0,0.0"' in drawn


@pytest.mark.parametrize(
    ("until", "texts"),
    [
        (2.0, ["0 s", "0.5 s", "1 s", "1.5 s", "2 s"]),
        (90.0, ["0 s", "20 s", "40 s", "60 s", "80 s"]),
        (3_599.0, ["0 min", "10 min", "20 min", "30 min", "40 min", "50 min"]),
        (36_630.0, ["0 h", "2 h", "4 h", "6 h", "8 h", "10 h"]),
        (600_000.0, ["0 d", "2 d", "4 d", "6 d"]),
    ],
)
def test_a_time_axis_has_round_times_in_a_fitting_unit(until: float, texts: list[str]) -> None:
    steps = time_steps(until)
    assert [text for _, text in steps] == texts
    assert steps[0][0] == 0
    assert steps[-1][0] <= until


def test_marks_are_lines_with_their_text() -> None:
    text = lines("x", "pods", [Series("a", [(0, 1), (10, 3)], "used")], until_s=10, marks=MARKS)
    assert '<line class="mark" x1="500.0" x2="500.0"' in text
    assert "<title>node &lt;a&gt; fails</title>" in text


def test_an_axis_of_whole_numbers_has_no_fractions() -> None:
    for highest in range(1, 40):
        drawn = lines("x", "pods", [Series("a", [(0, 0), (1, highest)], "used")], until_s=1)
        ups = drawn.partition('class="ups">')[2].partition("</div>")[0]
        assert "." not in ups
        assert int(ups.partition("<span>")[2].partition("<")[0]) >= highest


MARKS = [Mark(5.0, "node <a> fails")]
