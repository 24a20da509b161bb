"""Wakeups: a wait ends when rung, when its time is over, and when the scheduler stops."""

from __future__ import annotations

import asyncio

from stowplan.scheduler.wakeups import Wakeups


def _nothing() -> None:
    """Nobody has to know."""


async def test_ringing_ends_a_wait() -> None:
    wakeups = Wakeups(_nothing)
    wakeup = wakeups.new()
    waiting = asyncio.create_task(wakeup.wait(100))
    await asyncio.sleep(0)
    assert wakeups.waiting == 1
    wakeup.ring()
    assert await waiting is True
    assert wakeups.waiting == 0


async def test_ringing_before_the_wait_is_not_forgotten_and_counts_once() -> None:
    wakeup = Wakeups(_nothing).new()
    wakeup.ring()
    assert await wakeup.wait(100) is True
    second = asyncio.create_task(wakeup.wait(100))
    await asyncio.sleep(0)
    assert not second.done()
    second.cancel()


async def test_ringing_one_leaves_the_others_waiting() -> None:
    wakeups = Wakeups(_nothing)
    one, other = wakeups.new(), wakeups.new()
    waiting = asyncio.create_task(other.wait(100))
    await asyncio.sleep(0)
    one.ring()
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_time_ends_a_wait() -> None:
    assert await Wakeups(_nothing).new().wait(0.001) is True


async def test_closing_ends_all_waits_and_those_to_come() -> None:
    wakeups = Wakeups(_nothing)
    wakeup = wakeups.new()
    waiting = asyncio.create_task(wakeup.wait(100))
    await asyncio.sleep(0)
    wakeups.close()
    assert await waiting is False
    assert await wakeup.wait(100) is False
    assert await wakeups.new().wait(100) is False


async def test_whoever_counts_is_told_when_a_wait_begins() -> None:
    counts: list[int] = []
    wakeups = Wakeups(lambda: counts.append(wakeups.waiting))
    await wakeups.new().wait(0.001)
    assert counts == [1]
