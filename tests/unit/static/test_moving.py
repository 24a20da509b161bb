"""Plans of moves: what would happen, and what is refused. That they are carried out is tested
in tests/integration/test_pins.py, on a server."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import LabelSelector, ObjectMeta, OwnerReference, Pod
from stowplan.api.workload_objects import (
    OwnerSpec,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
)
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.static.moving import MoveEffect, MovePlan, MoveRefused, budget_notes, plan_move
from stowplan.testing import node, pod

TEST = PinLabels("test")
LABEL, OLDER = "rf.scheduler.test.default/web-0", "rf.scheduler.test/web-0"
WEB = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="web", controller=True)
NODES = [node("a", labels={LABEL: ""}), node("b"), node("c", labels={OLDER: ""})]


def web(on: str = "a", **fields: Any) -> Pod:
    settings: dict[str, Any] = {"owner": WEB, "scheduler_name": "test", "phase": "Running"}
    return pod("web-0", node=on, **(settings | fields))


def plan(moved: Pod, labels: PinLabels = TEST, *, is_name_given: bool = False) -> MovePlan:
    return plan_move(moved, labels, NODES[1], NODES, is_name_given=is_name_given)


def test_a_running_pod_is_pinned_anew_and_sent_away() -> None:
    made = plan(web())
    assert made.course is MoveEffect.IS_SENT_AWAY
    assert made.owner is WEB
    assert [(edit.node, dict(edit.labels)) for edit in made.edits] == [
        ("b", {LABEL: ""}),
        ("a", {LABEL: None}),
        ("c", {OLDER: None}),
    ]
    assert not made.is_done


@pytest.mark.parametrize(
    ("moved", "course"),
    [
        (web(on="b"), MoveEffect.STAYS),
        (web(on=""), MoveEffect.WAITS),
        (web(on="", owner=None), MoveEffect.WAITS),
        (web(on="a", terminating=True), MoveEffect.LEAVES),
        (web(on="a", phase="Failed"), MoveEffect.IS_SENT_AWAY),
        (web(on="b", phase="Failed"), MoveEffect.IS_SENT_AWAY),
    ],
)
def test_what_becomes_of_the_pod(moved: Pod, course: MoveEffect) -> None:
    made = plan(moved)
    assert made.course is course
    assert made.edits


def test_nothing_is_left_to_do() -> None:
    nodes = [node("a"), node("b", labels={LABEL: "whatever"})]
    made = plan_move(web(on="b"), TEST, nodes[1], nodes, is_name_given=False)
    assert made.is_done
    assert not plan_move(web(on=""), TEST, nodes[1], nodes, is_name_given=False).is_done


def owned_by(kind: str, api_version: str) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="o", controller=True)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (None, "has no controller: deleted, nothing would create it again"),
        (
            OwnerReference(api_version="apps/v1", kind="StatefulSet", name="web"),
            "has no controller",
        ),
        (owned_by("ReplicaSet", "apps/v1"), "belongs to ReplicaSet o, whose pods get a new name"),
        (owned_by("DaemonSet", "apps/v1"), "a new name each time"),
        (owned_by("Job", "batch/v1"), "a new name each time"),
        (owned_by("ReplicationController", "v1"), "a new name each time"),
        (owned_by("Node", "v1"), "it is a static pod of the kubelet there"),
    ],
)
def test_pods_that_would_not_come_back_are_refused(
    owner: OwnerReference | None, reason: str
) -> None:
    with pytest.raises(MoveRefused) as refused:
        plan(web(owner=owner))
    assert reason in str(refused.value)


def test_the_controllers_of_others_may_keep_names() -> None:
    assert (
        plan(web(owner=owned_by("Job", "batch.example.com/v1"))).course is MoveEffect.IS_SENT_AWAY
    )


def test_the_scheduler_must_be_one_that_reads_the_pin() -> None:
    with pytest.raises(MoveRefused, match="uses scheduler test, which reads no pins of mine"):
        plan(web(), PinLabels("mine"))
    own = PinLabels("default-scheduler")
    plain = web(scheduler_name="default-scheduler")
    with pytest.raises(MoveRefused, match="uses the cluster's own scheduler"):
        plan(plain, own)
    assert plan(plain, own, is_name_given=True).course is MoveEffect.IS_SENT_AWAY


def budget(name: str, selector: LabelSelector | None, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name),
        spec=OwnerSpec(selector=selector),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, current_healthy=3, desired_healthy=3 - allowed
        ),
    )


def test_what_budgets_say() -> None:
    selecting = LabelSelector(match_labels={"app": "web"})
    other = LabelSelector(match_labels={"app": "db"})
    wrong = LabelSelector(match_labels={"not a label": ""})
    budgets = [
        budget("full", selecting, 0),
        budget("other", other, 0),
        budget("wrong", wrong, 0),
        budget("none", None, 0),
        budget("all", LabelSelector(), 1),
    ]
    assert budget_notes(web(labels={"app": "web"}), budgets) == [
        "full allows no disruption now (3 healthy, 3 needed)",
        "all allows a disruption now (3 healthy, 2 needed)",
    ]
