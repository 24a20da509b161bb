"""What a user of the environment may do wrong, and the words that answer it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from stowplan import Plugin, wait
from stowplan.config.load import parse_config
from stowplan.errors import ConfigError, StowplanError
from stowplan.plugins.registry import in_tree_registry
from stowplan.sim.gym import ClusterEnv
from stowplan.sim.traces import Arrival
from tests.unit.sim.gym.clusters import first, play, some_node, some_pod, trace_of

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NO_SCORES = (
    HEAD
    + "profiles:\n- plugins:\n    score: {disabled: [{name: '*'}]}\n"
    + "    preScore: {disabled: [{name: '*'}]}\n"
)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"trace": "smal"}, "trace: `smal` is neither a file nor a preset; presets: small, "),
        ({"trace": 3}, "trace: expected a Trace, a description, a preset or a file, got int"),
        ({"trace": {"preset": "large"}}, "there is no large; there are small, web"),
        ({"trace": {"podCount": 3}}, "description"),
        (
            {"trace": trace_of([], [])},
            "trace: has no nodes; `stowplan.traces.load_trace(file, nodes=...)`",
        ),
        ({"max_nodes": 2}, "max_nodes: is 2, but there are 3 nodes in the trace"),
        ({"max_steps": 0}, "max_steps: is 0, but at least 1 is needed"),
        ({"resources": ["cpus"]}, "resources: `cpus` is not a resource that pods can request"),
        ({"reward": "speed"}, "reward: there is no `speed`; there are balance, utilisation"),
        ({"reward": 3}, "reward: expected a name or a function, got 3"),
        ({"config": "nowhere.yaml"}, "nowhere.yaml: cannot be read"),
        (
            {"config": parse_config(HEAD + "extenders: [{urlPrefix: 'http://127.0.0.1:1'}]\n")},
            "extenders: are not asked by the environment",
        ),
    ],
)
def test_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as told:
        ClusterEnv(**arguments)
    assert words in str(told.value)


def test_a_file_that_is_no_trace_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "trace.yaml"
    file.write_text("jobs: []\n")
    with pytest.raises(ConfigError, match=r"trace\.yaml: is not a trace"):
        ClusterEnv(file)


def test_a_profile_that_stops_at_the_first_node_leaves_nothing_to_choose() -> None:
    config = parse_config(NO_SCORES)
    with pytest.raises(ConfigError, match=r"profile default-scheduler: no plugin scores"):
        ClusterEnv(config=config, with_scores=True).reset()
    observation, _ = ClusterEnv(config=config).reset()
    assert observation["action_mask"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("action", [-1, 3, 1.5, "node-1", None])
def test_actions_that_are_no_index(action: Any) -> None:
    env = ClusterEnv()
    env.reset()
    with pytest.raises(gymnasium.error.InvalidAction, match="not the index of a node: 0 to 2"):
        env.step(action)


def test_steps_out_of_turn() -> None:
    env = ClusterEnv()
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(np.int64(0))
    play(env, first)
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode has ended"):
        env.step(np.int64(0))


def test_a_trace_that_nobody_can_decide_anything_about() -> None:
    env = ClusterEnv(trace_of([some_node("a")], [some_pod(0, "big", cpu_milli=9000)]))
    with pytest.raises(StowplanError, match="nothing to decide: no pod of the trace ever fits"):
        env.reset()


def test_a_node_too_many() -> None:
    events = [some_pod(0, "one"), Arrival(10, some_node("b")), some_pod(20, "two")]
    env = ClusterEnv(trace_of([some_node("a")], events))
    env.reset()
    with pytest.raises(ConfigError, match=r"node b is one too many.* 1 nodes; set max_nodes="):
        env.step(0)


def test_objects_that_an_api_server_would_refuse() -> None:
    pod = some_pod(0, "one", priorityClassName="urgent")
    with pytest.raises(ConfigError, match="pod one: its PriorityClass urgent is not in the trace"):
        ClusterEnv(trace_of([some_node("a")], [pod])).reset()
    wrong = some_pod(0, "one", tolerations="all")
    with pytest.raises(ConfigError, match=r"Pod one: .*tolerations"):
        ClusterEnv(trace_of([some_node("a")], [wrong])).reset()


class Holds(Plugin):
    name = "Holds"

    def permit(self, cycle: Any, pod: Any, node: str) -> Any:
        return wait("for others"), 30.0


def test_a_plugin_that_holds_pods_in_permit() -> None:
    registry = in_tree_registry()
    registry.register(Holds)
    config = parse_config(HEAD + "profiles: [{plugins: {permit: {enabled: [{name: Holds}]}}}]\n")
    env = ClusterEnv(config=config, registry=registry)
    env.reset()
    with pytest.raises(StowplanError, match="Holds holds pod default/job-0 in Permit"):
        env.step(0)
