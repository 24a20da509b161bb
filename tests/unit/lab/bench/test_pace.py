"""Samples of the machine's own speed."""

from __future__ import annotations

import asyncio

import pytest

from stowplan.lab.bench import pace
from stowplan.lab.bench.pace import Pace, fixed_work_s
from tests.replacing import replace


def test_the_work_takes_some_time() -> None:
    assert fixed_work_s() > 0


async def test_samples_are_taken_from_begin_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    enough = asyncio.Event()
    taken = iter((1.0, 5.0, 2.0))

    def sample() -> float:
        found = next(taken)
        if found == 2.0:
            enough.set()
        return found

    monkeypatch.setattr(pace, "_EVERY_S", 0.001)
    replace(monkeypatch, pace, pace.fixed_work_s)(sample)
    measured = Pace()
    assert Pace().median_s is None
    measured.begin()
    await asyncio.wait_for(enough.wait(), 30)
    measured.end()
    await asyncio.sleep(0.02)  # another sample would fail
    assert measured.median_s == 2.0
    measured.end()
