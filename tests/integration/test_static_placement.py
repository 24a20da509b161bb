"""`stowplan run` with StaticPlacement in its profile: labels on nodes while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.lab.faults import Fault
from tests.integration.target import Scheduler, Target
from tests.waiting import wait_for

MINE = {"schedulerName": "test"}
STRICT = """
profiles:
- schedulerName: test
  tieBreak: random
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: StaticPlacement}, {name: DefaultBinder}]
"""
WITH_DEFAULTS = """
profiles:
- schedulerName: test
  plugins: {multiPoint: {enabled: [{name: StaticPlacement}]}}
"""


def key(pod: str) -> str:
    return f"rf.scheduler.test.default/{pod}"


def label(target: Target, node: str, pod: str) -> None:
    _patch(target, node, {"labels": {key(pod): ""}})


def unlabel(target: Target, node: str, pod: str) -> None:
    _patch(target, node, {"labels": {key(pod): None}})


def _patch(target: Target, node: str, metadata: dict[str, Any]) -> None:
    target.api.patch(f"/api/v1/nodes/{node}", {"metadata": metadata})


def started(target: Target, profile: str = STRICT) -> Scheduler:
    scheduler = target.start("--config", str(target.config_file(profile)))
    scheduler.wait_until_scheduling()
    return scheduler


@pytest.mark.parametrize("profile", [STRICT, WITH_DEFAULTS], ids=["strict", "with defaults"])
def test_a_label_brings_the_waiting_pod_to_its_node(target: Target, profile: str) -> None:
    target.create_nodes("n1", "n2")
    scheduler = started(target, profile)
    target.create_pods("web-0", "web-1", **MINE)
    command = f"`kubectl label node NODE {key('web-0')}=`"
    assert command in target.wait_condition("web-0", "False")["message"]
    assert command in target.wait_event("web-0", "FailedScheduling")["note"]
    assert command in scheduler.log
    label(target, "n2", "web-0")
    assert target.wait_bound("web-0") == {"web-0": "n2"}
    target.wait_condition("web-1", "False")
    assert target.node_of("web-1") == ""


def test_an_annotation_and_an_older_label_do_as_well(target: Target) -> None:
    long = "a-stateful-set-with-a-very-long-name-that-no-label-can-hold-anymore-0"
    target.create_nodes("n1", "n2")
    scheduler = started(target)
    target.create_pods(long, "web-0", **MINE)
    told = target.wait_condition(long, "False")["message"]
    assert f"`kubectl annotate node NODE rf.scheduler.test.default/pods={long}`" in told
    _patch(target, "n1", {"annotations": {"rf.scheduler.test.default/pods": f"other, {long}"}})
    _patch(target, "n2", {"labels": {"rf.scheduler.test/web-0": "whatever"}})
    assert target.wait_bound(long, "web-0") == {long: "n1", "web-0": "n2"}
    wait_for("the warning", lambda: "Node labels that name no namespace" in scheduler.log)
    assert f"kubectl label node n2 {key('web-0')}=" in scheduler.log


def test_a_label_that_is_gone_before_the_pod_comes_places_nothing(target: Target) -> None:
    target.create_nodes("n1", "n2")
    started(target)
    label(target, "n1", "web-0")
    unlabel(target, "n1", "web-0")
    label(target, "n2", "web-1")
    target.create_pods("web-1", **MINE)
    # From then on the scheduler knows of all three changes.
    assert target.wait_bound("web-1") == {"web-1": "n2"}
    target.create_pods("web-0", **MINE)
    target.wait_condition("web-0", "False")
    assert target.node_of("web-0") == ""


def test_a_label_that_goes_while_the_pod_is_being_bound_changes_nothing(target: Target) -> None:
    target.create_nodes("n1", "n2")
    started(target)
    target.proxy.inject(Fault("POST", "/binding$", before=lambda _: _move(target)))
    label(target, "n1", "web-0")
    target.create_pods("web-0", **MINE)
    assert target.wait_bound("web-0") == {"web-0": "n1"}
    # It is moved by being made anew.
    target.delete_pod("web-0")
    wait_for("the pod to go", lambda: "web-0" not in target.pods())
    target.create_pods("web-0", **MINE)
    assert target.wait_bound("web-0") == {"web-0": "n2"}


def _move(target: Target) -> None:
    unlabel(target, "n1", "web-0")
    label(target, "n2", "web-0")


def test_several_labelled_nodes_share_the_pods(target: Target) -> None:
    names = [f"web-{number}" for number in range(24)]
    target.create_nodes("n1", "n2", "n3", unschedulable=True)
    for node in ("n1", "n2"):
        _patch(target, node, {"labels": dict.fromkeys(map(key, names), "")})
    started(target)
    target.create_pods(*names, **MINE)
    # That chance takes the same node 24 times happens once in eight million runs.
    assert set(target.wait_bound(*names).values()) == {"n1", "n2"}


def test_a_node_that_is_deleted_and_comes_back(target: Target) -> None:
    target.create_nodes("n1", "n2")
    label(target, "n2", "web-0")
    started(target)
    target.api.delete("/api/v1/nodes/n2")
    target.create_nodes("n3")
    label(target, "n3", "web-1")
    target.create_pods("web-1", **MINE)
    target.wait_bound("web-1")
    target.create_pods("web-0", **MINE)
    target.wait_condition("web-0", "False")
    target.create_nodes("n2")
    label(target, "n2", "web-0")
    assert target.wait_bound("web-0") == {"web-0": "n2"}


def test_with_the_default_plugins_a_cordon_holds_the_pod_back(target: Target) -> None:
    target.create_nodes("n1")
    target.create_nodes("n2", unschedulable=True)
    label(target, "n2", "web-0")
    started(target, WITH_DEFAULTS)
    target.create_pods("web-0", **MINE)
    told = target.wait_condition("web-0", "False")["message"]
    assert told.startswith(
        "0/2 nodes are available: 1 node(s) didn't satisfy plugin(s) [StaticPlacement], "
        "1 node(s) were unschedulable."
    )
    target.api.patch("/api/v1/nodes/n2", {"spec": {"unschedulable": None, "taints": None}})
    assert target.wait_bound("web-0") == {"web-0": "n2"}
