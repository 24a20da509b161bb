"""Pods that a PreEnqueue plugin keeps out."""

from __future__ import annotations

import logging

import pytest

from stowplan.errors import PluginError
from stowplan.queue import QueuedPod
from stowplan.queue import events as ev
from stowplan.queue.events import ActionType, ClusterEvent, EventResource
from tests.unit.queue.queue_kit import (
    NODE_ADD,
    NODE_LABEL,
    Bench,
    annotate,
    make_pod,
    never,
    on,
)

UNGATED = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
CLAIM_ADD = ClusterEvent(EventResource.RESOURCE_CLAIM, ActionType.ADD)


def scheduling_gates(queued: QueuedPod) -> tuple[str, str] | None:
    gates = [gate.name for gate in queued.pod.spec.scheduling_gates or ()]
    return ("SchedulingGates", f"waiting for scheduling gates: {gates}") if gates else None


def gated(bench: Bench, name: str = "a") -> QueuedPod:
    bench.gates[name] = "Gates"
    bench.queue.add(make_pod(name))
    queued = bench.queue.get(make_pod(name))
    assert queued is not None
    assert bench.where(queued) == "gated"
    return queued


def test_a_gated_pod_waits_apart_and_says_why() -> None:
    bench = Bench()
    queued = gated(bench)
    assert (queued.gating_plugin, queued.gating_message) == ("Gates", "Gates says no")
    assert queued.unschedulable_plugins == {"Gates"}
    assert queued.initial_attempt_timestamp is None
    assert bench.queue.pop() is None
    assert bench.wakeups == 0
    assert bench.queue.incoming == {("unschedulable", "UnschedulablePodAdd"): 1}
    assert bench.queue.counts.gated == 1
    assert bench.queue.counts.unschedulable == 0


def test_removing_the_last_gate_frees_the_pod() -> None:
    bench = Bench(hints={"SchedulingGates": [on(UNGATED)]}, pre_enqueue=scheduling_gates)
    two, one, none = (make_pod("a", gates=gates) for gates in (["g", "h"], ["g"], []))
    bench.queue.add(two)
    bench.queue.update(two, one)
    assert bench.names("gated") == ["a"]
    bench.clock.advance(60)
    bench.queue.update(one, none)
    assert bench.names("active") == ["a"]
    queued = bench.pop()
    assert queued.initial_attempt_timestamp == 1060.0
    assert queued.timestamp == 1000.0
    assert not queued.is_gated
    label = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
    assert bench.queue.incoming["active", label] == 1


def test_events_of_other_plugins_do_not_ask_the_gate_again() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD)], "Gates": [on(CLAIM_ADD)]})
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.gates["a"] = "Gates"
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "gated"
    assert queued.unschedulable_plugins == {"Fit", "Gates"}
    assert bench.queue.incoming["unschedulable", "NodeAdd"] == 1
    asked = len(bench.asked)
    bench.queue.move_all(NODE_ADD, None, object())
    assert len(bench.asked) == asked
    del bench.gates["a"]
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert bench.where(queued) == "backoff"


def test_a_wildcard_frees_only_pods_whose_gate_asked_for_everything() -> None:
    everything = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)
    bench = Bench(hints={"Gates": [on(CLAIM_ADD)], "Curious": [on(everything)]})
    bench.gates = {"a": "Gates", "b": "Curious"}
    bench.queue.add(make_pod("a"))
    bench.queue.add(make_pod("b"))
    bench.gates = {}
    bench.queue.move_all(ev.UNSCHEDULABLE_TIMEOUT, None, None)
    assert bench.names("gated") == ["a"]
    assert bench.names("active") == ["b"]


def test_the_hint_of_the_gating_plugin_is_asked_first() -> None:
    bench = Bench(hints={"Gates": [on(CLAIM_ADD, never), on(NODE_LABEL)]})
    queued = gated(bench)
    bench.gates.clear()
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert bench.where(queued) == "gated"
    bench.queue.move_all(NODE_LABEL, object(), object())
    assert bench.where(queued) == "active"


def test_a_pod_that_stays_gated_is_counted_once() -> None:
    bench = Bench(hints={"Gates": [on(CLAIM_ADD)]})
    queued = gated(bench)
    bench.queue.activate([queued.pod])
    assert bench.where(queued) == "gated"
    assert bench.queue.incoming == {("unschedulable", "UnschedulablePodAdd"): 1}
    bench.gates["a"] = "OtherGate"
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert bench.where(queued) == "gated"
    assert queued.gating_plugin == "OtherGate"
    assert queued.unschedulable_plugins == {"Gates", "OtherGate"}
    assert sum(bench.queue.unschedulable_by.values()) == 2
    assert bench.queue.counts == (0, 0, 0, 1, 0)


def test_an_event_that_does_not_open_the_gate_leaves_the_pod_where_it_is() -> None:
    bench = Bench(hints={"Gates": [on(CLAIM_ADD)]})
    queued, other = gated(bench), gated(bench, "b")
    before = dict(bench.queue.incoming)
    del bench.gates["b"]
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert bench.where(queued) == "gated"
    assert bench.where(other) == "active"
    assert sum(bench.queue.unschedulable_by.values()) == 2
    assert bench.queue.incoming == {
        **before,
        ("unschedulable", CLAIM_ADD.label): 1,
        ("active", CLAIM_ADD.label): 1,
    }
    del bench.gates["a"]
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert bench.where(queued) == "active"


def test_activate_asks_the_gate() -> None:
    bench = Bench()
    queued = gated(bench)
    del bench.gates["a"]
    bench.queue.activate([queued.pod])
    assert bench.where(queued) == "active"
    assert bench.wakeups == 1


def test_the_gate_is_asked_on_the_way_to_backoff_too_and_not_again_after_it() -> None:
    bench = Bench()
    bench.queue.add(make_pod("a"))
    queued = bench.pop()
    bench.gates["a"] = "Gates"
    bench.fail(queued)
    assert bench.where(queued) == "gated"
    del bench.gates["a"]
    bench.queue.activate([queued.pod])
    asked = len(bench.asked)
    bench.fail(bench.pop())
    assert bench.where(queued) == "error_backoff"
    assert len(bench.asked) == asked + 1
    bench.gates["a"] = "Gates"
    bench.clock.advance(10)
    bench.queue.flush_backoff()
    assert bench.where(queued) == "active"
    assert len(bench.asked) == asked + 1


def test_updates_and_deletes_of_gated_pods() -> None:
    bench = Bench(hints={"Gates": [on(CLAIM_ADD)]})
    queued = gated(bench)
    newer = annotate(queued.pod, touched="yes")
    bench.queue.update(queued.pod, newer)
    assert queued.pod is newer
    assert bench.where(queued) == "gated"
    bench.queue.delete(newer)
    assert bench.where(queued) == "nowhere"
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert bench.queue.counts == (0, 0, 0, 0, 0)


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    def __call__(self, queued: QueuedPod) -> tuple[str, str] | None:
        if self.error is not None:
            raise self.error
        return None


@pytest.mark.parametrize(
    ("error", "plugin"),
    [
        (PluginError("Quota", "PreEnqueue", "boom"), "Quota"),
        (RuntimeError("boom"), "PreEnqueue"),
    ],
)
def test_a_gate_that_raises_keeps_the_pod_and_is_asked_again(
    error: Exception, plugin: str, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Broken(error)
    bench = Bench(pre_enqueue=gate)
    with caplog.at_level(logging.ERROR):
        bench.queue.add(make_pod("a"))
    [record] = caplog.records
    assert "boom" in record.__dict__["kv"]["err"]
    queued = bench.queue.get(make_pod("a"))
    assert queued is not None
    assert bench.where(queued) == "gated"
    assert queued.gating_plugin == plugin
    assert "boom" in queued.gating_message
    for expected in (1010.0, 1020.0):
        assert bench.queue.next_wakeup() == expected
        bench.clock.advance(expected - bench.clock.monotonic())
        bench.queue.flush_backoff()
        assert bench.where(queued) == "gated"
    gate.error = None
    bench.clock.advance(9.9)
    bench.queue.flush_backoff()
    assert bench.where(queued) == "gated"
    bench.clock.advance(0.1)
    bench.queue.flush_backoff()
    assert bench.where(queued) == "active"
    assert bench.queue.next_wakeup() is None


def test_a_pod_whose_gate_raised_may_go_before_it_is_asked_again() -> None:
    bench = Bench(pre_enqueue=Broken(RuntimeError("boom")))
    bench.queue.add(make_pod("a"))
    bench.queue.delete(make_pod("a"))
    assert bench.queue.next_wakeup() is None
    bench.clock.advance(60)
    bench.queue.flush_backoff()
    assert bench.queue.counts == (0, 0, 0, 0, 0)


def test_any_name_survives_a_gate_that_raises_later() -> None:
    bench = Bench(hints={"Gates": [on(CLAIM_ADD)]})
    queued = gated(bench)
    bench.queue._gate._pre_enqueue = Broken(RuntimeError("boom"))
    bench.queue.move_all(CLAIM_ADD, None, object())
    assert queued.gating_plugin == "Gates"  # the one that was to be asked first
