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
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {type(None), asyncio.CancelledError}
    async with asyncio.timeout(5):
        for _ in range(3):
            await turns.__aenter__()


async def test_a_turn_given_back_while_a_waiting_one_is_cancelled() -> None:
    turns, order = Turns(1), list[int]()
    releases = [asyncio.Event() for _ in range(3)]
    tasks = [asyncio.create_task(hold(turns, releases[i], order, i)) for i in range(3)]
    await asyncio.sleep(0)
    releases[0].set()
    tasks[1].cancel()  # it hears of that after the first has given its turn back
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    releases[2].set()
    await tasks[2]
    assert order == [0, 2]


async def test_trouble_halves_the_limit_once_for_all_that_were_under_way() -> None:
    turns = Turns(64)
    for _ in range(64):
        turns.answered()
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


async def test_it_begins_with_few_and_every_answer_lets_in_one_more() -> None:
    turns, order = Turns(16), list[int]()
    releases = [asyncio.Event() for _ in range(20)]
    tasks = [asyncio.create_task(hold(turns, releases[i], order, i)) for i in range(20)]
    running = []
    for i in range(16):
        await asyncio.sleep(0)
        running.append(len(order) - i)
        releases[i].set()
        await tasks[i]
        turns.answered()
        await asyncio.sleep(0)
    assert running[:5] == [4, 5, 6, 7, 8]
    assert turns.limit == 16
    for release in releases:
        release.set()
    await asyncio.gather(*tasks)


def test_after_trouble_it_grows_slowly() -> None:
    turns = Turns(64)
    for _ in range(64):
        turns.answered()
    turns.refused()
    assert turns.limit == 32
    for _ in range(32):
        turns.answered()
    assert turns.limit in (32, 33)
