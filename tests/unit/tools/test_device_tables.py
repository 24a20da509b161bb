"""Recorded tables of upstream's tests: the same cases make the same lines, whenever they run."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tools.device_tables.__main__ import lines_of

SHARE, UID = "513c3ad8-973f-446d-9b5b-aca15b700ad7", "d9f6fb07-b3a2-49fa-a26d-3f0cac01bc29"
CASES: list[dict[str, Any]] = [
    {"table": "plugin", "name": "b", "now": "2026-11-18T01:47:35Z", "steps": [], "error": ""},
    {
        "table": "plugin",
        "name": "a",
        "now": "2026-11-18T01:47:40Z",
        "allocated": [["driver", "pool", "one"], ["driver", "pool", "two"]],
        "steps": [{"shareID": SHARE, "uid": UID, "again": SHARE}, "2026-11-18T01:47:41Z"],
    },
]


def test_the_order_of_cases_and_of_gos_maps_does_not_matter() -> None:
    other = copy.deepcopy(CASES[::-1])
    other[0]["allocated"].reverse()
    assert lines_of(other) == lines_of(CASES)
    assert [json.loads(line)["name"] for line in lines_of(CASES)] == ["a", "b"]


def test_uids_are_numbered_and_stay_apart() -> None:
    text = json.dumps(CASES).replace("513c3ad8", "00aa11bb").replace("d9f6fb07", "22cc33dd")
    assert lines_of(json.loads(text)) == lines_of(CASES)
    step = json.loads(lines_of(CASES)[0])["steps"][0]
    assert step["shareID"] == step["again"] != step["uid"]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # Written by the case, or when the tests began.
        (-2, "2026-01-01T00:00:00Z"),
        (90, "2026-01-01T00:00:00Z"),
        # Relative to the beginning of the case.
        (590, "2025-12-31T23:50:10Z"),
        (589, "2025-12-31T23:50:10Z"),
        # Ten minutes before the tests began.
        (601, "2025-12-31T23:49:00Z"),
        (697, "2025-12-31T23:49:00Z"),
    ],
)
def test_times_keep_their_distance_from_the_case(seconds: int, expected: str) -> None:
    minutes, rest = divmod(30 * 60 - seconds, 60)
    case = {"now": "2026-11-18T01:30:00Z", "at": f"2026-11-18T01:{minutes:02}:{rest:02}Z"}
    (line,) = lines_of([case])
    assert json.loads(line) == {"now": "2026-01-01T00:00:00Z", "at": expected}
