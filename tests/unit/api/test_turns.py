"""The number of requests at a time: never above the limit, none lost, and it follows the server."""

from __future__ import annotations

import asyncio
import random

import pytest

from stowplan.api.turns import Turns


async def hold(turns: Turns, release: asyncio.Event, order: list[int], number: int) -> None:
    async with turns:
        order.append(number)
        await release.wait()


async def test_first_come_first_served() -> None:
    turns, order = Turns(2), list[int]()
    releases = [asyncio.Event() for _ in range(5)]
    tasks = [asyncio.create_task(hold(turns, releases[i], order, i)) for i in range(5)]
    await asyncio.sleep(0)
    assert order == [0, 1]
    for i in range(5):
        releases[i].set()
        await tasks[i]
    assert order == [0, 1, 2, 3, 4]


async def test_cancelling_loses_no_turn() -> None:
    """Whoever waits, has just been given a turn, or holds one, may be cancelled at any moment."""
    dice = random.Random(1)
    turns = Turns(3)
    running = 0

    async def work() -> None:
        nonlocal running
        async with turns:
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
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(5):
        for _ in range(3):
            await turns.__aenter__()


async def test_trouble_halves_the_limit_once_for_all_that_were_under_way() -> None:
    turns = Turns(64)
    for _ in range(20):
        await turns.__aenter__()
    for _ in range(20):
        turns.refused()
    assert turns.limit == 32
    turns.refused()
    assert turns.limit == 16


@pytest.mark.parametrize(("most", "least"), [(64, 4), (2, 2)])
def test_the_limit_has_a_floor_and_comes_back(most: int, least: int) -> None:
    turns = Turns(most)
    for _ in range(50):
        turns.refused()
    assert turns.limit == least
    for _ in range(most * most):
        turns.answered()
    assert turns.limit == most
