"""The environment as agents and Gymnasium's tools see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers import FlattenObservation

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.defaults import default_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.cycle import judge
from stowplan.sim.gym import ENV_ID, ClusterEnv, Step
from stowplan.sim.gym.episodes import Source
from stowplan.sim.traces import Event, Removal, load_trace
from tests.unit.sim.gym.clusters import (
    MIXED,
    at_random,
    first,
    play,
    some_node,
    some_pod,
    trace_of,
)

TRACES = Path(__file__).parents[4] / "examples" / "traces"


# Gymnasium warns by warnings.warn, and warnings are errors in our tests.
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"trace": MIXED},
        {"trace": MIXED, "with_scores": True, "max_nodes": 40, "reward": "wait_time"},
        {"trace": "web", "resources": ["example.com/license"], "reward": lambda step: 0},
    ],
)
def test_gymnasiums_own_checker_has_nothing_to_say(arguments: dict[str, Any]) -> None:
    env = gymnasium.make(ENV_ID, **arguments)
    check_env(env.unwrapped)
    env.close()


def test_it_is_known_by_name_and_runs_in_wrappers_and_vectors() -> None:
    flat = FlattenObservation(gymnasium.make("stowplan.gym:stowplan/Cluster-v0"))
    observation, _ = flat.reset(seed=1)
    assert flat.observation_space.contains(observation)
    vector = gymnasium.make_vec(ENV_ID, num_envs=2, trace=MIXED)
    seen, info = vector.reset(seed=1)
    assert seen["action_mask"].shape == (2, 16)
    assert info["pod"].shape == (2,)
    vector.step(np.argmax(seen["action_mask"], axis=1))
    vector.close()


def test_the_same_seed_and_actions_are_the_same_episode() -> None:
    one, other = ClusterEnv(MIXED), ClusterEnv(MIXED)
    steps = play(one, at_random(1), seed=7)
    assert data_equivalence(steps, play(other, at_random(1), seed=7), exact=True)
    # Also for an environment that has played before.
    assert data_equivalence(steps, play(one, at_random(1), seed=7), exact=True)
    assert len(steps) >= 150
    assert [step[:2] for step in steps] != [step[:2] for step in play(one, at_random(1), seed=8)]


def test_episodes_without_a_seed_go_on_from_the_last_one() -> None:
    env = ClusterEnv(MIXED)
    env.reset(seed=3)
    second, _ = env.reset()
    third, _ = env.reset()
    env.reset(seed=3)
    again, _ = env.reset()
    assert data_equivalence(second, again, exact=True)
    assert not data_equivalence(second, third, exact=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_masks_are_what_a_fresh_scheduler_says_of_the_same_cluster(seed: int) -> None:
    env = ClusterEnv(MIXED)
    observation, _ = env.reset(seed=seed)
    choose = at_random(seed)
    narrow = 0
    ended = False
    while not ended:
        question = env.question
        assert question is not None
        names = env.simulation.table.names
        shown = {names[row] for row in np.flatnonzero(observation["action_mask"])}
        assert shown == _feasible(env.simulation.engine.cache, question.info.pod)
        narrow += len(shown) < observation["exists"].sum()
        observation, _, ended, _, _ = env.step(choose(observation))
    assert narrow > 20, "the trace should have pods that do not fit everywhere"


def _feasible(cache: ClusterCache, pod: Any) -> set[str]:
    """By an engine of its own, which knows the nodes and pods of the other by heart."""
    engine = build_engine(default_config(), registry=in_tree_registry())
    for row in cache.table.order.tolist():
        engine.cache.set_node(cache.table.node(row))
    for pods in cache.table.pods:
        for info in pods.values():
            engine.cache.add_pod(info.pod)
    for resource in engine.looked_up():
        for thing in cache.catalog[resource]:
            engine.cache.catalog[resource].set(thing)
    profile = engine.profiles["default-scheduler"]
    decision = judge(engine.cache.table, compile_pod(pod), profile)
    assert decision.scores is not None
    return {engine.cache.table.names[row] for row in decision.scores.rows}


def test_no_node_is_overfull_whatever_the_agent_does() -> None:
    env = ClusterEnv({"preset": "batch", "nodeCount": 3, "podCount": 200}, max_nodes=5)
    steps = play(env, at_random(5, masked=False))
    refused = sum(not info["has_placed"] for _, _, _, info, _ in steps)
    assert refused > 50
    waited = 0
    for *_, info, observation in steps:
        assert (observation["requested"] <= observation["allocatable"] + 1e-3).all()
        waited = max(waited, info["waiting"])
    assert waited > 1
    table = env.simulation.table
    assert (table.requested <= table.allocatable).all()


def test_an_infeasible_action_costs_a_penalty_and_the_pod_waits_out_its_backoff() -> None:
    trace = trace_of([some_node("a"), some_node("b", cpu=2)], [some_pod(5, "big", cpu_milli=3000)])
    env = ClusterEnv(trace, max_nodes=3, reward="wait_time", penalty=2.5)
    observation, info = env.reset()
    assert observation["action_mask"].tolist() == [1, 0, 0]
    # The queue's backoff of 1, 2 and 4 seconds, each to the end of its window of a second.
    for action, pause in ((1, 2), (2, 3), (1, 5)):
        before = info["time"]
        observation, reward, terminated, _, info = env.step(action)
        assert (info["has_placed"], terminated, info["pod"]) == (False, False, "default/big")
        assert info["time"] - before == pytest.approx(pause, abs=1e-3)
        assert reward == pytest.approx(-2.5 - pause / 3600, abs=1e-5)
        assert observation["pod_age"][0] == pytest.approx(info["time"] - 5, abs=1e-3)
    observation, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["placed"]) == (0.0, True, 1)
    assert not observation["action_mask"].any()


def test_an_agent_that_never_places_anything_is_cut_off() -> None:
    trace = trace_of([some_node("a")], [some_pod(0, "one")])
    env = ClusterEnv(trace, max_nodes=2, max_steps=7)
    steps = play(env, lambda observation: 1)
    assert len(steps) == 7
    with pytest.raises(gymnasium.error.ResetNeeded, match="has ended"):
        env.step(0)
    assert len(play(ClusterEnv(trace, max_nodes=2), lambda observation: 1)) == 1000


def test_an_episode_ends_when_nothing_is_left_to_decide() -> None:
    events = [some_pod(at, f"pod-{at}", cpu_milli=3000, run_s=100) for at in range(3)]
    never = some_pod(1, "never", cpu_milli=9000)
    env = ClusterEnv(trace_of([some_node("a")], [*events[:2], never, events[2]]))
    steps = play(env, first)
    assert [pod for pod, *_ in steps] == ["default/pod-0", "default/pod-1", "default/pod-2"]
    info = steps[-1][3]
    assert (info["placed"], info["waiting"], info["pod"]) == (3, 1, "")
    # Each had to wait for the one before it to end.
    assert [step[3]["time"] for step in steps[:2]] == [100.0, 200.0]


def test_an_episode_ends_although_pods_wait_for_a_node_that_will_never_be() -> None:
    events: list[Event] = [
        some_pod(0, "one"),
        Removal(10, "v1", "Node", "", "a"),
        some_pod(20, "two", schedulingGates=[{"name": "later"}]),
    ]
    env = ClusterEnv(trace_of([some_node("a")], events))
    steps = play(env, first)
    assert [(step[0], step[3]["waiting"]) for step in steps] == [("default/one", 2)]


def test_what_is_shown_of_nodes_and_pods() -> None:
    nodes = [some_node("a", zone="z1"), some_node("b", cpu=8, zone="z2"), some_node("c")]
    env = ClusterEnv(
        trace_of(nodes, [some_pod(0, "one", cpu_milli=1500), some_pod(30, "two")]),
        max_nodes=4,
        resources=["example.com/license"],
    )
    assert env.resources == ("cpu", "memory", "pods", "example.com/license")
    env.reset()
    observation, *_ = env.step(1)
    assert observation["allocatable"].tolist() == [
        [4, 16, 110, 0],
        [8, 16, 110, 0],
        [4, 16, 110, 0],
        [0, 0, 0, 0],
    ]
    assert observation["requested"].tolist() == [[0] * 4, [1.5, 1, 1, 0], [0] * 4, [0] * 4]
    assert observation["exists"].tolist() == [1, 1, 1, 0]
    assert observation["zone"].tolist() == [0, 1, -1, -1]
    assert observation["pod_requests"].tolist() == [1, 1, 1, 0]
    assert observation["time"].tolist() == [30]
    assert env.action_masks().tolist() == [True, True, True, False]


def test_traces_from_files() -> None:
    combined = load_trace(TRACES / "pods.csv", nodes=TRACES / "nodes.csv")
    sources: list[Source] = [TRACES / "recording.jsonl", str(TRACES / "export.yaml"), combined]
    environments = [ClusterEnv(source) for source in sources]
    assert [env.action_space.n for env in environments] == [3, 2, 6]
    assert [play(env, first)[-1][3]["placed"] for env in environments] == [2, 2, 28]


def test_a_reward_of_ones_own_is_told_what_happened() -> None:
    told: list[Step] = []

    def reward(step: Step) -> int:
        told.append(step)
        return len(told)

    env = ClusterEnv(
        trace_of([some_node("a")], [some_pod(0, "one"), some_pod(60, "two")]), reward=reward
    )
    assert [step[2] for step in play(env, first)] == [1.0, 2.0]
    assert [(step.pod.key, step.node, step.elapsed_s) for step in told] == [
        ("default/one", "a", 60.0),
        ("default/two", "a", 0.0),
    ]


def test_without_gymnasium_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import stowplan.sim.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ModuleNotFoundError: stowplan.gym needs Gymnasium, which is not installed:"
        " pip install 'stowplan[gym]'"
    )
