"""Waiting takes no time, and everything happens in the order it would."""

from __future__ import annotations

import asyncio

import pytest

from stowplan.clock import VirtualClock
from stowplan.sim.virtual.time_loop import Deadlock, TimeLoop, run_virtually


def test_an_hour_passes_at_once() -> None:
    async def work(loop: TimeLoop) -> float:
        began = loop.clock.monotonic()
        await asyncio.sleep(3600)
        return loop.clock.monotonic() - began

    # In real time this test would be stopped long before.
    assert run_virtually(work) == pytest.approx(3600)


def test_timers_fire_in_their_order_and_at_their_time() -> None:
    heard: list[tuple[str, float]] = []

    async def work(loop: TimeLoop) -> None:
        began = loop.time()

        async def say(what: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            heard.append((what, round(loop.time() - began, 6)))

        await asyncio.gather(say("late", 5), say("early", 0.001), say("between", 2))

    run_virtually(work)
    assert heard == [("early", 0.001), ("between", 2.0), ("late", 5.0)]


def test_a_timeout_ends_what_would_take_longer() -> None:
    async def work(loop: TimeLoop) -> float:
        began = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.sleep(1000)
        return loop.time() - began

    assert run_virtually(work) == pytest.approx(7)


def test_at_rest_comes_after_everything_of_the_moment_and_before_time_passes() -> None:
    heard: list[str] = []

    async def work(loop: TimeLoop) -> None:
        async def chain(length: int) -> None:
            for number in range(length):
                await asyncio.sleep(0)
                heard.append(f"step {number}")

        async def later() -> None:
            await asyncio.sleep(1)
            heard.append("later")

        tasks = [asyncio.create_task(chain(3)), asyncio.create_task(later())]
        began = loop.time()
        await loop.at_rest()
        heard.append("rest")
        assert loop.time() == began
        await loop.passed()
        heard.append("passed")
        await asyncio.gather(*tasks)

    run_virtually(work)
    assert heard == ["step 0", "step 1", "step 2", "rest", "later", "passed"]


def test_nothing_left_to_happen_is_an_error_for_who_waits_for_time() -> None:
    async def work(loop: TimeLoop) -> None:
        with pytest.raises(Deadlock, match="every task waits for another one"):
            await loop.passed()

    run_virtually(work)


def test_somebody_elses_thread_is_waited_for() -> None:
    async def work(loop: TimeLoop) -> int:
        return await asyncio.to_thread(sum, [1, 2, 3])

    assert run_virtually(work) == 6


def test_the_clock_is_the_callers_if_he_has_one() -> None:
    clock = VirtualClock(start=10.0)
    loop = TimeLoop(clock)
    try:
        loop.run_until_complete(asyncio.sleep(5))
    finally:
        loop.close()
    assert clock.monotonic() == pytest.approx(15.0)
    assert loop.time() == clock.monotonic()


def test_what_the_work_raises_comes_out() -> None:
    async def work(loop: TimeLoop) -> None:
        raise LookupError("nowhere")

    with pytest.raises(LookupError, match="nowhere"):
        run_virtually(work)


def test_a_timer_fires_at_its_time_and_no_moment_earlier() -> None:
    """A task that waits for the rest of a pause must not find a rest that never gets less."""

    async def work(loop: TimeLoop) -> int:
        waits = 0
        due = loop.time() + 0.1 + 0.2
        while (rest := due - loop.time()) > 0:
            await asyncio.sleep(rest)
            waits += 1
        return waits

    assert run_virtually(work) <= 2


def test_timers_of_one_moment_fire_in_the_order_they_were_set() -> None:
    async def work(loop: TimeLoop) -> list[int]:
        fired: list[int] = []
        when = loop.time() + 5
        for number in range(20):
            loop.call_at(when, fired.append, number)
        await asyncio.sleep(6)
        return fired

    assert run_virtually(work) == list(range(20))


def test_cancelled_timers_are_forgotten_long_before_their_time() -> None:
    async def work(loop: TimeLoop) -> int:
        for _ in range(10_000):
            loop.call_later(3600, print).cancel()
        return len(loop._timers)

    assert run_virtually(work) < 300
