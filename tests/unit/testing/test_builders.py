"""The builders make what tests ask for, and manifests that API servers take."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.api.objects import Node, Pod, PodStatus, Taint, Toleration
from stowplan.testing import as_manifest, node, pod
from stowplan.testing.builders import DELETED


def test_every_object_has_a_uid_of_its_own() -> None:
    uids = [pod("same").uid, pod("same").uid, node("same").metadata.uid]
    assert len(set(uids)) == 3
    assert pod(uid="chosen").uid == "chosen"


def test_pod_defaults() -> None:
    built = pod("web-0")
    assert (built.key, built.spec.scheduler_name) == ("default/web-0", "default-scheduler")
    assert built.spec.containers is not None
    (container,) = built.spec.containers
    assert container.resources is not None
    assert container.resources.requests == {"cpu": "100m", "memory": "128Mi"}
    assert not built.is_terminating
    assert built.spec.node_name == ""
    assert pod().metadata.name.startswith("pod-")


def test_pod_asks_for_what_it_is_told() -> None:
    built = pod("a", cpu=None, memory=None, requests={"example.com/gpu": 2})
    assert built.spec.containers is not None
    resources = built.spec.containers[0].resources
    assert resources is not None
    assert resources.requests == {"example.com/gpu": 2}
    # An API server refuses extended resources without an equal limit.
    assert resources.limits == {"example.com/gpu": 2}
    bare = pod("b", cpu=None, memory=None)
    assert bare.spec.containers is not None
    assert bare.spec.containers[0].resources is None


def test_pod_fields_by_name() -> None:
    built = pod(
        "a",
        node="n1",
        priority=7,
        labels={"app": "a"},
        terminating=True,
        phase="Running",
        nominated_node="n2",
        gates=["wait"],
        tolerations=["k=v:NoSchedule", "k:NoExecute", "k", Toleration(key="z"), {"key": "y"}],
        node_selector={"disk": "ssd"},
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        topology_spread_constraints=[{"topologyKey": "zone", "maxSkew": 2}],
    )
    assert built.spec.node_name == "n1"
    assert built.priority == 7
    assert built.metadata.deletion_timestamp == DELETED
    assert (built.status.phase, built.status.nominated_node_name) == ("Running", "n2")
    assert [gate.name for gate in built.spec.scheduling_gates or ()] == ["wait"]
    assert built.spec.tolerations == (
        Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"),
        Toleration(key="k", operator="Exists", effect="NoExecute"),
        Toleration(key="k", operator="Exists"),
        Toleration(key="z"),
        Toleration(key="y"),
    )
    assert built.spec.affinity is not None
    assert built.spec.affinity.node_affinity is not None
    assert built.spec.topology_spread_constraints is not None
    assert built.spec.topology_spread_constraints[0].max_skew == 2
    status = PodStatus(phase="Failed")
    assert pod("b", status=status).status is status


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="no field node_selektor"):
        pod("a", node_selektor={})
    with pytest.raises(msgspec.ValidationError):
        pod("a", affinity={"podAffinity": 3})
    with pytest.raises(ValueError, match="is not a taint"):
        node("n", taints=["key=value"])


def test_node_fields() -> None:
    built = node(
        "n1",
        cpu=8,
        memory="1Gi",
        pods=10,
        resources={"example.com/gpu": 4},
        zone="z",
        region="r",
        labels={"disk": "ssd"},
        taints=["a=b:NoSchedule", "c:NoExecute", Taint(key="d", effect="PreferNoSchedule")],
        unschedulable=True,
        images={"web:1": 5},
    )
    assert built.metadata.labels == {
        "kubernetes.io/hostname": "n1",
        "topology.kubernetes.io/zone": "z",
        "topology.kubernetes.io/region": "r",
        "disk": "ssd",
    }
    assert built.spec.taints == (
        Taint(key="a", value="b", effect="NoSchedule"),
        Taint(key="c", effect="NoExecute"),
        Taint(key="d", effect="PreferNoSchedule"),
    )
    assert built.spec.unschedulable
    assert built.status.allocatable == {
        "cpu": 8, "memory": "1Gi", "pods": 10, "example.com/gpu": 4,
    }  # fmt: skip
    assert built.status.images is not None
    assert built.status.images[0].names == ("web:1",)
    assert built.status.conditions is not None
    assert built.status.conditions[0].type == "Ready"


def test_manifests_round_trip_and_leave_the_object_alone() -> None:
    built = pod("a", cpu=2, init_containers=[{"resources": {"requests": {"cpu": 1}}}])
    manifest = as_manifest(built)
    assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "Pod")
    assert manifest["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    init = manifest["spec"]["initContainers"][0]
    assert init == {"name": "i0", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    assert built.spec.containers is not None
    assert built.spec.containers[0].resources is not None
    assert (built.spec.containers[0].resources.requests or {})["cpu"] == 2
    decoded = msgspec.convert(manifest, Pod)
    assert decoded.metadata == built.metadata

    constraint = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spread = as_manifest(pod("a", topology_spread_constraints=[constraint]))
    assert spread["spec"]["topologySpreadConstraints"] == [{**constraint, "maxSkew": 1}]

    made = node("n", cpu=4, taints=["a:NoSchedule"])
    shown = as_manifest(made)
    assert shown["kind"] == "Node"
    assert shown["status"]["allocatable"]["cpu"] == "4"
    assert msgspec.convert(shown, Node).spec == made.spec
