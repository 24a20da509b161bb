"""The cluster in memory: decisions, the queue, virtual time, and what goes wrong on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import stowplan
from stowplan import Cycle, EventHint, Plugin, Pod, Status
from stowplan.errors import ConfigError, NotFound
from stowplan.plugins.node_number import NodeNumber
from stowplan.scheduler.outcome import Placement
from stowplan.testing import MemoryCluster, node, pod
from tests.unit.testing.planted import GoodColumns, on_ssd


class Labels(Plugin):
    """Writes where the pod goes into an annotation before it is bound."""

    name = "Labels"

    async def pre_bind(self, cycle: Cycle, pod: Pod, node_name: str) -> Status | None:
        assert self.handle is not None
        from stowplan.api.resources import PODS

        patch = {"metadata": {"annotations": {"goes-to": node_name}}}
        meta = pod.metadata
        await self.handle.client.patch(PODS, meta.name, patch, namespace=meta.namespace)
        return None


class Tenth(Plugin):
    """Holds every pod back for ten seconds."""

    name = "Tenth"

    def permit(self, cycle: Cycle, pod: Pod, node_name: str) -> tuple[Status, float]:
        handle = self.handle
        assert handle is not None

        def allow() -> None:
            held = handle.waiting.get(pod.uid)
            if held is not None:
                held.allow(self.name)

        handle.call_later(10.0, allow)
        return stowplan.wait(), 30.0


class Announces(Plugin):
    """Writes an event of its own about every pod that is bound."""

    name = "Announces"

    def post_bind(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        assert self.handle is not None
        self.handle.record(pod, type="Normal", reason="Hello", action="Greeting", note=node_name)


class LargeOnly(Plugin):
    """Wants much memory; hears of new nodes only."""

    name = "LargeOnly"

    def filter(self, pod: Pod, node: stowplan.NodeView) -> str | bool:
        return node.allocatable("memory") >= 1 << 36 or "node(s) were too small"

    def events(self) -> list[EventHint]:
        return [EventHint(stowplan.ClusterEvent("Node", stowplan.ActionType.ADD))]


def test_a_plugin_writes_events_in_the_name_of_its_profile() -> None:
    with MemoryCluster(Announces) as cluster:
        cluster.add_node("n1")
        cluster.add_pod("web")
        cluster.clock.advance(10)
        written = cluster._request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        said = {event["reason"]: event for event in json.loads(written)["items"]}
        assert said["Hello"]["note"] == "n1"
        assert said["Hello"]["reportingController"] == "default-scheduler"


def test_decide_says_where_and_why_not_elsewhere() -> None:
    with MemoryCluster(on_ssd) as cluster:
        cluster.add_node("slow", labels={"disk": "hdd"})
        cluster.add_node("fast", labels={"disk": "ssd"})
        cluster.add_node("small", labels={"disk": "ssd"}, cpu="100m")
        verdict = cluster.decide("web", cpu="1")
        assert verdict.node == "fast"
        assert verdict.feasible == ["fast"]
        assert verdict.reasons("slow") == ("node(s) had no SSD",)
        assert verdict.nodes["slow"].plugin == "on_ssd"
        assert verdict.reasons("small") == ("Insufficient cpu",)
        assert verdict.nodes["small"].plugin == "NodeResourcesFit"
        assert verdict.score("fast", "TaintToleration") == 100
        assert cluster.placements == {}, "only asked"
        with pytest.raises(KeyError, match="there is no node nowhere; there are: slow"):
            verdict.reasons("nowhere")


def test_decide_tells_the_message_and_who_rejected() -> None:
    with MemoryCluster(on_ssd) as cluster:
        cluster.add_node("slow")
        verdict = cluster.decide("web")
        assert verdict.node == ""
        assert verdict.message.startswith("0/1 nodes are available: 1 node(s) had no SSD.")
        assert verdict.rejected_by == {"on_ssd"}
        assert cluster.decide(pod("other", priority=5)).pod == "default/other"


def test_scores_are_those_of_the_plugins() -> None:
    with MemoryCluster(NodeNumber, defaults=False) as cluster:
        for number in range(3):
            cluster.add_node(f"node{number}")
        verdict = cluster.decide("pod2")
        assert verdict.node == "node2"
        assert {name: verdict.score(name, "NodeNumber") for name in verdict.nodes} == {
            "node0": 0,
            "node1": 0,
            "node2": 10,
        }


def test_arguments_reach_the_plugin_and_wrong_ones_are_told() -> None:
    with MemoryCluster(GoodColumns, args={"GoodColumns": {"label": "storage"}}) as cluster:
        cluster.add_node("n1", labels={"storage": "ssd"})
        assert cluster.decide("web", labels={"disk": "ssd"}).node == "n1"
    with pytest.raises(ConfigError, match="labl"):
        MemoryCluster(GoodColumns, args={"GoodColumns": {"labl": "x"}})


def test_the_scheduler_takes_pods_and_standing_ones_count() -> None:
    with MemoryCluster() as cluster:
        cluster.add_node("n1", cpu="1")
        cluster.add_pod("standing", node="n1", cpu="800m")
        cluster.add_pod("web", cpu="100m")
        assert cluster.node_of("web") == "n1"
        cluster.add_pod("late", cpu="500m")
        assert cluster.node_of("late") == ""
        waiting = cluster.waits("late")
        assert waiting is not None
        assert waiting.where == "unschedulable"
        assert waiting.plugins == ("NodeResourcesFit",)
        assert "Insufficient cpu" in waiting.message
        assert {"NodeAdd", "NodeUpdateNodeAllocatable"} <= set(waiting.wakes_on)
        # The condition that people see is written by the real reporter.
        conditions = {each.type: each for each in cluster.pod("late").status.conditions or ()}
        assert conditions["PodScheduled"].reason == "Unschedulable"


def test_events_wake_pods_and_time_ends_their_backoff() -> None:
    with MemoryCluster(LargeOnly) as cluster:
        cluster.add_node("n1", memory="1Gi")
        cluster.add_pod("web")
        cluster.update_node(node("n1", memory="1Gi", labels={"new": "label"}))
        waiting = cluster.waits("web")
        assert waiting is not None
        assert (waiting.where, waiting.attempts) == ("unschedulable", 1)
        cluster.add_node("n2", memory="128Gi")
        cluster.clock.advance(2.0)
        assert cluster.node_of("web") == "n2"
        assert len(cluster.attempts) == 2


def test_a_node_that_is_changed_or_removed_is_so_for_the_scheduler() -> None:
    with MemoryCluster() as cluster:
        first = cluster.add_node("n1")
        assert cluster.decide("web").node == "n1"
        cluster.update_node(replace(first, spec=replace(first.spec, unschedulable=True)))
        assert cluster.decide("web").reasons("n1") == ("node(s) were unschedulable",)
        cluster.remove_node("n1")
        assert cluster.decide("web").message == "no nodes available to schedule pods"
        with pytest.raises(NotFound):
            cluster.node("n1")


def test_permit_holds_a_pod_until_its_time() -> None:
    with MemoryCluster(Tenth) as cluster:
        cluster.add_node("n1")
        cluster.add_pod("web")
        waiting = cluster.waits("web")
        assert waiting is not None
        assert (waiting.where, waiting.plugins) == ("permit", ("Tenth",))
        cluster.clock.advance(9.0)
        assert cluster.node_of("web") == ""
        cluster.clock.advance(1.0)
        assert cluster.node_of("web") == "n1"


def test_a_plugin_may_use_the_client_at_its_binding_points() -> None:
    with MemoryCluster(Labels) as cluster:
        cluster.add_node("n1")
        cluster.add_pod("web")
        assert (cluster.pod("web").metadata.annotations or {})["goes-to"] == "n1"


@pytest.mark.parametrize(
    ("fault", "attempts"),
    [("not_found", 2), ("conflict", 2), ("server_error", 1), ("timeout", 1)],
)
def test_a_request_that_fails_costs_one_attempt_if_it_was_clearly_refused(
    fault: str, attempts: int
) -> None:
    with MemoryCluster() as cluster:
        cluster.add_node("n1")
        getattr(cluster.faults, fault)(times=1)
        cluster.add_pod("web")
        cluster.clock.advance(60.0)
        assert cluster.node_of("web") == "n1"
        assert len(cluster.attempts) == attempts


def test_a_plugin_that_uses_the_client_meets_faults_too() -> None:
    with MemoryCluster(Labels) as cluster:
        cluster.add_node("n1")
        # Not the first: the scheduler itself says where the pod is going.
        fault = cluster.faults.api(500, method="PATCH", path="/pods/web", after=1)
        cluster.add_pod("web")
        assert fault.hits == 1
        [waiting] = cluster.waiting
        assert 'running PreBind plugin "Labels"' in waiting.message
        cluster.clock.advance(30.0)
        assert cluster.node_of("web") == "n1"


def test_a_binding_whose_answer_is_lost_costs_no_second_attempt() -> None:
    with MemoryCluster() as cluster:
        cluster.add_node("n1")
        cluster.faults.lost_answer()
        cluster.add_pod("web")
        cluster.clock.advance(10.0)
        assert cluster.node_of("web") == "n1"
        assert len(cluster.attempts) == 1


@pytest.mark.parametrize("delay_s", [0.1, 1.5, 60.0])
def test_a_binding_that_arrives_late_finds_its_place(delay_s: float) -> None:
    """Two pods of 700m each and one CPU: whatever arrives when, the second never gets the place."""
    with MemoryCluster() as cluster:
        cluster.add_node("n1", cpu=1)
        cluster.faults.late_arrival(delay_s=delay_s)
        cluster.add_pod("web", cpu="700m")
        cluster.add_pod("other", cpu="700m")
        for _ in range(100):
            cluster.clock.advance(1.0)
            assert cluster.node_of("other") == ""
        assert cluster.node_of("web") == "n1"


def test_a_plugin_that_raises_fails_its_pod_only() -> None:
    with MemoryCluster(on_ssd) as cluster:
        cluster.add_node("n1", labels={"disk": "ssd"})
        cluster.faults.plugin(on_ssd, "filter", ValueError("boom"))
        verdict = cluster.decide("web")
        assert verdict.is_error
        assert 'running "on_ssd" filter plugin: ValueError: boom (' in verdict.message
        cluster.faults.clear()
        assert cluster.decide("web").node == "n1"
        with pytest.raises(ValueError, match="these are: on_ssd"):
            cluster.faults.plugin("NodeName", "filter")


def test_a_node_that_vanishes_before_the_binding_arrives() -> None:
    with MemoryCluster() as cluster:
        cluster.add_node("n1")
        cluster.faults.node_vanishes("n1")
        cluster.add_pod("web")
        assert cluster.waits("web") is not None or cluster.node_of("web") == "n1"
        assert isinstance(cluster.attempts[0], Placement)
        with pytest.raises(NotFound):
            cluster.node("n1")


def test_objects_that_plugins_look_up() -> None:
    with MemoryCluster() as cluster:
        for zone in ("a", "b"):
            cluster.add_node(f"n-{zone}", zone=zone)
        cluster.add(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            }
        )
        for index in range(2):
            cluster.add_pod(f"web-{index}", labels={"app": "web"})
        assert {cluster.node_of("web-0"), cluster.node_of("web-1")} == {"n-a", "n-b"}
        with pytest.raises(ValueError, match="'Nonsense'"):
            cluster.add({"apiVersion": "v1", "kind": "Nonsense"})


def test_a_gated_pod_waits_until_its_gate_is_gone() -> None:
    with MemoryCluster() as cluster:
        cluster.add_node("n1")
        cluster.add_pod("web", gates=["example.com/quota"])
        waiting = cluster.waits("web")
        assert waiting is not None
        assert (waiting.where, waiting.plugins) == ("gated", ("SchedulingGates",))
        cluster.patch("pod", "web", {"spec": {"schedulingGates": None}})
        assert cluster.node_of("web") == "n1"
        with pytest.raises(ValueError, match="'nonsense'"):
            cluster.patch("nonsense", "web", {})


def test_a_configuration_says_itself_what_is_enabled(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- schedulerName: fast\n"
        "  plugins: {filter: {enabled: [{name: on_ssd}]}}\n"
        "- schedulerName: default-scheduler\n"
    )
    with MemoryCluster(on_ssd, config=file) as cluster:
        cluster.add_node("n1")
        assert cluster.decide("web").node == "n1"
        assert cluster.decide("web", scheduler_name="fast").rejected_by == {"on_ssd"}


def test_priority_and_preemption_are_asked_about_without_a_class() -> None:
    with MemoryCluster() as cluster:
        cluster.add_node("n1", cpu="1")
        cluster.add_pod("low", node="n1", cpu="900m", priority=1)
        verdict = cluster.decide("high", cpu="900m", priority=100)
        assert verdict.victims == ("default/low",)
        assert verdict.nominated_node == "n1"


async def test_in_an_async_test_it_says_what_to_use_instead() -> None:
    with MemoryCluster() as cluster, pytest.raises(RuntimeError, match="is synchronous"):
        cluster.add_node("n1")


def test_two_runs_are_the_same() -> None:
    def run() -> list[Any]:
        with MemoryCluster(seed=3) as cluster:
            for number in range(5):
                cluster.add_node(f"n{number}")
            cluster.add_pods(12)
            return [*cluster.placements.items()]

    assert run() == run()
