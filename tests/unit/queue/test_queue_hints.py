"""Which event moves which pod where."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.plugin_failures import PluginFailures
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from stowplan.plugins.volume_binding.plugin import VolumeBinding
from stowplan.plugins.volume_restrictions import VolumeRestrictions
from stowplan.plugins.volume_zone import VolumeZone
from stowplan.queue import events as ev
from stowplan.queue.events import (
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    Topics,
)
from stowplan.queue.hints import complete_hints
from stowplan.testing import pod
from tests.unit.plugins.volume_kit import claim
from tests.unit.queue.queue_kit import (
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    Bench,
    always,
    make_pod,
    never,
    on,
)


class Spy:
    """A hint that remembers what it was asked."""

    def __init__(self, answer: Hint) -> None:
        self.answer = answer
        self.calls: list[tuple[str, object, object]] = []

    def __call__(self, pod: Pod, old: object | None, new: object | None) -> Hint:
        self.calls.append((pod.metadata.name, old, new))
        return self.answer


def test_only_hints_of_rejecting_plugins_are_asked() -> None:
    fit, taints = Spy(Hint.SKIP), Spy(Hint.QUEUE)
    bench = Bench(hints={"Fit": [on(NODE_ADD, fit)], "Taints": [on(NODE_ADD, taints)]})
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.rejected(make_pod("b"), "Other")
    bench.queue.move_all(NODE_ADD, None, "the node")
    assert fit.calls == [("a", None, "the node")]
    assert taints.calls == []
    assert bench.where(queued) == "unschedulable"


def test_one_plugin_of_several_is_enough() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD, never)], "Taints": [on(NODE_ADD, always)]})
    queued = bench.rejected(make_pod("a"), "Fit", "Taints")
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "backoff"
    assert bench.queue.incoming["backoff", "NodeAdd"] == 1


def test_one_registration_of_several_is_enough() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD, never), on(NODE_ADD)]})
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "backoff"


def test_a_pending_plugin_skips_the_backoff() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD)], "Volumes": [on(POD_DELETE), on(NODE_ADD, never)]})
    by_both = bench.rejected(make_pod("both"), "Fit", pending=["Volumes"])
    other = bench.rejected(make_pod("other"), "Fit", pending=["Volumes"])
    bench.queue.move_all(ev.ASSIGNED_POD_DELETE, object(), None)
    assert bench.where(by_both) == "active"
    bench.fail(bench.pop(), "Fit", pending=["Volumes"])
    bench.queue.move_all(NODE_ADD, None, object())  # only the unschedulable plugin says yes
    assert bench.where(by_both) == "backoff"
    assert bench.where(other) == "active"


def test_a_pending_plugin_is_asked_even_after_another_said_yes() -> None:
    bench = Bench(hints={"Fit": [on(NODE_ADD)], "Volumes": [on(NODE_ADD)]})
    queued = bench.rejected(make_pod("a"), "Fit", pending=["Volumes"])
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "active"


def test_profiles_have_their_own_hints() -> None:
    bench = Bench()
    stranger = bench.rejected(make_pod("a", profile="other-scheduler"), "Fit")
    bench.queue.move_all(NODE_ADD, None, object())
    bench.queue.update(stranger.pod, stranger.pod)
    assert bench.where(stranger) == "unschedulable"
    bench.clock.advance(300)
    bench.queue.flush_unschedulable()
    assert bench.where(stranger) == "active"


def test_a_hint_that_raises_queues_the_pod(caplog: pytest.LogCaptureFixture) -> None:
    def broken(pod: Pod, old: object | None, new: object | None) -> Hint:
        raise RuntimeError("hint is broken")

    bench = Bench(hints={"Fit": [on(NODE_ADD, broken)]})
    queued = bench.rejected(make_pod("a"), "Fit")
    with caplog.at_level(logging.ERROR):
        bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "backoff"
    assert "hint is broken" in caplog.text


def test_pre_check_narrows_the_pods() -> None:
    bench = Bench()
    low = bench.rejected(make_pod("low", priority=1), "Fit")
    high = bench.rejected(make_pod("high", priority=9), "Fit")
    bench.queue.move_all(NODE_ADD, None, object(), lambda pod: pod.priority <= 1)
    assert bench.where(low) == "backoff"
    assert bench.where(high) == "unschedulable"


def test_a_wildcard_moves_everyone_or_the_one_pod_it_names() -> None:
    bench = Bench(hints={})
    pods = [bench.rejected(make_pod(name), "Fit") for name in "abc"]
    everyone = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "Everyone")
    bench.queue.move_all(everyone, None, pods[1].pod)
    assert [bench.where(queued) for queued in pods] == ["unschedulable", "backoff", "unschedulable"]
    bench.queue.move_all(everyone, None, "not a pod")
    assert bench.queue.counts.unschedulable == 2
    bench.queue.move_all(everyone, None, None)
    assert bench.queue.counts.unschedulable == 0
    assert bench.queue.incoming["backoff", "Everyone"] == 3


def test_an_event_touches_only_pods_of_plugins_that_registered_it() -> None:
    fit, taints = Spy(Hint.SKIP), Spy(Hint.SKIP)
    bench = Bench(hints={"Fit": [on(NODE_ADD, fit)], "Taints": [on(NODE_LABEL, taints)]})
    for number in range(200):
        bench.rejected(make_pod(f"p{number}"), "Taints")
    bench.rejected(make_pod("a"), "Fit")
    checked: list[str] = []

    def pre_check(pod: Pod) -> bool:
        checked.append(pod.metadata.name)
        return True

    bench.queue.move_all(NODE_ADD, None, object(), pre_check)
    assert checked == ["a"]
    assert len(fit.calls) == 1
    assert taints.calls == []


@pytest.mark.parametrize("activated", ["first", "second"])
def test_a_plugin_that_activates_a_pod_while_it_is_asked(activated: str) -> None:
    def meddle(pod: Pod, old: object | None, new: object | None) -> Hint:
        bench.queue.activate([make_pod(activated)])
        return Hint.QUEUE

    bench = Bench(hints={"Fit": [on(NODE_LABEL, meddle)]})
    pods = {name: bench.rejected(make_pod(name), "Fit") for name in ("first", "second")}
    bench.queue.move_all(NODE_LABEL, object(), object())
    for name, queued in pods.items():
        assert bench.where(queued) == ("active" if name == activated else "backoff")


def test_registrations_are_completed_as_upstream_does() -> None:
    node_taint = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
    both = EventHint(
        ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), never
    )
    done = complete_hints(
        {
            "AddOnly": [on(NODE_ADD, never)],
            "Both": [both],
            "Split": [on(NODE_ADD, never), on(node_taint, never)],
            "Silent": [],
            "Unsaid": None,
        }
    )
    assert done["AddOnly"] == (on(NODE_ADD, never), EventHint(node_taint, None))
    assert done["Both"] == (both,)
    assert len(done["Split"]) == 2
    assert done["Silent"] == ()
    heard = {str(entry.event.resource) for entry in done["Unsaid"]}
    assert {"Pod", "Node", "PersistentVolumeClaim", "resource.k8s.io/ResourceSlice"} < heard
    assert heard.isdisjoint({"*", "AssignedPod", "UnschedulablePod"})
    assert all(entry.event.action == ActionType.ALL for entry in done["Unsaid"])


def test_an_event_with_a_topic_is_judged_for_pods_that_wait_for_it() -> None:
    hint = Spy(Hint.SKIP)
    topics = Topics(
        of_pod=lambda pod: (pod.metadata.labels or {}).values(),
        of_event=lambda _, new: None if new == "all" else (new,),
    )
    bench = Bench(hints={"Fit": [EventHint(NODE_ADD, hint, topics)]})
    bench.rejected(make_pod("a", labels={"waits": "disk", "also": "disk"}), "Fit")
    moving = make_pod("b", labels={"waits": "gpu"})
    bench.rejected(moving, "Fit")
    bench.queue.move_all(NODE_ADD, None, "disk")
    assert [name for name, _, _ in hint.calls] == ["a"]
    bench.queue.move_all(NODE_ADD, None, "all")
    assert [name for name, _, _ in hint.calls] == ["a", "a", "b"]
    hint.calls.clear()

    bench.queue.update(moving, make_pod("b", labels={"waits": "disk"}))
    bench.queue.move_all(NODE_ADD, None, "gpu")
    assert hint.calls == []
    bench.queue.move_all(NODE_ADD, None, "disk")
    assert [name for name, _, _ in hint.calls] == ["a", "b"]

    bench.queue.delete(moving)
    hint.calls.clear()
    bench.queue.move_all(NODE_ADD, None, "disk")
    assert [name for name, _, _ in hint.calls] == ["a"]


def _topics(of_pod: object = ("x",), of_event: object = ("x",)) -> Topics:
    """Topics with these answers; an exception is raised."""

    def answer(what: object) -> Any:
        if isinstance(what, Exception):
            raise what
        return what

    return Topics(lambda pod: answer(of_pod), lambda old, new: answer(of_event))


@pytest.mark.parametrize(
    ("topics", "is_asked"),
    [
        (_topics(of_pod=None), True),
        (_topics(of_event=None), True),
        (_topics(of_pod=(), of_event=None), True),
        (_topics(of_pod=()), False),
        (_topics(of_event=("y",)), False),
    ],
)
def test_none_is_every_topic(topics: Topics, is_asked: bool) -> None:
    hint = Spy(Hint.QUEUE)
    bench = Bench(hints={"Fit": [EventHint(NODE_ADD, hint, topics)]})
    waiting = make_pod("a")
    bench.rejected(waiting, "Fit")
    bench.queue.move_all(NODE_ADD, None, "node")
    assert bool(hint.calls) is is_asked
    without_hint = EventHint(NODE_ADD, topics=topics)
    assert without_hint.hint is not None
    assert without_hint.hint(waiting, None, "node") is (Hint.QUEUE if is_asked else Hint.SKIP)


def test_topics_of_a_gating_plugin_do_not_hide_a_pod_that_others_rejected() -> None:
    """Hints of all its rejectors judge a gated pod, at the events of the plugin that gates it."""
    no_pod = EventHint(NODE_ADD, topics=_topics(of_event=()))
    bench = Bench(hints={"Gate": [no_pod], "Fit": [on(NODE_ADD), on(NODE_LABEL)]})
    queued = bench.rejected(make_pod("a"), "Fit")
    bench.gates["a"] = "Gate"
    bench.queue.move_all(NODE_LABEL, None, object())
    assert bench.where(queued) == "gated"
    bench.gates.clear()
    bench.queue.move_all(NODE_ADD, None, object())
    assert bench.where(queued) == "backoff"


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        (_topics(of_pod=KeyError("spec")), "A plugin cannot name a pod's topics"),
        (_topics(of_pod=(["unhashable"],)), "A plugin cannot name a pod's topics"),
        (_topics(of_event=KeyError("spec")), "A plugin cannot name an event's topics"),
        (_topics(of_event=({"unhashable": 1},)), "A plugin cannot name an event's topics"),
    ],
)
def test_topics_that_cannot_be_found_spare_no_hint(
    topics: Topics, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    hint = Spy(Hint.SKIP)
    failures = PluginFailures(VirtualClock())
    bench = Bench(hints={"Fit": [EventHint(NODE_ADD, hint, topics)]}, failures=failures)
    queued = bench.rejected(make_pod("a"), "Fit")
    for _ in range(3):
        bench.queue.move_all(NODE_ADD, None, "node")
    assert [name for name, _, _ in hint.calls] == ["a"] * 3
    assert bench.where(queued) == "unschedulable"
    assert failures.count
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [message]
    bench.queue.delete(queued.pod)
    assert bench.where(queued) == "nowhere"


def _claims_of(number: int) -> Pod:
    """A pod with a claim of its own, and one that is made for it."""
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": f"claim-{number}"}},
        {"name": "scratch", "ephemeral": {}},
    ]
    return pod(f"pod-{number}", volumes=volumes)


def _hints_called(pods: int, claims: int) -> int:
    """Hints of the volume plugins for pods that wait while claims come and change."""
    calls: list[str] = []
    plugins = [kind() for kind in (VolumeBinding, VolumeZone, VolumeRestrictions, NodeVolumeLimits)]
    bench = Bench(
        hints={plugin.name: plugin.events() or () for plugin in plugins},
        on_hint=lambda plugin, event, answer, seconds: calls.append(answer),
    )
    for number in range(pods):
        bench.rejected(_claims_of(number), *(plugin.name for plugin in plugins))
    resource = EventResource.PERSISTENT_VOLUME_CLAIM
    for number in range(claims):
        for name in (f"other-{number}", f"claim-{number}", f"pod-{number}-scratch"):
            made = claim(name)
            bench.queue.move_all(ClusterEvent(resource, ActionType.ADD), None, made)
            bench.queue.move_all(ClusterEvent(resource, ActionType.UPDATE), made, made)
    assert len(bench.names("unschedulable")) == max(0, pods - claims)
    return len(calls)


def test_hints_about_claims_grow_with_pods_and_claims_not_with_their_product() -> None:
    counted = [_hints_called(size, size) for size in (8, 16, 32)]
    assert counted[0] > 0
    assert counted[1:] == [2 * counted[0], 4 * counted[0]]
    assert _hints_called(32, 8) == counted[0], "pods without an event are not judged"
