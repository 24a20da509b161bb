"""Streams: one cluster, changed step by step; a line that fails changes nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest

from stowplan.framework.plugin import Plugin
from stowplan.judge import Stream, answer
from stowplan.plugins.registry import in_tree_registry
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod

Json: TypeAlias = dict[str, Any]

A, B = as_manifest(make_node("a", cpu=4)), as_manifest(make_node("b", cpu=4))
POD = as_manifest(make_pod("p", cpu=3))
FITS = {"code": "Success"}


def standing(name: str, node: str, **more: Any) -> Json:
    return as_manifest(make_pod(name, cpu=2, node=node, uid=f"uid-{name}", **more))


def gone(kind: str, name: str, **more: str) -> Json:
    return {"kind": kind, "name": name, **more}


@pytest.fixture
def stream() -> Stream:
    stream = Stream()
    assert stream.answer({"apply": [A, B]}) == {"id": 1}
    return stream


def feasible(stream: Stream, **line: Any) -> list[str]:
    said = stream.answer({**line, "pod": POD})
    assert "error" not in said, said
    return sorted(name for name, verdict in said["nodes"].items() if verdict == FITS)


def test_pods_come_move_and_go(stream: Stream) -> None:
    assert feasible(stream, apply=[standing("s", "a")]) == ["b"]
    assert feasible(stream, apply=[standing("s", "b")]) == ["a"]
    assert feasible(stream, apply=[standing("s", "b", phase="Succeeded")]) == ["a", "b"]
    assert feasible(stream, apply=[standing("s", "a")]) == ["b"]
    assert feasible(stream, delete=[gone("Pod", "s", namespace="default")]) == ["a", "b"]


def test_a_pod_of_the_same_name_takes_the_place_of_the_old_one(stream: Stream) -> None:
    assert feasible(stream, apply=[standing("s", "a")]) == ["b"]
    newer = as_manifest(make_pod("s", cpu=2, node="b", uid="newer"))
    assert feasible(stream, apply=[newer]) == ["a"]
    assert feasible(stream, delete=[gone("Pod", "s")]) == ["a", "b"]


def test_nominations_come_change_and_go(stream: Stream) -> None:
    def nominated(node: str) -> Json:
        return as_manifest(make_pod("n", cpu=2, nominated_node=node, uid="n"))

    assert feasible(stream, apply=[nominated("a")]) == ["b"]
    assert feasible(stream, apply=[nominated("b")]) == ["a"]
    assert feasible(stream, apply=[nominated("")]) == ["a", "b"]
    assert feasible(stream, apply=[nominated("a")]) == ["b"]
    bound = as_manifest(make_pod("n", cpu=2, node="b", nominated_node="a", uid="n"))
    assert feasible(stream, apply=[bound]) == ["a"]
    assert feasible(stream, delete=[gone("Pod", "n")]) == ["a", "b"]


def test_nodes_come_change_and_go(stream: Stream) -> None:
    small = as_manifest(make_node("a", cpu=1))
    assert feasible(stream, apply=[small]) == ["b"]
    assert feasible(stream, apply=[A]) == ["a", "b"]
    assert feasible(stream, delete=[gone("Node", "a")]) == ["b"]
    assert feasible(stream, apply=[A]) == ["a", "b"]


def test_pods_stay_when_their_node_goes(stream: Stream) -> None:
    assert feasible(stream, apply=[standing("s", "a")], delete=[gone("Node", "b")]) == []
    assert feasible(stream, delete=[gone("Node", "a")]) == []
    assert feasible(stream, apply=[B]) == ["b"]
    assert feasible(stream, apply=[A]) == ["b"], "the pod still stands on it"


def test_objects_that_no_plugin_reads_can_be_deleted(stream: Stream) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "s"}}
    assert "error" not in stream.answer({"apply": [secret, boat]})
    assert "error" not in stream.answer({"delete": [gone("Secret", "s")]})
    unknown = stream.answer({"delete": [gone("Boat", "s")]})
    assert "delete[0]: kind: Invalid value" in unknown["error"]
    deletion = {"apiVersion": "example.com/v1", "kind": "Boat", "name": "s", "namespace": ""}
    assert "error" not in stream.answer({"delete": [deletion]})


def test_a_configuration_holds_from_its_line_on(stream: Stream) -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    lax = {"profiles": [{"plugins": plugins}]}
    stream.answer({"apply": [standing("s", "a")]})
    assert feasible(stream) == ["b"]
    assert feasible(stream, config=lax) == ["a", "b"]
    assert feasible(stream) == ["a", "b"]
    assert feasible(stream, config={}) == ["b"]
    assert stream.answer({"id": 6, "config": lax}) == {"id": 6}
    assert feasible(stream) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ({"apply": [standing("s", "a"), {"kind": "Pod"}]}, "apply[1]: apiVersion: Required"),
        ({"apply": [A, A]}, "apply[1]: Node a: metadata.name: Duplicate value"),
        ({"apply": [standing("s", "a")], "pod": {"kind": "Node"}}, "pod: "),
        ({"apply": [standing("s", "a")], "config": {"x": 1}}, "config: x: unknown field"),
        ({"apply": [standing("s", "a")], "zebra": 1}, "zebra: unknown key"),
        ({"apply": [standing("s", "a")], "objects": []}, "objects: unknown key"),
        ({"apply": [standing("s", "a")], "delete": [gone("Node", "c")]}, "Node c not found"),
        ({"apply": [standing("s", "a")], "delete": [gone("Pod", "s")]}, "applied in the same"),
        ({"delete": [gone("Node", "a"), gone("Node", "a")]}, "delete[1]: Node a is there twice"),
        ({"delete": [gone("Node", "a"), 7]}, "delete[1]: expected an object, got a number"),
        ({"delete": [gone("Node", "a"), {"kind": "Node"}]}, "delete[1]: name: Required value"),
        ({"delete": [gone("Node", "a"), gone("Nod", "b")]}, 'did you mean "Node"?'),
        ({"delete": [{**gone("Node", "a"), "uid": "x"}]}, "delete[0]: uid: unknown key"),
        (
            {"apply": [standing("s", "a"), as_manifest(make_pod("x", node="a", uid="uid-s"))]},
            "metadata.uid: Duplicate value",
        ),
    ],
)
def test_a_line_that_fails_changes_nothing(stream: Stream, line: Json, error: str) -> None:
    said = stream.answer(line)
    assert error in said["error"]
    assert said.keys() == {"id", "error"}
    assert feasible(stream) == ["a", "b"]


def test_a_namesake_of_the_pod_may_stand_already(stream: Stream) -> None:
    assert "best" in stream.answer({"apply": [standing("p", "a")], "pod": POD})


class _Moody(Plugin):
    """Breaks once there is a third node."""

    name = "Moody"

    def filter(self, _pod: object, node: Any) -> bool:
        if node.name == "c":
            raise RuntimeError("three is a crowd")
        return True


def test_a_line_that_a_plugin_breaks_at_changes_nothing() -> None:
    registry = in_tree_registry()
    registry.register(_Moody)
    stream = Stream(registry=registry)
    plugins = {"multiPoint": {"enabled": [{"name": "Moody"}]}}
    stream.answer({"config": {"profiles": [{"plugins": plugins}]}, "apply": [A, B]})
    stream.answer({"apply": [standing("s", "a")]})
    crowd = {
        "apply": [as_manifest(make_node("c")), standing("s", "b"), standing("t", "b")],
        "delete": [gone("Node", "a")],
        "pod": POD,
    }
    assert "three is a crowd" in stream.answer(crowd)["error"]
    assert feasible(stream) == ["b"]
    assert feasible(stream, delete=[gone("Pod", "s")]) == ["a", "b"]
    assert "not found" in stream.answer({"delete": [gone("Pod", "t")]})["error"]


def test_a_warm_answer_is_a_cold_answer(stream: Stream) -> None:
    objects = [A, B, standing("s", "a"), standing("t", "b")]
    stream.answer({"apply": objects[2:], "pod": POD})
    for _ in range(3):
        warm = stream.answer({"id": 0, "pod": POD})
        assert warm == answer({"id": 0, "objects": objects, "pod": POD})
