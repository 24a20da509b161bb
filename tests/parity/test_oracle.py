"""The oracle itself: it answers, refuses and survives as the comparisons rely on."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.parity.oracle import Oracle, OracleError

Json: TypeAlias = dict[str, Any]

pytestmark = pytest.mark.e2e


def question(**more: Any) -> Json:
    nodes = [make_node("a", zone="z1"), make_node("b", zone="z1"), make_node("c", zone="z2")]
    asked: Json = {"nodes": [as_manifest(node) for node in nodes], "pod": as_manifest(make_pod())}
    return {**asked, **more}


def test_default_profile_is_the_one_we_know(oracle: Oracle) -> None:
    answer = oracle.ask(question())
    ours = {ref.name: ref.weight for ref in DEFAULT_MULTI_POINT}
    assert answer["filter"].keys() | answer["score"].keys() <= ours.keys()
    for name, score in answer["score"].items():
        assert score["weight"] == max(ours[name], 1), name


def test_nodes_come_zone_by_zone_in_order_of_arrival(oracle: Oracle) -> None:
    assert oracle.ask(question())["order"] == ["a", "c", "b"]


def test_every_filter_speaks_of_every_node(oracle: Oracle) -> None:
    nodes = [as_manifest(make_node("a", cpu=0, unschedulable=True, taints=["k:NoSchedule"]))]
    answer = oracle.ask(question(nodes=nodes))
    refusing = {
        name
        for name, given in answer["filter"].items()
        if given.get("nodes", {}).get("a", {}).get("code", "Success") != "Success"
    }
    assert refusing == {"NodeUnschedulable", "TaintToleration", "NodeResourcesFit"}
    assert answer["feasible"] == []
    message = answer["outcome"]["message"]
    assert message.startswith("0/1 nodes are available: 1 node(s) were unschedulable. ")


def test_other_objects_reach_the_plugins(oracle: Oracle) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    pod = as_manifest(make_pod(volumes=[claim]))
    missing = oracle.ask(question(pod=pod))
    assert missing["filter"]["VolumeBinding"]["prefilter"] == {
        "code": "UnschedulableAndUnresolvable",
        "reasons": ['persistentvolumeclaim "data" not found'],
    }
    objects = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "late"},
            "provisioner": "example.com/disks",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]},
            "status": {"phase": "Pending"},
        },
    ]
    found = oracle.ask(question(pod=pod, objects=objects))
    assert found["filter"]["VolumeBinding"]["prefilter"] == {"code": "Success"}
    assert found["outcome"]["node"] == "a"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"colour": "red"}, 'unknown field "colour"'),
        ({"pod": None}, "the request has no pod"),
        ({"config": "kind: Nonsense"}, "cannot read the configuration"),
        ({"objects": [{"kind": "Nonsense"}]}, "cannot read objects\\[0\\]"),
        ({"objects": [as_manifest(make_node("a"))]}, "have lists of their own"),
        ({"nodes": [None]}, "panic: .*nil pointer"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_bad_question_is_refused_and_the_next_one_answered(
    oracle: Oracle, wrong: Json, words: str
) -> None:
    with pytest.raises(OracleError, match=words):
        oracle.ask(question(**wrong))
    assert oracle.ask(question())["outcome"]["node"]


def test_configuration_is_validated(oracle: Oracle) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 101,
    }
    with pytest.raises(OracleError, match="percentageOfNodesToScore"):
        oracle.ask(question(config=json.dumps(config)))
