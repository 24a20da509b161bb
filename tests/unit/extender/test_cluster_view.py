"""Nodes and apps, change by change, beside the same worked out anew."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Node, Pod
from stowplan.extender.cluster_view import CONTROL_PLANE_LABELS, Basics, ClusterView
from stowplan.testing import node, pod


def view_of(*objects: Node | Pod, namespaces: tuple[str, ...] = ("default",)) -> ClusterView:
    view = ClusterView(namespaces)
    for each in objects:
        if isinstance(each, Node):
            view.put_node(each)
        else:
            view.put_pod(each)
    return view


def app_pod(name: str, app: str = "web", **options: Any) -> Pod:
    return pod(name, labels={"app": app}, **options)


@pytest.mark.parametrize(
    ("cpu", "memory", "basics"),
    [
        ("72", "197541168Ki", Basics(72.0, 202.0)),  # 202,282,156,032 bytes
        ("3920m", "16Gi", Basics(3.92, 17.0)),  # 17,179,869,184 bytes
        ("1e1", "1e9", Basics(10.0, 1.0)),
        (4, 32_000_000_000, Basics(4.0, 32.0)),
        ("0.5", "1.5G", Basics(0.5, 1.0)),
        ("2", "500M", Basics(2.0, 0.0)),
        ("many", "16Gi", Basics(None, 17.0)),
        ("4", "-1", Basics(4.0, None)),
        ("4", "9" * 400, Basics(4.0, None)),
    ],
)
def test_capacities_of_any_form(cpu: str | int, memory: str | int, basics: Basics) -> None:
    view = view_of(node("n1", cpu=cpu, memory=memory))
    assert view.basics() == {"n1": basics}
    assert view.bad_quantities == (None in (basics.cpu, basics.memory_gb))


def test_a_node_that_says_nothing_is_there() -> None:
    view = view_of(Node(metadata=node("n1").metadata))
    assert view.basics() == {"n1": Basics(None, None)}
    assert view.bad_quantities == 1
    view.put_node(node("n1"))
    assert view.bad_quantities == 0


@pytest.mark.parametrize("label", CONTROL_PLANE_LABELS)
def test_control_plane_nodes_and_the_pods_on_them_are_not_there(label: str) -> None:
    view = view_of(
        node("n1"), node("boss", labels={label: ""}), app_pod("a", node="n1"),
        app_pod("b", node="boss"), app_pod("c", node="unknown"),
    )  # fmt: skip
    assert list(view.basics()) == ["n1"]
    assert view.counts() == ({"n1": {"web": ["a"]}}, {})
    view.put_node(node("boss"))
    assert view.counts()[0]["boss"] == {"web": ["b"]}
    view.put_node(node("boss", labels={label: ""}))
    assert "boss" not in view.counts()[0]


def test_finished_pods_and_pods_without_an_app_are_no_load() -> None:
    view = view_of(
        node("n1"),
        app_pod("runs", node="n1", phase="Running"),
        app_pod("starts", node="n1", phase="Pending"),
        app_pod("ends", node="n1", phase="Running", terminating=True),
        app_pod("done", node="n1", phase="Succeeded"),
        app_pod("broken", node="n1", phase="Failed"),
        app_pod("waits", phase="Pending"),
        app_pod("waits-too", "db"),
        pod("bare", node="n1"),
        app_pod("empty", "", node="n1"),
    )
    assert view.counts() == ({"n1": {"web": ["ends", "runs", "starts"]}}, {"web": 1, "db": 1})
    assert view.pods_without_app == 2
    assert view.pod_count == 7


def test_what_was_handed_out_does_not_change() -> None:
    view = view_of(node("n1"), node("n2"), app_pod("a", node="n1"), app_pod("b"))
    first, basics = view.counts(), view.basics()
    kept = copy.deepcopy((first, basics))
    assert view.counts() is first
    assert view.basics() is basics
    view.put_pod(app_pod("b", node="n1"))
    view.put_pod(app_pod("a", node="n2"))
    view.put_node(node("n1", cpu="8"))
    view.remove_node("n2")
    assert (first, basics) == kept
    assert view.counts() == ({"n1": {"web": ["b"]}}, {})


def test_a_node_that_only_breathes_changes_nothing() -> None:
    view = view_of(node("n1"))
    version, counts = view.nodes_version, view.counts()
    view.put_node(node("n1", annotations={"heartbeat": "2"}))
    assert view.nodes_version == version
    assert view.counts() is counts
    view.put_node(node("n1", cpu="5"))
    assert view.nodes_version > version


def test_names_of_tasks_say_the_namespace_where_there_are_several() -> None:
    first, second = app_pod("a", node="n1"), app_pod("a", node="n1", namespace="shop")
    view = view_of(node("n1"), first, second, namespaces=("default", "shop"))
    assert view.counts()[0] == {"n1": {"web": ["default/a", "shop/a"]}}
    assert view.pods_named("shop/a") == [second]
    assert view.pods_named("a") == [first, second]
    assert view.pods_named("b") == view.pods_named("other/a") == []


NODES = st.sampled_from(["n1", "n2", "n3"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NODES, st.booleans()),
        st.tuples(st.just("no node"), NODES),
        st.tuples(
            st.just("pod"),
            st.sampled_from("abcdef"),
            st.sampled_from(["", "web", "db"]),
            st.one_of(st.just(""), NODES),
            st.sampled_from(["", "Running", "Succeeded"]),
        ),
        st.tuples(st.just("no pod"), st.sampled_from("abcdef")),
    ),
    max_size=30,
)


@given(STEPS)
def test_steps_lead_where_a_new_view_begins(steps: list[tuple[str, ...]]) -> None:
    view = ClusterView(("default",))
    nodes: dict[str, Node] = {}
    pods: dict[str, Pod] = {}
    for what, name, *rest in steps:
        if what == "node":
            labels = {CONTROL_PLANE_LABELS[1]: ""} if rest[0] else None
            nodes[name] = node(name, labels=labels)
            view.put_node(nodes[name])
        elif what == "no node":
            nodes.pop(name, None)
            view.remove_node(name)
        elif what == "pod":
            app, place, phase = rest
            pods[name] = app_pod(name, app, node=place, phase=phase)
            view.put_pod(pods[name])
        else:
            known = pods.pop(name, None)
            if known is not None:
                view.remove_pod(known)
        view.counts()
    assigned, unassigned = view.counts()
    live = [each for each in pods.values() if not each.is_finished]
    counted = [each for each in live if (each.metadata.labels or {})["app"]]
    workers = [name for name, each in nodes.items() if len(each.metadata.labels or {}) == 1]
    assert sorted(assigned) == sorted(workers)
    for name in workers:
        here = [each for each in counted if each.spec.node_name == name]
        apps = {(each.metadata.labels or {})["app"] for each in here}
        assert assigned[name] == {
            app: sorted(
                each.metadata.name for each in here if (each.metadata.labels or {})["app"] == app
            )
            for app in apps
        }
    waiting = [(e.metadata.labels or {})["app"] for e in counted if not e.spec.node_name]
    assert unassigned == dict(Counter(waiting))
    assert view.pods_without_app == len(live) - len(counted)
    assert view.pod_count == len(live)
