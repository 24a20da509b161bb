"""Plots: round numbers on their axes, and text that cannot break out of the page."""

from __future__ import annotations

import pytest

from stowplan.present.plots import Bar, Series, bars, lines, nice_steps


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
