"""Objects: upstream's defaults and names, numbered; nodes, pods and volumes as they are sent."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from stowplan.workloads.model import (
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    NodeAllocatable,
    NodeLabels,
    NodeStrategy,
    UniqueNodeLabel,
    UpdateAny,
    Volumes,
)
from stowplan.workloads.objects import (
    DEFAULT_NODE,
    DEFAULT_POD,
    Made,
    Names,
    any_writes,
    churn_write,
    namespace_writes,
    node_writes,
    pod_writes,
    update_writes,
)
from stowplan.workloads.templates import Template
from stowplan.workloads.writes import Chain, deletion


def nodes(count: int, strategy: NodeStrategy | None, template: Template | None) -> list[Chain]:
    return list(node_writes(CreateNodes(count, "node-0-", template, strategy), Names()))


def pods(operation: CreatePods, names: Names | None = None) -> list[dict[str, Any]]:
    made: list[Made] = []
    chains = list(pod_writes(operation, names or Names(), made.append))
    built = [chain[-1].object for chain in chains]
    assert [pod["metadata"]["name"] for pod in built] == [each.name for each in made]
    return built


def test_a_node_without_template_is_upstreams() -> None:
    ((write,),) = nodes(1, None, None)
    assert (write.verb, write.path) == ("create", "/api/v1/nodes")
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    assert write.object == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "node-0-00000",
            "labels": {"kubernetes.io/hostname": "node-0-00000"},
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_labels_are_dealt_in_turn_beside_those_of_the_template(folder: Path) -> None:
    template = Template(folder / "node.yaml")
    chains = nodes(3, NodeLabels("zone", ("a", "b")), template)
    labels = [chain[0].object["metadata"]["labels"] for chain in chains]
    assert [each["zone"] for each in labels] == ["a", "b", "a"]
    assert labels[2] == {"disk": "ssd", "kubernetes.io/hostname": "shelf-00002", "zone": "a"}
    assert template.build(0, 1)["metadata"]["labels"] == {"disk": "ssd"}


def test_unique_labels_are_unique_and_the_same_in_every_run() -> None:
    runs = [
        [chain[0].object["metadata"]["labels"]["rack"] for chain in nodes(4, label, None)]
        for label in (UniqueNodeLabel("rack"), UniqueNodeLabel("rack"))
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4


def test_allocatable_comes_on_top_of_the_capacity_with_a_csi_node(folder: Path) -> None:
    strategy = NodeAllocatable(
        {"disks": "39"}, {"d.example": 39, "endless.example": None}, ("kubernetes.io/aws-ebs",)
    )
    ((node, csi_node),) = nodes(1, strategy, Template(folder / "node.yaml"))
    assert node.object["status"] == {
        "capacity": {"cpu": "4", "pods": "10"},
        "allocatable": {"cpu": "4", "pods": "10", "disks": "39"},
    }
    assert csi_node.path == "/apis/storage.k8s.io/v1/csinodes"
    assert csi_node.object == {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": "shelf-00000",
            "annotations": {
                "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"
            },
        },
        "spec": {
            "drivers": [
                {"name": "d.example", "nodeID": "shelf-00000", "allocatable": {"count": 39}},
                {"name": "endless.example", "nodeID": "shelf-00000"},
            ]
        },
    }


def test_a_pod_without_template_is_upstreams() -> None:
    (pod,) = pods(CreatePods(1, "ns"))
    assert pod["metadata"] == {"name": "pod-00000", "namespace": "ns"}
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "500Mi"}


def test_names_go_on_counting_within_namespace_and_beginning(folder: Path) -> None:
    names = Names()
    web = Template(folder / "pod.yaml")
    first = pods(CreatePods(2, "a", web), names)
    second = pods(CreatePods(1, "a"), names)  # of another kind, but named alike
    elsewhere = pods(CreatePods(1, "b", web), names)
    found = [pod["metadata"]["name"] for pod in (*first, *second, *elsewhere)]
    assert found == ["pod-00000", "pod-00001", "pod-00002", "pod-00000"]


def test_names_that_a_template_gives_are_kept(folder: Path) -> None:
    built = pods(CreatePods(2, "a", Template(folder / "numbered-pod.yaml")))
    assert [pod["metadata"] for pod in built] == [
        {"name": "pod-0", "namespace": "a", "labels": {"parity": "0"}},
        {"name": "pod-1", "namespace": "a", "labels": {"parity": "1"}},
    ]


def test_pods_are_made_one_at_a_time_over_shared_parts() -> None:
    endless = pod_writes(CreatePods(10**12, "a"), Names(), lambda made: None)
    first, second = next(endless)[0].object, next(endless)[0].object
    assert first["spec"] is second["spec"] is DEFAULT_POD["spec"]


def test_nothing_changes_the_defaults() -> None:
    before = copy.deepcopy((DEFAULT_NODE, DEFAULT_POD))
    nodes(2, NodeAllocatable({"disks": "1"}), None)
    pods(CreatePods(2, "a"))
    assert before == (DEFAULT_NODE, DEFAULT_POD)


def test_a_pod_with_a_volume_comes_after_a_bound_pair(folder: Path) -> None:
    volumes = Volumes(Template(folder / "claim.yaml"), Template(folder / "volume.yaml"))
    operation = CreatePods(2, "ns", Template(folder / "pod.yaml"), volumes)
    chain = list(pod_writes(operation, Names(), lambda made: None))[1]
    assert [(write.verb, write.path) for write in chain] == [
        ("create", "/api/v1/namespaces/ns/persistentvolumeclaims"),
        ("update", "/api/v1/namespaces/ns/persistentvolumeclaims/pvc-1/status"),
        ("create", "/api/v1/persistentvolumes"),
        ("update", "/api/v1/persistentvolumes/ns-vol-1/status"),
        ("create", "/api/v1/namespaces/ns/pods"),
    ]
    claim, volume, pod = chain[0].object, chain[2].object, chain[4].object
    assert claim["metadata"] == {
        "name": "pvc-1",
        "namespace": "ns",
        "annotations": {"pv.kubernetes.io/bind-completed": "true"},
    }
    assert claim["spec"]["volumeName"] == "ns-vol-1"
    assert claim["status"] == volume["status"] == {"phase": "Bound"}
    assert volume["spec"]["csi"] == {"driver": "d.example", "volumeHandle": "ns-vol-1"}
    assert volume["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "ns",
        "name": "pvc-1",
    }
    assert pod["spec"]["volumes"] == [
        {"name": "vol", "persistentVolumeClaim": {"claimName": "pvc-1"}}
    ]


def test_in_tree_disks_have_the_ids_that_upstream_gives_them(folder: Path) -> None:
    volumes = Volumes(Template(folder / "claim.yaml"), Template(folder / "aws-volume.yaml"))
    (chain,) = pod_writes(CreatePods(1, "ns", None, volumes), Names(), lambda made: None)
    assert chain[2].object["metadata"]["name"] == "ns-vol-0"
    assert chain[2].object["spec"]["awsElasticBlockStore"] == {"volumeID": "vol-0"}


def test_namespaces_are_numbered_and_may_be_there(folder: Path) -> None:
    template = Template(folder / "namespace.yaml")
    chains = list(namespace_writes(CreateNamespaces(2, "team", template)))
    assert [write.object["metadata"] for (write,) in chains] == [
        {"name": "team-0", "labels": {"team": "devops"}},
        {"name": "team-1", "labels": {"team": "devops"}},
    ]
    assert all(write.may_exist for (write,) in chains)


def test_any_object_and_its_update(folder: Path) -> None:
    (created,) = next(any_writes(CreateAny(1, "ns", Template(folder / "service.yaml")), Names()))
    assert created.path == "/api/v1/namespaces/ns/services"
    assert created.object["metadata"] == {"name": "service-00000", "namespace": "ns"}
    update = UpdateAny(1, "ns", Template(folder / "numbered-pod.yaml"), subresource="resize")
    (chain,) = update_writes(update, Names())
    assert [(write.verb, write.path) for write in chain] == [
        ("update", "/api/v1/namespaces/ns/pods/pod-0/resize"),
        ("update", "/api/v1/namespaces/ns/pods/pod-0/status"),
    ]


def test_a_churns_objects_are_in_its_namespace_if_in_any(folder: Path) -> None:
    names = Names()
    service = churn_write(Template(folder / "service.yaml"), names, "ns")
    node = churn_write(Template(folder / "node.yaml"), names, "ns")
    assert (service.namespace, node.namespace) == ("ns", "")
    gone = deletion(service.resource, service.namespace, service.name)
    assert gone.path == "/api/v1/namespaces/ns/services/service-00000"
    assert deletion(node.resource, "", node.name).path == "/api/v1/nodes/shelf-00000"
