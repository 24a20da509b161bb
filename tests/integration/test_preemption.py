"""Important pods get room, on the embedded and on the real API server.

No kubelet runs here, so a pod that is deleted stays, terminating, until the test lets it go.
"""

from __future__ import annotations

import time

import pytest

from tests.integration.preempting import (
    create,
    is_leaving,
    make_room_on_n1,
    nominated,
    wait_leaving,
)
from tests.integration.target import Target
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("priorities")


def test_a_less_important_pod_makes_room(target: Target) -> None:
    target.create_nodes("n1")
    target.start()
    create(target, "low", "low")
    target.wait_bound("low")
    create(target, "high", "high")

    victim = wait_leaving(target, "low")

    (condition,) = [c for c in victim["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    event = target.wait_event("low", "Preempted")
    uid = target.pod("high")["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node n1"
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["related"]["name"] == "high"
    wait_for("the nomination", lambda: nominated(target, "high") == "n1")
    assert target.wait_condition("high", "False")["message"] == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    target.delete_pod("low")
    assert target.wait_bound("high") == {"high": "n1"}


def test_room_that_is_being_made_is_not_stolen(target: Target) -> None:
    """The victim takes its time; a pod of the middle finds the node promised to another."""
    make_room_on_n1(target, "high")
    create(target, "middle", "middle", cpu="2")
    target.wait_condition("middle", "False")
    target.delete_pod("low")
    assert target.wait_bound("high") == {"high": "n1"}
    assert target.node_of("middle") == ""
    assert not is_leaving(target, "high")


def test_nobody_dies_twice_for_one_pod(target: Target) -> None:
    """While the first victim leaves, attempts of the same pod evict nobody else."""
    target.create_nodes("n1", "n2")
    target.start()
    create(target, "a", "low")
    create(target, "b", "low")
    target.wait_bound("a", "b")
    create(target, "high", "high")
    wait_for("a victim", lambda: is_leaving(target, "a") or is_leaving(target, "b"))
    victim, other = ("a", "b") if is_leaving(target, "a") else ("b", "a")
    # Any change of a node brings the pod back for another attempt.
    for number in range(3):
        target.create_nodes(f"useless-{number}", cpu="1")
        time.sleep(0.5)
    assert not is_leaving(target, other)
    target.delete_pod(victim)
    target.wait_bound("high")
    assert not is_leaving(target, other)


def test_a_less_important_nomination_is_cleared(target: Target) -> None:
    make_room_on_n1(target, "middle")
    create(target, "high", "high")
    wait_for("the new nomination", lambda: nominated(target, "high") == "n1")
    target.delete_pod("low")
    assert target.wait_bound("high") == {"high": "n1"}
    wait_for("the old one to go", lambda: nominated(target, "middle") == "")


def test_never_evicts_nobody(target: Target) -> None:
    target.create_nodes("n1")
    target.start()
    create(target, "low", "low")
    target.wait_bound("low")
    create(target, "polite", "polite")
    condition = target.wait_condition("polite", "False")
    assert condition["message"].endswith("preemption: not eligible due to preemptionPolicy=Never.")
    assert not is_leaving(target, "low")


def test_a_pod_that_permit_holds_is_turned_back_without_being_deleted(target: Target) -> None:
    target.create_nodes("node6")  # holds pods for so many seconds
    config = target.config_file(
        "profiles: [{schedulerName: default-scheduler, "
        "plugins: {multiPoint: {enabled: [{name: NodeNumber}]}}}]\n"
    )
    scheduler = target.start("--config", str(config))
    scheduler.wait_until_scheduling()
    create(target, "held", "low")
    wait_for("the pod to be held", lambda: 'pod="default/held"' in scheduler.log)
    create(target, "high", "high")
    event = target.wait_event("held", "Preempted")
    assert event["note"].endswith(" on node node6 (in kube-scheduler memory).")
    assert target.wait_bound("high") == {"high": "node6"}
    assert not is_leaving(target, "held")
    assert target.node_of("held") == ""
