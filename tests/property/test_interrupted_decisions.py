"""Decisions that are interrupted anywhere, and made again: the same answers as without that.

One profile keeps columns and shapes, and its decisions are interrupted at any call of a plugin,
and by the work that plugins count themselves, while other pods are decided in between. The other
keeps nothing and is never interrupted. What an interruption leaves behind must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.work import DecisionDeferred, Work
from stowplan.framework import forms
from stowplan.framework.profile import Profile
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from tests.examples import examples
from tests.property.clusters import clusters
from tests.property.test_cycle import World, _shown
from tests.property.test_shapes import TEMPLATES, _default_profile, _populate, _turns
from tests.unit.scheduler.engine_bench import changed

Turns = list[tuple[list[tuple[str, Any]], int, int, bool]]


def _spending(method: Callable[..., Any], work: Work) -> Callable[..., Any]:
    """The method; it may be interrupted before it begins and after it has ended."""

    def run(*args: Any) -> Any:
        work.spend(1)
        answer = method(*args)
        work.spend(1)
        return answer

    return run


def _interruptible(profile: Profile, work: Work) -> Profile:
    for points in (profile.pre_filters, profile.pre_scores):
        points[:] = [(name, _spending(method, work)) for name, method in points]
    for step in (*profile.filters, *profile.scores):
        for form in ("_columns", "_row", "_normalize"):
            method = getattr(step, form, None)
            if method is not None:
                setattr(step, form, _spending(method, work))
    return profile


def _decide_interrupted(
    world: World, asker: Pod, profile: Profile, number: int, dice: Random
) -> tuple[Decision, int]:
    """As the engine does: again and again, with others in between, and at last without limit."""
    table = world.cache.table
    nominated = world.nominated if len(world.nominated) else None
    interruptions = 0
    for limit in (*(dice.choice([0, 1, 3, 10, 40]) for _ in range(dice.randrange(4))), None):
        if limit is not None:
            table.work.limit(limit)
        try:
            decision = decide(
                table,
                compile_pod(asker),
                profile,
                cursor=world.cursor,
                turn=number,
                nominated=nominated,
            )
            return decision, interruptions
        except DecisionDeferred:
            interruptions += 1
        finally:
            table.work.unlimit()
        if dice.random() < 0.3:
            decide(table, compile_pod(dice.choice(TEMPLATES)), profile, nominated=nominated)
    raise AssertionError("the last has no limit")


def _play(world: World, turns: Turns, kept: Profile, plain: Profile, dice: Random) -> int:
    number = interruptions = 0
    for changes, place, times, is_placed in turns:
        for action, what in changes:
            world.change(action, what)
        for _ in range(times):
            number += 1
            template = TEMPLATES[place % len(TEMPLATES)]
            asker = changed(template, name=f"asker-{number}", uid=f"asker-uid-{number}")
            first, interrupted = _decide_interrupted(world, asker, kept, number, dice)
            interruptions += interrupted
            second = decide(
                world.cache.table,
                compile_pod(asker),
                plain,
                cursor=world.cursor,
                turn=number,
                nominated=world.nominated if len(world.nominated) else None,
            )
            assert _shown(first) == _shown(second)
            assert first.eviction == second.eviction
            world.cursor = first.cursor
            if is_placed and first.node is not None:
                world.assume(asker, first.node)
    return interruptions


@examples(60)
@given(
    cache=clusters(),
    turns=_turns,
    limit=st.sampled_from([900, 5000, 1 << 22, 1 << 22]),
    few=st.sampled_from([0, 4]),
    seed=st.integers(0, 1 << 20),
)
def test_interruptions_change_nothing(
    cache: ClusterCache, turns: Turns, limit: int, few: int, seed: int
) -> None:
    _populate(cache)
    kept = _interruptible(_default_profile(cache, limit), cache.table.work)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "FEW_ROWS", few)
        _play(World(cache), turns, kept, _default_profile(cache, 0), Random(seed))


def test_decisions_of_these_tests_are_interrupted() -> None:
    """Else they would prove nothing."""
    cache = ClusterCache()
    _populate(cache)
    kept = _interruptible(_default_profile(cache, 1 << 22), cache.table.work)
    turns: Turns = [([], place, 4, True) for place in range(len(TEMPLATES))]
    plain = _default_profile(cache, 0)
    assert _play(World(cache), turns, kept, plain, Random(1)) > 20
