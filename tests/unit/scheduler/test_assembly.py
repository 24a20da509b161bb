"""From a configuration to an engine that decides."""

from __future__ import annotations

import logging
from random import Random

import pytest

from stowplan.config.load import parse_config
from stowplan.errors import ConfigError
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement
from stowplan.testing import node, pod

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def placements(profile: str, *, rng: Random | None = None, pods: int = 12) -> list[str]:
    """Where pods go that find eight equal nodes, one after the other and each gone before the
    next comes.
    """
    config = parse_config(f"{HEADER}profiles: [{profile}]\n")
    engine = build_engine(config, registry=in_tree_registry(), rng=rng)
    handlers = EventHandlers(engine)
    for number in range(8):
        handlers.add_node(node(f"n{number}"))
    chosen = []
    for number in range(pods):
        handlers.add_pod(pod(f"p{number}"))
        outcome = engine.attempt()
        assert isinstance(outcome, Placement)
        chosen.append(outcome.node)
        engine.cache.forget(outcome.pod.uid)
    return chosen


def test_ties_go_by_the_heap_unless_told_otherwise() -> None:
    assert placements("{}") == placements("{tieBreak: heap}")
    assert len(set(placements("{}"))) == 1


def test_ties_at_random_can_be_repeated() -> None:
    first = placements("{tieBreak: random, tieBreakSeed: 1}")
    assert len(set(first)) > 3
    assert placements("{tieBreak: random, tieBreakSeed: 1}") == first
    assert placements("{tieBreak: random, tieBreakSeed: 2}") != first


def test_without_a_seed_each_start_draws_its_own() -> None:
    first = placements("{tieBreak: random}", rng=Random(1))
    assert placements("{tieBreak: random}", rng=Random(1)) == first
    assert placements("{tieBreak: random}", rng=Random(2)) != first


def test_the_seed_that_was_drawn_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="stowplan"):
        placements("{tieBreak: random}", rng=Random(1), pods=0)
    (told,) = [r for r in caplog.records if "drawn at random" in r.message]
    assert told.__dict__["kv"] == {
        "profile": "default-scheduler",
        "seed": Random(1).getrandbits(63),
    }


def test_mistakes_of_several_plugins_are_told_at_once() -> None:
    config = parse_config(
        HEADER + "profiles:\n- plugins: {multiPoint: {enabled: [{name: RandomScore}, "
        "{name: RandomFilter}, {name: Nobody}]}}\n"
        "  pluginConfig: [{name: RandomScore, args: {sed: 1}}, "
        "{name: RandomFilter, args: {seed: x}}]\n"
    )
    with pytest.raises(ConfigError) as refused:
        build_engine(config, registry=in_tree_registry(), where="f.yaml")
    assert str(refused.value).split("\n") == [
        'f.yaml: profiles[0].plugins.multiPoint.enabled[2].name: Invalid value: "Nobody": '
        f"no such plugin (there are {', '.join(sorted(in_tree_registry().names))})",
        'f.yaml: profiles[0].pluginConfig[1].args.seed: Invalid value: "x": '
        "Expected `int`, got `str`",
        'f.yaml: profiles[0].pluginConfig[0].args.sed: unknown field; did you mean "seed"?',
    ]
