"""The cluster of an episode: what happens in it, and that it is the one of `stowplan simulate`."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.config.defaults import default_config
from stowplan.plugins.registry import in_tree_registry
from stowplan.sim.gym import ClusterEnv
from stowplan.sim.gym.simulation import Simulation
from stowplan.sim.scenarios import Cluster, Entry, Options, run_scenario
from stowplan.sim.scenarios.timeline import EntryKind
from stowplan.sim.scenarios.trace_play import play_trace
from stowplan.sim.traces import Arrival, Disruption, Event, Removal, Revision, Trace, generate
from stowplan.sim.traces.manifests import priority_class
from tests.unit.sim.gym.clusters import first, play, some_node, some_pod, standing, trace_of

#: Short lives, as a simulation looks at its queue every second.
TROUBLED: dict[str, Any] = {
    "pools": [
        {
            "name": "general",
            "count": 6,
            "cpu": 8,
            "memory": "32Gi",
            "zones": ["a", "b", "c"],
            "failures": {"meanTimeBetween": "20m", "meanTimeToRepair": "1m"},
            "drains": {"every": "2m", "lasts": "1m"},
        },
        {
            "name": "gpu",
            "count": 2,
            "cpu": 16,
            "memory": "64Gi",
            "gpu": 4,
            "labels": {"pool": "gpu"},
            "taints": ["nvidia.com/gpu=present:NoSchedule"],
        },
    ],
    "priorityClasses": [{"name": "serving", "value": 1000}],
    "applications": [
        {
            "name": "web",
            "initial": 12,
            "cpu": {"choice": ["500m", 1]},
            "memory": "1Gi",
            "duration": {"uniform": ["2m", "5m"]},
            "priorityClass": "serving",
            "spread": "zone",
            "apart": "node",
        },
        {
            "name": "batch",
            "weight": 3,
            "cpu": {"choice": [1, 2, 3]},
            "memory": {"choice": ["1Gi", "4Gi"]},
            "duration": {"uniform": ["30s", "4m"]},
        },
        {
            "name": "training",
            "cpu": 2,
            "memory": "8Gi",
            "gpu": {"choice": [1, 2, 4]},
            "duration": {"uniform": ["1m", "3m"]},
            "tolerations": ["nvidia.com/gpu=present:NoSchedule"],
        },
    ],
    "arrivals": {"kind": "poisson", "count": 70, "over": "6m"},
}


@pytest.mark.parametrize(
    ("description", "lost"),
    [({"preset": "batch", "nodeCount": 4, "podCount": 60}, 0), (TROUBLED, 10)],
    ids=["congested", "troubled"],
)
def test_who_follows_the_scheduler_ends_where_a_simulation_does(
    description: dict[str, Any], lost: int
) -> None:
    trace = generate(description, seed=5)
    simulation = Simulation(
        trace, default_config(), in_tree_registry(), max_nodes=trace.nodes, seed=0
    )
    placed: list[tuple[str, str, float]] = []
    while (question := simulation.next_question()) is not None:
        node = simulation.table.names[question.scheduler_choice]
        placed.append((question.info.pod.key, node, round(simulation.clock.monotonic(), 3)))
        assert simulation.answer(question.scheduler_choice)
    # Binding takes a simulation a few turns of its loop, in which others of the moment pass.
    assert sorted(placed, key=_moment) == sorted(_simulated(trace), key=_moment)
    assert simulation.lost >= lost


def _moment(placed: tuple[str, str, float]) -> tuple[float, str]:
    pod, _, at = placed
    return at, pod


def _simulated(trace: Trace) -> list[tuple[str, str, float]]:
    """Pods, their nodes, and when they were bound, on the virtual target with its API server."""
    bound: list[tuple[str, str, float]] = []
    began = 0.0

    def on_entry(entry: Entry) -> None:
        if entry.kind is EntryKind.BOUND:
            node = entry.text.removeprefix("bound to ")
            bound.append((entry.subject.removeprefix("pod "), node, round(entry.at - began, 3)))

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace)

    at_once = KubeletOptions(start_delay_s=0.0, stop_delay_s=0.0)
    options = Options(kubelet=at_once, on_entry=on_entry, keeps_entries=False)
    outcome = run_scenario(scenario, options=options)
    assert outcome.is_ok, outcome.problem
    return bound


def test_a_more_important_pod_takes_the_place_of_another_which_comes_again() -> None:
    classes = [priority_class("high", 100), priority_class("shy", 100, preempts=False)]
    events: list[Event] = [
        some_pod(0, "low", cpu_milli=3000),
        some_pod(10, "shy", cpu_milli=3000, priorityClassName="shy"),
        some_pod(20, "high", cpu_milli=3000, priorityClassName="high", run_s=50),
    ]
    env = ClusterEnv(trace_of([*classes, some_node("a")], events))
    steps = play(env, first)
    # Who was not allowed to evict has the same priority as who was, and came before the victim.
    assert [pod for pod, *_ in steps] == ["default/low", "default/high", "default/shy"]
    assert steps[1][3]["lost"] == 1
    assert standing(env) == {"shy": "a"}
    assert env.simulation.waiting == 1


def test_pods_of_a_failed_node_come_again_elsewhere() -> None:
    events: list[Event] = [
        some_pod(0, "one", run_s=100),
        Disruption(60, "fail", "a"),
        some_pod(70, "two"),
        Disruption(80, "recover", "a"),
        some_pod(90, "three"),
    ]
    env = ClusterEnv(trace_of([some_node("a"), some_node("b")], events))
    observation, info = env.reset()
    seen = [(info["pod"], observation["action_mask"].tolist(), info["time"])]
    ended = False
    while not ended:
        observation, _, ended, _, info = env.step(first(observation))
        seen.append((info["pod"], observation["action_mask"].tolist(), info["time"]))
    assert seen[:4] == [
        ("default/one", [1, 1], 0),
        ("default/one-r1", [0, 1], 60),
        ("default/two", [0, 1], 70),
        ("default/three", [1, 1], 90),
    ]
    assert info["finished"] == 0, "the second life of `one` is as long as its first"


def test_a_drain_empties_a_node_and_closes_it_until_it_is_uncordoned() -> None:
    events: list[Event] = [
        some_pod(0, "one"),
        Disruption(10, "drain", "a"),
        Disruption(20, "uncordon", "a"),
        some_pod(30, "two"),
    ]
    env = ClusterEnv(trace_of([some_node("a"), some_node("b")], events))
    assert [(pod, action) for pod, action, *_ in play(env, first)] == [
        ("default/one", 0),
        ("default/one-r1", 1),
        ("default/two", 0),
    ]


def test_nodes_come_and_go_and_rows_are_used_again() -> None:
    arriving = some_node("late", cpu=8)
    events: list[Event] = [
        some_pod(0, "one"),
        some_pod(5, "big", cpu_milli=6000),
        Arrival(10, arriving),
        Removal(20, "v1", "Node", "", "a"),
        Arrival(30, some_node("new")),
        some_pod(40, "two"),
    ]
    env = ClusterEnv(trace_of([some_node("a")], events), max_nodes=2)
    steps = play(env, first)
    assert [(pod, action) for pod, action, *_ in steps] == [
        ("default/one", 0),
        ("default/big", 1),
        ("default/one-r1", 1),
        ("default/two", 0),
    ]
    assert standing(env) == {"big": "late", "one-r1": "late", "two": "new"}


def test_a_pod_that_its_owner_removes_goes_under_whatever_name_it_came_again() -> None:
    events: list[Event] = [
        some_pod(0, "one"),
        some_pod(0, "waits", cpu_milli=9000),
        Disruption(10, "drain", "a"),
        Removal(20, "v1", "Pod", "default", "one"),
        Removal(20, "v1", "Pod", "default", "waits"),
        some_pod(30, "two"),
    ]
    env = ClusterEnv(trace_of([some_node("a"), some_node("b")], events))
    play(env, first)
    assert standing(env) == {"two": "b"}
    assert env.simulation.waiting == 0


def test_recorded_pods_stand_where_they_stood_and_labels_change() -> None:
    there = some_pod(0, "there", nodeName="a").manifest
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"role": "web"}},
                }
            ]
        }
    }
    metadata = {"name": "there", "namespace": "default", "labels": {"role": "web"}}
    events: list[Event] = [
        some_pod(0, "one", affinity=apart),
        Revision(10, {**there, "metadata": metadata}),
        some_pod(20, "two", affinity=apart),
        Removal(30, "v1", "Pod", "default", "there"),
        some_pod(40, "three", affinity=apart),
    ]
    env = ClusterEnv(trace_of([some_node("a"), some_node("b"), there], events))
    observation, _ = env.reset()
    assert observation["requested"][:, 0].tolist() == [1, 0]
    masks = [observation["action_mask"].tolist()]
    ended = False
    while not ended:
        observation, _, ended, _, _ = env.step(1)
        masks.append(observation["action_mask"].tolist())
    assert masks == [[1, 1], [0, 1], [1, 1], [0, 0]]


def test_a_pod_on_a_node_that_nobody_knows_is_not_shown() -> None:
    elsewhere = some_pod(0, "elsewhere", nodeName="unknown")
    later = some_pod(5, "later", nodeName="unknown")
    events: list[Event] = [elsewhere, some_pod(1, "one"), later, some_pod(9, "two")]
    env = ClusterEnv(trace_of([some_node("a")], events))
    *_, observation = play(env, first)[-1]
    assert observation["requested"].tolist() == [[2, 2, 2]]


def test_pods_of_the_trace_keep_the_names_of_replacements() -> None:
    """`web` comes again as `web-r2`, and its removal is not that of `web-r1`."""
    events: list[Event] = [
        some_pod(0, "web"),
        some_pod(0, "web-r1"),
        Disruption(10, "drain", "a"),
        Removal(20, "v1", "Pod", "default", "web"),
        some_pod(30, "end"),
        some_pod(40, "last"),
    ]
    env = ClusterEnv(trace_of([some_node("a"), some_node("b")], events))
    env.reset(seed=0)
    for node in (0, 1, 1, 1):
        env.step(node)
    assert standing(env) == {"web-r1": "b", "end": "b"}


def test_a_pod_that_was_cleaned_up_runs_to_its_end() -> None:
    """A pod that is to run 50 s is cleaned up after 10; another one of its name takes its place."""
    events: list[Event] = [
        some_pod(0, "job", run_s=50.0),
        some_pod(0, "daily", run_s=50.0),
        Removal(10, "v1", "Pod", "default", "job", is_clean_up=True),
        Removal(10, "v1", "Pod", "default", "daily", is_clean_up=True),
        some_pod(20, "daily", cpu_milli=2000),
        some_pod(40, "later"),
        some_pod(60, "end"),
        some_pod(70, "last"),
    ]
    env = ClusterEnv(trace_of([some_node("a")], events))
    _, info = env.reset(seed=0)
    seen, is_over = {}, False
    while not is_over:
        seen[info["pod"]] = standing(env)
        _, _, is_over, _, info = env.step(0)
    assert seen["default/later"] == {"job": "a", "daily": "a"}
    assert seen["default/end"] == {"daily": "a", "later": "a"}
