"""What the pages are given: waiting pods by cause, one pod's matrix, figures over time."""

from __future__ import annotations

import pytest

from stowplan.console.decision import explain_pod
from stowplan.console.flow import quantile
from stowplan.console.pending import dominant_reason, waiting_pods
from stowplan.testing import node, pod
from tests.console_stage import Stage


def staged() -> Stage:
    stage = Stage()
    stage.add_nodes([node("big", cpu=16), node("small", cpu=2), node("off", unschedulable=True)])
    stage.add_pods([pod("web", cpu=1), pod("huge", cpu=64), pod("held", gates=["example.com/g"])])
    return stage


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient cpu."
            " preemption: 0/5 nodes are available: 5 No preemption victims found.",
            "Insufficient cpu",
        ),
        ("0/3 nodes are available: 3 node(s) had untolerated taint(s).", "node(s) had untolerated"
         " taint(s)"),
        ('0/2 nodes are available: persistentvolumeclaim "a" not found. preemption: x', 'persistent'
         'volumeclaim "a" not found'),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_cause_is_what_most_nodes_say(message: str, cause: str) -> None:
    assert dominant_reason(message) == cause


def test_waiting_pods_of_a_scheduler_and_of_objects_alone() -> None:
    stage = staged()
    live = waiting_pods(stage.mirror, stage.engine)
    states = {each["state"]: each for each in live["states"]}
    assert {name: each["pods"] for name, each in states.items()} == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 1,
        "gated": 1,
        "permit": 0,
    }
    (group,) = states["unschedulable"]["groups"]
    assert (group["cause"], group["plugins"]) == (
        "Insufficient cpu",
        ["NodeResourcesFit", "NodeUnschedulable"],
    )
    assert group["listed"][0]["pod"] == "default/huge"
    assert group["listed"][0]["attempts"] == 1
    alone = waiting_pods(stage.mirror, None)
    counts = {each["state"]: each["pods"] for each in alone["states"]}
    assert (alone["live"], counts["unschedulable"], counts["gated"]) == (False, 1, 1)


def test_the_matrix_of_a_pod_that_fits_nowhere_and_of_one_that_is_placed() -> None:
    stage = staged()
    huge = stage.mirror.find_pod("default", "huge")
    assert huge is not None
    shown = explain_pod(stage.mirror, stage.engine, huge)
    (attempt,) = shown["attempts"]
    assert (attempt["attempt"], attempt["result"]) == (1, "unschedulable")
    assert explain_pod(stage.mirror, None, huge)["attempts"] == []
    assert shown["matrix"]["winner"] == ""
    refusing = {
        each["node"]: [obstacle["plugin"] for obstacle in each["obstacles"]]
        for each in shown["matrix"]["nodes"]
    }
    assert refusing["big"] == ["NodeResourcesFit"]
    assert refusing["off"] == ["NodeUnschedulable", "NodeResourcesFit"]
    web = stage.mirror.find_pod("default", "web")
    assert web is not None
    matrix = explain_pod(stage.mirror, stage.engine, web)["matrix"]
    assert matrix["winner"] == "big"
    assert [each["node"] for each in matrix["nodes"]] == ["big", "small", "off"]
    assert matrix["nodes"][0]["scores"]["NodeResourcesFit"] > 0
    # Explaining took the pod out of the mirror for a moment, and put it back.
    assert stage.mirror.table.pod_count[stage.mirror.table.row_of["big"]] == 1


def test_figures_over_time() -> None:
    stage = staged()
    flow = stage.console.flow
    stage.clock.shift += 1
    flow.sample()
    stage.add_pods([pod(f"more-{n}", cpu="10m") for n in range(4)])
    stage.clock.shift += 2
    sample = flow.sample()
    assert sample["bound"] == pytest.approx(2, rel=0.2)
    assert sample["attempts"][0] == pytest.approx(2, rel=0.2)
    view = flow.view()
    assert view["pending"] == [2, 2]
    assert view["latency"][0][-1] > 0
    assert len(view["time"]) == 2


def test_quantiles_are_interpolated_within_their_bucket() -> None:
    assert quantile((1.0, 2.0, 4.0), (0, 10, 10, 0), 0.75) == 3.0
    assert quantile((1.0, 2.0), (0, 0, 5), 0.5) == 2.0
    assert quantile((1.0,), (0, 0), 0.5) is None
