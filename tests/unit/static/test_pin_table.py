"""The rows of `stowplan pins`: which pods, which state, which drift."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stowplan.api.objects import Node, Pod
from stowplan.static.pin_table import PinRow, pin_rows
from stowplan.testing import node, pod


def pinned(name: str, *pods: str, scheduler: str = "test", cordoned: bool = False) -> Node:
    """`pods` as namespace/name, or as a bare name for the older label."""
    labels = {}
    for each in pods:
        namespace, slash, pod_name = each.rpartition("/")
        labels[f"rf.scheduler.{scheduler}{'.' if slash else ''}{namespace}/{pod_name}"] = ""
    return node(name, labels=labels, unschedulable=cordoned)


def ours(name: str, on: str = "", phase: str = "Running", namespace: str = "default") -> Pod:
    return pod(name, namespace=namespace, node=on, phase=phase, scheduler_name="test")


def told(rows: Sequence[PinRow]) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            f"{row.namespace or '*'}/{row.pod}",
            ",".join(row.nodes),
            ",".join(row.forms),
            row.state,
            "; ".join(each.message for each in row.drift),
        )
        for row in rows
    ]


def test_all_is_well() -> None:
    rows = pin_rows([pinned("a", "default/web-0"), node("b")], [ours("web-0", "a")])
    assert told(rows) == [("default/web-0", "a", "label", "Running", "")]
    assert rows[0].as_object() == {
        "pod": "web-0",
        "namespace": "default",
        "scheduler": "test",
        "pins": [{"node": "a", "form": "label", "key": "rf.scheduler.test.default/web-0"}],
        "state": "Running",
        "runsOn": "a",
        "drift": [],
    }


@pytest.mark.parametrize(
    ("nodes", "pods", "state", "reason", "message"),
    [
        (
            [pinned("a", "default/x"), node("b")],
            [ours("x", "b")],
            "Running",
            "Elsewhere",
            "runs on b",
        ),
        (
            [pinned("a", "default/x")],
            [ours("x", "b")],
            "Running",
            "Elsewhere",
            "runs on b, which is gone",
        ),
        (
            [pinned("a", "default/x"), pinned("b", "default/x")],
            [ours("x", "a")],
            "Running",
            "SeveralNodes",
            "pinned to 2 nodes",
        ),
        (
            [pinned("a", "default/x", cordoned=True)],
            [ours("x", phase="Pending")],
            "Pending",
            "Cordoned",
            "a is cordoned",
        ),
        ([pinned("a", "x")], [ours("x", "a")], "Running", "OlderLabel", "older label on a"),
        (
            [pinned("a", "default/x")],
            [pod("x", scheduler_name="other", phase="Pending")],
            "Pending",
            "OtherScheduler",
            "uses scheduler other, so the pin has no effect",
        ),
        (
            [pinned("a", "default/y")],
            [ours("x", phase="Pending"), ours("y", "a")],
            "Pending",
            "NoPin",
            "no node has a pin for it",
        ),
    ],
)
def test_every_kind_of_drift(
    nodes: list[Node], pods: list[Pod], state: str, reason: str, message: str
) -> None:
    row = next(row for row in pin_rows(nodes, pods, scheduler="test") if row.pod == "x")
    assert row.state == state
    assert [(each.reason, each.message) for each in row.drift] == [(reason, message)]


def test_what_is_no_drift() -> None:
    nodes = [pinned("a", "default/to-come", "default/done", "default/waits"), node("b")]
    pods = [ours("done", "b", "Succeeded"), ours("waits", phase="Pending")]
    assert told(pin_rows(nodes, pods)) == [
        ("default/done", "a", "label", "Succeeded", ""),
        ("default/to-come", "a", "label", "absent", ""),
        ("default/waits", "a", "label", "Pending", ""),
    ]


def test_a_pod_on_its_way_out() -> None:
    leaving = pod("x", node="a", phase="Running", scheduler_name="test", terminating=True)
    assert told(pin_rows([pinned("a", "default/x")], [leaving])) == [
        ("default/x", "a", "label", "Terminating", "")
    ]


def test_rows_are_sorted_by_namespace_and_number() -> None:
    nodes = [pinned("a", *(f"shop/web-{n}" for n in (10, 9, 1)), "default/z")]
    assert [f"{row.namespace}/{row.pod}" for row in pin_rows(nodes, [])] == [
        "default/z",
        "shop/web-1",
        "shop/web-9",
        "shop/web-10",
    ]


def test_one_namespace_or_all() -> None:
    nodes = [pinned("a", "default/x", "shop/y")]
    assert [row.pod for row in pin_rows(nodes, [], namespace="shop")] == ["y"]
    assert [row.pod for row in pin_rows(nodes, [])] == ["x", "y"]


def test_one_scheduler_or_all_that_have_pins() -> None:
    nodes = [pinned("a", "default/x"), pinned("b", "default/y", scheduler="other")]
    assert [row.scheduler for row in pin_rows(nodes, [])] == ["test", "other"]
    assert [row.pod for row in pin_rows(nodes, [], scheduler="other")] == ["y"]
    assert pin_rows(nodes, [], scheduler="third") == []


def test_pods_of_the_clusters_own_scheduler_are_not_all_listed() -> None:
    nodes = [pinned("a", "default/x", scheduler="default-scheduler")]
    pods = [pod("x", node="a", phase="Running"), pod("plain", node="a", phase="Running")]
    assert [row.pod for row in pin_rows(nodes, pods)] == ["x"]
    asked = pin_rows(nodes, pods, scheduler="default-scheduler")
    assert [row.pod for row in asked] == ["plain", "x"]


def test_pods_of_rfcustom_that_have_no_pin_are_told_even_if_there_is_none_at_all() -> None:
    waiting = pod("x", scheduler_name="rfcustom", phase="Pending")
    rows = pin_rows([node("a")], [waiting, pod("plain")])
    assert told(rows) == [("default/x", "", "", "Pending", "no node has a pin for it")]


def test_the_older_label_is_about_pods_of_every_namespace() -> None:
    nodes = [pinned("a", "x"), pinned("b", "shop/x"), pinned("c", "y")]
    rows = pin_rows(nodes, [ours("x", "a"), ours("x", "b", namespace="shop")])
    assert told(rows) == [
        ("*/y", "c", "older label", "absent", "older label on c"),
        ("default/x", "a", "older label", "Running", "older label on a"),
        ("shop/x", "a,b", "older label,label", "Running", "pinned to 2 nodes; older label on a"),
    ]
    # Asked about one namespace, it is about the pod that may come there.
    alone = pin_rows(nodes, [], namespace="shop")
    assert [row.namespace for row in alone] == ["shop", "shop"]


def test_a_namesake_of_another_scheduler_is_not_meant_by_the_older_label() -> None:
    other = pod("x", scheduler_name="other", phase="Running", node="b")
    rows = pin_rows([pinned("a", "x"), node("b")], [other], scheduler="test", namespace="default")
    assert told(rows) == [("default/x", "a", "older label", "absent", "older label on a")]


def test_annotations_and_another_prefix() -> None:
    listed = node("a", annotations={"pins.example.test.default/pods": "x y"})
    rows = pin_rows([listed], [], prefix="pins.example")
    assert told(rows) == [
        ("default/x", "a", "annotation", "absent", ""),
        ("default/y", "a", "annotation", "absent", ""),
    ]
