"""Questions and answers: what a line means, and what its answer holds."""

from __future__ import annotations

from typing import Any, TypeAlias

from stowplan.judge import Judge, Stream, answer
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod

Json: TypeAlias = dict[str, Any]


def question(**more: Any) -> Json:
    nodes = [make_node("a", cpu=4), make_node("b", cpu=1)]
    asked: Json = {
        "id": "q",
        "objects": [as_manifest(node) for node in nodes],
        "pod": as_manifest(make_pod("p", cpu=2)),
    }
    return {**asked, **more}


def test_every_node_is_told_and_a_single_feasible_one_is_scored() -> None:
    said = answer(question())
    assert said["id"] == "q"
    assert said["nodes"] == {
        "a": {"code": "Success"},
        "b": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeResourcesFit",
            "reasons": ["Insufficient cpu"],
        },
    }
    assert said["scores"].keys() == {"a"}
    assert said["totals"] == {"a": sum(said["scores"]["a"].values())}
    assert said["best"] == ["a"]


def test_nothing_feasible_means_no_scores() -> None:
    said = answer(question(pod=as_manifest(make_pod("p", cpu=9))))
    assert said.keys() == {"id", "nodes"}


def test_a_stream_answers_for_the_state_so_far() -> None:
    stream = Stream()
    pod = as_manifest(make_pod("p", cpu=2))
    assert stream.answer({"apply": question()["objects"]}) == {"id": 1}
    assert stream.answer({"id": "x", "pod": pod}) == {**answer(question()), "id": "x"}
    gone = stream.answer({"delete": [{"kind": "Node", "name": "a"}], "pod": pod})
    assert gone["nodes"].keys() == {"b"}


def test_objects_may_go_unchecked() -> None:
    bad = question(pod={"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert "spec.containers: Required value" in answer(bad)["error"]
    assert "error" not in Judge(check=False).answer(bad)
