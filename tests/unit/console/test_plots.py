"""Plots: text that cannot break out of the page, and the data of charts."""

from __future__ import annotations

import json
import re

from stowplan.console.plots import Bar, Mark, Series, bars, lines

BAD = "</script><b>"


def test_labels_are_escaped() -> None:
    drawn = bars(BAD, [Bar(BAD, 1.0, 0.5, 2.0, BAD, "line-1", BAD)], mark=1.0)
    series = [Series(BAD, [1.0, 3.0], "line-1")]
    drawn += lines(BAD, BAD, [0.0, 2.0], series, until_s=2.0, marks=[Mark(1.0, BAD)])
    assert BAD not in drawn
    assert drawn.count("</script>") == 1


def test_a_chart_carries_its_data() -> None:
    series = [Series("a", [1, 3], "line-1"), Series("b", [2, None], "faint", dashed=True)]
    marks = [Mark(5.0, "node <a> fails")]
    drawn = lines("x", "pods", [0, 10], series, until_s=10, marks=marks, unit="%", steps=True)
    found = re.search(r"<script[^>]*>(.*)</script>", drawn)
    assert found is not None
    assert json.loads(found[1]) == {
        "at": [0, 10],
        "lines": [
            {"values": [1, 3], "colour": "--line-1", "isDashed": False},
            {"values": [2, None], "colour": "--faint", "isDashed": True},
        ],
        "until": 10,
        "unit": "%",
        "steps": True,
        "marks": [[5.0, "node <a> fails"]],
    }
