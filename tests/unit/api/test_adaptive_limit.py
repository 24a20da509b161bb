"""The number of requests at a time: never above the limit, none lost, and it follows the server."""

from __future__ import annotations

import asyncio
import random

import pytest

from stowplan.api.adaptive_limit import AdaptiveLimit


async def hold(limit: AdaptiveLimit, release: asyncio.Event, order: list[int], number: int) -> None:
    async with limit:
        order.append(number)
        await release.wait()


async def test_first_come_first_served() -> None:
    limit, order = AdaptiveLimit(2), list[int]()
    releases = [asyncio.Event() for _ in range(5)]
    tasks = [asyncio.create_task(hold(limit, releases[i], order, i)) for i in range(5)]
    await asyncio.sleep(0)
    assert order == [0, 1]
    for i in range(5):
        releases[i].set()
        await tasks[i]
    assert order == [0, 1, 2, 3, 4]


async def test_cancelling_leaks_no_slot() -> None:
    """A task may be cancelled while it waits, as it gets a slot, or while it holds one."""
    dice = random.Random(1)
    limit = AdaptiveLimit(3)
    running = 0

    async def work() -> None:
        nonlocal running
        async with limit:
            running += 1
            assert running <= 3
            try:
                await asyncio.sleep(dice.random() / 500)
            finally:
                running -= 1

    tasks = [asyncio.create_task(work()) for _ in range(300)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        dice.choice(tasks).cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {type(None), asyncio.CancelledError}
    async with asyncio.timeout(5):
        for _ in range(3):
            await limit.__aenter__()


async def test_a_slot_released_while_a_waiting_task_is_cancelled() -> None:
    limit, order = AdaptiveLimit(1), list[int]()
    releases = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(hold(limit, releases[i], order, i)) for i in range(3)]
    await asyncio.sleep(0)
    releases[0].set()
    tasks[1].cancel()  # the first task releases its slot before this one sees the cancellation
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    releases[2].set()
    await tasks[2]
    assert order == [0, 2]


async def test_trouble_halves_the_limit_once_for_all_that_were_under_way() -> None:
    limit = AdaptiveLimit(64)
    for _ in range(64):
        limit.answered()
    for _ in range(20):
        await limit.__aenter__()
    for _ in range(20):
        limit.refused()
    assert limit.limit == 32
    limit.refused()
    assert limit.limit == 16


@pytest.mark.parametrize(("most", "least"), [(64, 4), (2, 2)])
def test_the_limit_has_a_floor_and_comes_back(most: int, least: int) -> None:
    limit = AdaptiveLimit(most)
    for _ in range(50):
        limit.refused()
    assert limit.limit == least
    for _ in range(most * most):
        limit.answered()
    assert limit.limit == most


async def test_it_begins_with_few_and_every_answer_lets_in_one_more() -> None:
    limit, order = AdaptiveLimit(16), list[int]()
    releases = [asyncio.Event() for _ in range(20)]
    tasks = [asyncio.create_task(hold(limit, releases[i], order, i)) for i in range(20)]
    running = []
    for i in range(16):
        await asyncio.sleep(0)
        running.append(len(order) - i)
        releases[i].set()
        await tasks[i]
        limit.answered()
        await asyncio.sleep(0)
    assert running[:5] == [4, 5, 6, 7, 8]
    assert limit.limit == 16
    for release in releases:
        release.set()
    await asyncio.gather(*tasks)


def test_after_trouble_it_grows_slowly() -> None:
    limit = AdaptiveLimit(64)
    for _ in range(64):
        limit.answered()
    limit.refused()
    assert limit.limit == 32
    for _ in range(32):
        limit.answered()
    assert limit.limit in (32, 33)
