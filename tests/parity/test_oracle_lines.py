"""The oracle's answers to the lines of `stowplan decide`, and to its streams."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.parity.generate.dice import Json
from tests.parity.oracle import Oracle

pytestmark = pytest.mark.e2e


def a_node(name: str, **about: Any) -> Json:
    return as_manifest(make_node(name, **about))


def a_pod(name: str = "p", **about: Any) -> Json:
    return as_manifest(make_pod(name, **about))


def test_a_line_has_verdicts_scores_and_the_best(oracle: Oracle) -> None:
    objects = [a_node("a", cpu=8), a_node("b", cpu=8), a_node("c", unschedulable=True)]
    answer = oracle.answer({"id": "x", "objects": objects, "pod": a_pod(cpu=1)})
    assert answer["id"] == "x"
    assert answer["nodes"] == {
        "a": {"code": "Success"},
        "b": {"code": "Success"},
        "c": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeUnschedulable",
            "reasons": ["node(s) were unschedulable"],
        },
    }
    assert answer["scores"].keys() == {"a", "b"}
    for name, scores in answer["scores"].items():
        assert sum(scores.values()) == answer["totals"][name]
    assert answer["best"] == ["a", "b"]


def test_a_single_feasible_node_is_scored(oracle: Oracle) -> None:
    answer = oracle.answer({"id": 1, "objects": [a_node("a")], "pod": a_pod()})
    assert answer["best"] == ["a"]
    assert answer["scores"]["a"]["TaintToleration"] == 300


def test_nodes_that_are_left_out_and_pods_that_are_rejected(oracle: Oracle) -> None:
    def by_name(*names: str) -> Json:
        fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        wish = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        asked = a_pod()
        asked["spec"]["affinity"] = {"nodeAffinity": wish}
        return asked

    objects = [a_node("a"), a_node("b")]
    narrowed = oracle.answer({"id": 1, "objects": objects, "pod": by_name("b")})
    assert narrowed["nodes"] == {"a": {"code": "ExcludedByPreFilter"}, "b": {"code": "Success"}}
    rejected = oracle.answer({"id": 2, "objects": objects, "pod": by_name("a", "b")})
    assert rejected == {
        "id": 2,
        "nodes": {},
        "prefilter": {
            "code": "UnschedulableAndUnresolvable",
            "plugin": "NodeAffinity",
            "reasons": ["pod affinity terms conflict"],
        },
    }


def test_no_nodes_no_answer_from_plugins(oracle: Oracle) -> None:
    assert oracle.answer({"id": 1, "objects": [], "pod": a_pod()}) == {"id": 1, "nodes": {}}


def test_the_pods_profile_judges(oracle: Oracle) -> None:
    version = "kubescheduler.config.k8s.io/v1"
    plain = {"plugins": {"multiPoint": {"disabled": [{"name": "NodeUnschedulable"}]}}}
    config = {
        "apiVersion": version,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "lax", **plain}],
    }
    objects = [a_node("a", unschedulable=True)]
    asked: Json = {"id": 1, "config": config, "objects": objects, "pod": a_pod()}
    assert oracle.answer(asked)["nodes"]["a"]["plugin"] == "NodeUnschedulable"
    asked["pod"]["spec"]["schedulerName"] = "lax"
    assert oracle.answer(asked)["nodes"]["a"] == {"code": "Success"}
    asked["pod"]["spec"]["schedulerName"] = "nobody"
    assert oracle.answer(asked) == {"id": 1, "error": 'no profile is called "nobody"'}


def test_a_stream_goes_on_until_a_fresh_line(oracle: Oracle) -> None:
    first = {"id": 0, "apply": [a_node("a", cpu=4), a_pod("s", cpu=3, node="a")], "fresh": True}
    assert oracle.answer(first) == {"id": 0}
    asked = a_pod(cpu=2)
    assert oracle.answer({"id": 1, "pod": asked})["nodes"]["a"]["code"] == "Unschedulable"
    gone = [{"kind": "Pod", "namespace": "default", "name": "s"}]
    assert oracle.answer({"id": 2, "delete": gone, "pod": asked})["best"] == ["a"]
    smaller = [a_node("a", cpu=1)]
    full = oracle.answer({"id": 3, "apply": smaller, "pod": asked})
    assert full["nodes"]["a"]["code"] == "UnschedulableAndUnresolvable"
    finished = a_pod("s", cpu=1, node="a")
    finished["status"]["phase"] = "Succeeded"
    assert oracle.answer({"id": 4, "apply": [finished], "pod": a_pod(cpu=1)})["best"] == ["a"]
    assert oracle.answer({"id": 5, "pod": asked, "fresh": True})["nodes"] == {}


def test_promises_are_kept_in_a_stream(oracle: Oracle) -> None:
    promised = a_pod("n", cpu=4, nominated_node="a")
    oracle.answer({"id": 0, "apply": [a_node("a", cpu=4), promised], "fresh": True})
    asked = a_pod(cpu=1)
    assert oracle.answer({"id": 1, "pod": asked})["nodes"]["a"]["code"] == "Unschedulable"
    promised["status"]["nominatedNodeName"] = ""
    assert oracle.answer({"id": 2, "apply": [promised], "pod": asked})["best"] == ["a"]


def test_a_pod_that_moved_is_another_one(oracle: Oracle) -> None:
    """The scheduler itself would end: no API server lets a pod move."""
    nodes = [a_node("a", cpu=4), a_node("b", cpu=4)]
    oracle.answer({"id": 0, "apply": [*nodes, a_pod("s", cpu=4, node="a")], "fresh": True})
    moved = [a_pod("s", cpu=4, node="b")]
    assert oracle.answer({"id": 1, "apply": moved, "pod": a_pod(cpu=1)})["best"] == ["a"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"objects": [], "pod": None}, "the line has no pod"),
        ({"objects": [{"kind": "Nonsense"}], "pod": {}}, "cannot read objects[0]"),
        ({"objects": [], "colour": 1}, 'unknown field "colour"'),
        ({"apply": [{"apiVersion": "v1", "kind": "Secret"}]}, 'objects of kind "Secret"'),
        ({"config": {"kind": "Nonsense"}, "fresh": True}, "cannot read the configuration"),
    ],
)
def test_a_bad_line_is_an_error_with_its_id(oracle: Oracle, line: Json, words: str) -> None:
    oracle.answer({"id": 0, "apply": [], "fresh": True})
    answer = oracle.answer({"id": 7, **line})
    assert answer["id"] == 7
    assert words in answer["error"]
    assert "error" not in oracle.answer({"id": 8, "objects": [], "pod": a_pod()})
