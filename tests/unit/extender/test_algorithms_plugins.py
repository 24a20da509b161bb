"""!Plugins: profiles and plugins of Stowplan as an algorithm for kube-scheduler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES as NODE_KIND
from stowplan.api.resources import PODS
from stowplan.errors import ConfigError
from stowplan.extender import ExtenderArgs, ExtenderFilterResult
from stowplan.extender.algorithms.plugins import Plugins
from stowplan.extender.background import Runs
from stowplan.extender.configuration import load
from stowplan.extender.kubeapi import Kubeapi
from stowplan.extender.reading import read_args
from tests.unit.api.api_kit import until

from .cluster_kit import running_cluster
from .memory_provider import gauge


def node(name: str, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
        },
    }


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [container], **spec},
    }


TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
NODES = [node("big", "8"), node("small", "1"), node("tainted", "8", taints=[TAINT])]


def args_of(kind: str, asked_pod: Any, nodes: list[dict[str, Any]]) -> ExtenderArgs:
    if kind == "made":
        return ExtenderArgs(nodes, asked_pod, [])
    return read_args(json.dumps({"Pod": asked_pod, "Nodes": {"items": nodes}}).encode())


@pytest.mark.parametrize("kind", ["made", "received"])
def test_filters_of_single_plugins(kind: str) -> None:
    algorithm = Plugins(plugins=["NodeResourcesFit", "TaintToleration"])
    result = algorithm.filter(args_of(kind, pod("2"), NODES))
    assert result == ExtenderFilterResult(
        NodeNames=["big"],
        # Preemption could make room where there is too little, but takes no taint away. (A node
        # that is too small for the pod as such cannot be helped either.)
        FailedAndUnresolvableNodes={
            "small": "Insufficient cpu",
            "tainted": "node(s) had untolerated taint(s)",
        },
    )


def test_one_plugin_judges_alone() -> None:
    algorithm = Plugins(plugins=["TaintToleration"])
    result = algorithm.filter(args_of("made", pod("2"), NODES))
    assert result.NodeNames == ["big", "small"]
    tolerant = pod("2", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    assert algorithm.filter(args_of("made", tolerant, NODES)).NodeNames == [
        "big",
        "small",
        "tainted",
    ]


def test_scores_of_plugins_are_from_0_to_10() -> None:
    algorithm = Plugins(plugins=["NodeResourcesFit"])
    # LeastAllocated, weight 1: the mean of free CPU and free memory in percent. Memory that is
    # not asked for counts as 200 MB: (8192 - 200)*100/8192 = 97. big has (8 - 1)*100/8 = 87 of its
    # CPUs free: (87 + 97)/2 = 92, of 100 that is 9 of 10. small has none: (0 + 97)/2 = 48, so 4.
    request = args_of("made", pod("1"), [node("small", "1"), node("big", "8")])
    assert str(algorithm.prioritize(request)) == "[big=9, small=4]"
    # Who fits nowhere has no score.
    request = args_of("made", pod("9"), NODES)
    assert str(algorithm.prioritize(request)) == "[big=0, small=0, tainted=0]"


def test_nodes_come_change_and_go_with_the_requests() -> None:
    algorithm = Plugins(plugins=["NodeResourcesFit"])
    assert algorithm.filter(args_of("received", pod("2"), [node("n", "1")])).NodeNames == []
    assert algorithm.filter(args_of("received", pod("2"), [node("n", "4")])).NodeNames == ["n"]
    assert algorithm.filter(args_of("received", pod("2"), [node("m", "4")])).NodeNames == ["m"]
    assert list(algorithm._cache.table.row_of) == ["m"]


def test_names_alone_say_nothing_without_a_cluster_to_follow() -> None:
    algorithm = Plugins(plugins=["NodeResourcesFit"])
    request = ExtenderArgs(None, pod("2"), ["a", "b"])
    assert algorithm.filter(request).NodeNames == ["a", "b"]
    assert str(algorithm.prioritize(request)) == "[a=0, b=0]"
    assert gauge(algorithm.get_metrics_registry(), "nodes_not_judged", reason="unknown_node") == 2


def test_a_pod_that_cannot_be_read_is_left_alone() -> None:
    algorithm = Plugins(plugins=["NodeResourcesFit"])
    unreadable: list[Any] = [
        {"spec": {"containers": 7}},
        {"metadata": []},
        pod("lots"),
        {"spec": {"nodeName": 3}},
    ]
    for junk in unreadable:
        request = args_of("made", junk, NODES)
        assert algorithm.filter(request).NodeNames == ["big", "small", "tainted"]
        assert {score.Score for score in algorithm.prioritize(request)} == {0}
    shown = algorithm.get_metrics_registry()
    assert gauge(shown, "pods_not_judged", reason="unreadable_pod") == 8


def test_a_node_that_cannot_be_read_is_accepted() -> None:
    algorithm = Plugins(plugins=["NodeResourcesFit"])
    odd = {"metadata": {"name": "odd"}, "spec": 7}
    assert algorithm.filter(args_of("received", pod("2"), [odd, *NODES])).NodeNames == [
        "odd",
        "big",
        "tainted",
    ]
    assert (
        gauge(algorithm.get_metrics_registry(), "nodes_not_judged", reason="unreadable_node") == 1
    )


PROFILE = {
    "schedulerName": "mine",
    "plugins": {
        "score": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "TaintToleration", "weight": 3}],
        }
    },
}


@pytest.mark.parametrize("how", ["file", "profile", "configuration"])
def test_whole_profiles(how: str, tmp_path: Path) -> None:
    whole: Any = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [PROFILE],
    }
    file = tmp_path / "scheduler.yaml"
    file.write_text(json.dumps(whole), encoding="utf-8")
    algorithm = Plugins({"file": str(file), "profile": PROFILE, "configuration": whole}[how])
    assert str(algorithm) == "Plugins(mine)"
    # Default filters: NodeUnschedulable is among them.
    nodes = [node("closed", unschedulable=True), *NODES]
    result = algorithm.filter(args_of("made", pod("1"), nodes))
    assert result.NodeNames == ["big", "small"]
    assert result.FailedAndUnresolvableNodes["closed"] == "node(s) were unschedulable"
    # Three times 100 is the most that there is.
    assert str(algorithm.prioritize(args_of("made", pod("1"), nodes[:2]))) == "[big=10, closed=0]"


def test_the_pod_says_which_profile() -> None:
    strict = {"schedulerName": "strict", "plugins": {}}
    lax = {
        "schedulerName": "lax",
        "plugins": {"filter": {"disabled": [{"name": "*"}]}},
    }
    algorithm = Plugins({"profiles": [strict, lax]})
    by_name = {
        name: algorithm.filter(args_of("made", pod("2", schedulerName=name), NODES)).NodeNames
        for name in ("strict", "lax", "default-scheduler")
    }
    assert by_name == {
        "strict": ["big"],
        "lax": ["big", "small", "tainted"],
        "default-scheduler": ["big"],
    }


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "it needs either profile or plugins"),
        ({"profile": {}, "plugins": ["NodeName"]}, "it needs either profile or plugins"),
        ({"plugins": ["NoSuchPlugin"]}, "NoSuchPlugin"),
        ({"plugins": ["os:system"]}, "os:system"),
        ({"profile": {"plugin": {}}}, "plugin"),
        ({"profile": "/no/such/file.yaml"}, "/no/such/file.yaml"),
        (
            {"profile": {"profiles": [{}], "extenders": [{"urlPrefix": "http://127.0.0.1:1"}]}},
            "extenders",
        ),
    ],
)
def test_mistakes(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Plugins(**fields)


async def test_the_cluster_is_followed_by_a_part_of_its_own() -> None:
    async with running_cluster() as cluster:
        cluster.node("n", cpu="4")
        cluster.namespace("shop")
        cluster.pod("there", namespace="shop", cpu="3", node="n")
        cluster.pod("pending", cpu="3")
        algorithm = Plugins(
            plugins=["NodeResourcesFit", "PodTopologySpread"], kubeapi=cluster.kubeapi()
        )
        [part] = algorithm.parts
        assert isinstance(part, Runs)
        assert part.why_not_ready() == "not started"
        await part.start()
        try:
            await until(lambda: part.why_not_ready() is None)
            # The nodes of a request play no part.
            request = ExtenderArgs([node("n", "64")], pod("2"), ["n", "new"])
            assert algorithm.filter(request).FailedNodes == {"n": "Insufficient cpu"}
            async with ApiClient(ClusterConfig(cluster.server.url)) as client:
                done = {"status": {"phase": "Succeeded"}}
                await client.patch(PODS, "there", done, namespace="shop", subresource="status")
                await until(lambda: algorithm.filter(request).NodeNames == ["n", "new"])
                uid = (await client.get(PODS, "pending", namespace="default")).uid
                await client.bind("default", "pending", uid, "n")
                await until(lambda: algorithm.filter(request).NodeNames == ["new"])
                await client.delete(PODS, "pending", namespace="default", grace_period_s=0)
                await until(lambda: algorithm.filter(request).NodeNames == ["n", "new"])
                cluster.pod("third", cpu="3", node="n")
                await until(lambda: algorithm.filter(request).NodeNames == ["new"])
                # Of a node that is gone nothing is known, though a pod of it is left.
                await client.delete(NODE_KIND, "n")
                await until(lambda: algorithm.filter(request).NodeNames == ["n", "new"])
        finally:
            await part.stop()


async def test_a_cluster_that_is_away_is_waited_for() -> None:
    api = Kubeapi("http://127.0.0.1", 1)
    [part] = Plugins(plugins=["NodeResourcesFit"], kubeapi=api).parts
    await part.start()
    try:
        assert str(part.why_not_ready()).startswith("not listed yet: nodes, pods")
    finally:
        await part.stop()
        await part.stop()


def test_in_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("algorithm: !Plugins {plugins: [NodeName]}\n", encoding="utf-8")
    assert isinstance(load(file).algorithm, Plugins)
    file.write_text("algorithm: !Plugins {plugins: NodeName}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1, column 31 for field 'plugins'"):
        load(file)
