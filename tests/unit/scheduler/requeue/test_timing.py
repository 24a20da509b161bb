"""When a pod comes back: backoff, pending plugins, broken hints, events in flight, the sweep."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from stowplan.api.objects import Pod, Toleration
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status, pending, unschedulable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, Hint
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import node, pod
from tests.unit.scheduler.requeue.matrix import (
    Change,
    Changeable,
    becomes,
    comes,
    gets_soft_taint,
    updates,
)
from tests.unit.scheduler.requeue.world import World

TAINTED = node("n1", taints=["team=red:NoSchedule"])
NODE_ADD = ClusterEvent("Node", ActionType.ADD)


def rejected_often(times: int) -> World:
    """A pod that NodeAffinity has rejected so often, at this moment."""
    world = World([node("n1")])
    world.add(pod("a", node_selector={"disk": "ssd"}))
    for _ in range(times):
        assert isinstance(world.attempt_all()["a"], Failure)
        assert world.where("a") == "unschedulable"
        gets_soft_taint("n1")(world)
    world.attempt_all()
    assert world.queued("a").unschedulable_count == times + 1
    return world


@pytest.mark.parametrize(
    ("failures", "elapsed", "place"),
    [
        (1, 0.0, "backoff"),
        (1, 1.9, "backoff"),  # the window in which the backoff ends is not over
        (1, 2.0, "active"),
        (2, 2.9, "backoff"),
        (2, 3.0, "active"),
        (4, 8.9, "backoff"),
        (4, 9.0, "active"),
        (9, 10.9, "backoff"),
        (9, 11.0, "active"),
    ],
)
def test_an_event_counts_from_the_last_failure(failures: int, elapsed: float, place: str) -> None:
    world = rejected_often(failures - 1)
    world.clock.advance(elapsed)
    world.replace(node("n1", labels={"disk": "ssd"}))
    assert world.where("a") == place


def test_the_backoff_ends_by_itself() -> None:
    world = rejected_often(1)
    world.replace(node("n1", labels={"disk": "ssd"}))
    wakeup = world.queue.next_wakeup()
    assert wakeup == world.clock.monotonic() + 3
    world.clock.advance(2.9)
    world.queue.flush_backoff()
    assert world.where("a") == "backoff"
    world.clock.advance(0.1)
    world.queue.flush_backoff()
    assert world.where("a") == "active"


def test_an_idle_scheduler_does_not_wait_for_the_backoff() -> None:
    world = rejected_often(3)
    world.replace(node("n1", labels={"disk": "ssd"}))
    world.add(pod("b"))
    assert world.where("a") == "backoff"
    assert [*world.attempt_all()] == ["b", "a"]
    assert world.where("a") == "nowhere"


# Plugins that only wait for something skip the backoff


class Doorman(Plugin):
    """Rejects at Reserve, where a plugin may say that it only waits for something."""

    name = "Doorman"
    answer: ClassVar[Status | None] = None
    hint: ClassVar[Callable[..., Hint]] = staticmethod(lambda *_: Hint.QUEUE)

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        return type(self).answer

    def events(self) -> Sequence[EventHint]:
        return (EventHint(NODE_ADD, type(self).hint),)


@pytest.mark.parametrize(
    ("answer", "place"), [(pending("not yet"), "active"), (unschedulable("no"), "backoff")]
)
def test_what_is_only_pending_comes_back_at_once(
    answer: Status, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Doorman, "answer", answer)
    world = World([node("n1")], Doorman)
    world.add(pod("a"))
    world.attempt_all()
    queued = world.queued("a")
    assert (queued.pending_plugins, queued.unschedulable_plugins) == (
        ({"Doorman"}, set()) if place == "active" else (set(), {"Doorman"})
    )
    world.replace(node("n1", labels={"disk": "ssd"}))
    assert world.where("a") == "unschedulable", "not the event that it waits for"
    world.add(node("n2"))
    assert world.where("a") == place


# Hints that raise


def _raises(*_: object) -> Hint:
    raise ValueError("broken on purpose")


def test_a_hint_that_raises_brings_the_pod_back_and_names_its_plugin(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Doorman, "answer", unschedulable("no"))
    monkeypatch.setattr(Doorman, "hint", staticmethod(_raises))
    world = World([node("n1")], Doorman)
    for name in ("a", "b"):
        world.add(pod(name))
    world.attempt_all()
    with caplog.at_level(logging.ERROR, logger="stowplan"):
        world.add(node("n2"))
    assert (world.where("a"), world.where("b")) == ("backoff", "backoff")
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    # The repeat is folded.
    assert [
        (each["plugin"], each["pod"]) for each in (record.__dict__["kv"] for record in told)
    ] == [
        ("Doorman", "default/a"),
    ]
    assert all(record.exc_info and "on purpose" in str(record.exc_info[1]) for record in told)


# Events while the pod is in flight


class Meanwhile(Plugin):
    """Lets the cluster change after the filters have said no, before the attempt ends."""

    name = "Meanwhile"
    change: ClassVar[Change | None] = None
    world: ClassVar[World | None] = None

    def post_filter(self, cycle: Cycle, diagnosis: object) -> Status:
        change, type(self).change = type(self).change, None
        if change is not None and self.world is not None:
            change(self.world)
        return unschedulable("nobody to evict")


def _tolerates_red(world: Changeable) -> None:
    world.update("a", tolerations=(Toleration(key="team", operator="Exists"),))


def _two_changes(world: Changeable) -> None:
    gets_soft_taint("n1")(world)
    world.replace(node("n1"))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param(becomes(node("n1")), "backoff", id="the taint goes"),
        pytest.param(comes(node("n2")), "backoff", id="a node without it comes"),
        pytest.param(_tolerates_red, "backoff", id="the pod tolerates it"),
        pytest.param(_two_changes, "backoff", id="one of two changes helps"),
        pytest.param(gets_soft_taint("n1"), "unschedulable", id="another taint comes"),
        pytest.param(updates("a", labels={"x": "y"}), "unschedulable", id="the pod is relabelled"),
        pytest.param(
            becomes(node("n1", taints=["team=red:NoSchedule"], labels={"x": "y"})),
            "unschedulable",
            id="the node is relabelled",
        ),
    ],
)
def test_what_happens_during_an_attempt_counts_after_it(
    change: Change, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World([TAINTED], Meanwhile)
    monkeypatch.setattr(Meanwhile, "world", world)
    monkeypatch.setattr(Meanwhile, "change", staticmethod(change))
    world.add(pod("a"))
    assert isinstance(world.engine.attempt(), Failure)
    assert world.where("a") == place
    assert world.queued("a").pod is world.pods["a"], "the newest version is queued"
    assert not any(world.queue.inflight_events.values())
    outcomes = world.attempt_all()
    assert isinstance(outcomes.get("a"), Placement) == (place == "backoff")


def test_what_happened_before_an_attempt_is_not_played_to_it() -> None:
    world = World([TAINTED, node("n2", taints=["team=blue:NoSchedule"])])
    world.add(pod("early"))
    early = world.queue.pop()
    assert early is not None
    world.add(node("n3", taints=["team=green:NoSchedule"]))
    world.add(pod("late", tolerations=["team=green:NoSchedule"], node_selector={"no": "node"}))
    world.attempt_all()
    assert world.where("late") == "unschedulable"
    assert world.queue.inflight_events["NodeAdd"] == 1, "kept for the other one"
    early.unschedulable_plugins = {"NodeName"}
    world.queue.add_unschedulable(early)
    assert world.where("early") == "backoff"


# The sweep


def test_a_pod_that_no_event_helps_is_tried_every_five_minutes() -> None:
    world = World([TAINTED])
    world.add(pod("a"))
    world.attempt_all()
    assert world.queue.next_wakeup() == world.clock.monotonic() + 300
    world.clock.advance(299.9)
    world.queue.flush_unschedulable()
    assert world.where("a") == "unschedulable"
    world.clock.advance(0.1)
    world.queue.flush_unschedulable()
    assert world.where("a") == "active"
    world.attempt_all()
    assert world.where("a") == "unschedulable"
    assert world.queued("a").attempts == 2
    world.queue.flush_unschedulable()
    assert world.where("a") == "unschedulable", "five minutes begin anew"


def test_gated_pods_are_not_swept() -> None:
    world = World([node("n1")])
    world.add(pod("gated", gates=["later"]))
    preemptor = pod("preemptor")
    world.handle.preempting.begin(preemptor)
    world.add(preemptor)
    for _ in range(3):
        world.clock.advance(1000)
        world.queue.flush_unschedulable()
        world.queue.flush_backoff()
        assert (world.where("gated"), world.where("preemptor")) == ("gated", "gated")
    assert world.queue.next_wakeup() is None
    world.handle.preempting.end(preemptor)
    world.handle.activate([preemptor])
    assert world.where("preemptor") == "active"
    assert world.where("gated") == "gated"


class Broken(Plugin):
    """Has a defect that goes away."""

    name = "Broken"
    is_broken: ClassVar[bool] = True

    def filter(self, pod: Pod, node: NodeView) -> bool:
        if self.is_broken:
            raise ValueError("broken on purpose")
        return True


def test_after_an_error_only_time_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([node("n1")], Broken)
    world.add(pod("a"))
    assert isinstance(world.engine.attempt(), Failure)
    assert world.where("a") == "error_backoff"
    world.add(node("n2"))
    assert world.engine.attempt() is None, "an idle scheduler waits all the same"
    monkeypatch.setattr(Broken, "is_broken", False)
    world.clock.advance(2)
    world.queue.flush_backoff()
    assert isinstance(world.attempt_all()["a"], Placement)
