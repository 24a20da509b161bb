"""What pods wait for, a covering set: each kind of event, and the plugins it matters most to.

Each row is played on an empty cluster: `scene` is there first, then the pod `waits` and is
rejected with `message`; `in_vain` is a change that must not bring it back, `helps` one that does.
Where possible both are changes of one kind of object, so that they reach the scheduler in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.e2e.requeue_cluster import (
    CLAIMS,
    CLASSES,
    CSI_NODES,
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    SLICES,
    VOLUMES,
    Cluster,
)
from tests.waiting import wait_for

Step: TypeAlias = Callable[[Cluster], None]
Json = dict[str, Any]

POD = "waiting"
_MINE = f"{PODS}/{POD}"
_N1 = f"{NODES}/n1"
_ZONE = "topology.kubernetes.io/zone"
_DRIVER = "disks.example.com"
_SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
_RED_TAINT = {"key": "team", "value": "red", "effect": "NoSchedule"}
_VIP = "system-cluster-critical"
_RED = {"matchLabels": {"colour": "red"}}


@dataclass(frozen=True)
class Row:
    name: str
    #: Part of the condition; empty for a pod that is not even tried.
    message: str
    scene: Step
    waits: Step
    in_vain: Step
    helps: Step

    def __str__(self) -> str:
        return self.name


def _all(*steps: Step) -> Step:
    def play(cluster: Cluster) -> None:
        for step in steps:
            step(cluster)

    return play


def node(name: str = "n1", **fields: Any) -> Step:
    return lambda cluster: cluster.node(name, **fields)


def pod(name: str = POD, **fields: Any) -> Step:
    return lambda cluster: cluster.pod(name, **fields)


def patch(path: str, **fields: Any) -> Step:
    return lambda cluster: cluster.patch(path, **fields)


def delete(path: str) -> Step:
    return lambda cluster: cluster.delete(path)


def relabel(path: str, **labels: str | None) -> Step:
    return patch(path, metadata={"labels": labels})


def _port(port: int) -> Json:
    return {"ports": [{"containerPort": port, "hostPort": port}]}


def _near_red() -> Json:
    term = {"labelSelector": _RED, "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spread(domains: int = 2) -> list[Json]:
    constraint = {"maxSkew": 1, "minDomains": domains, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "topologyKey": _ZONE, "labelSelector": _RED}]


def _asks(cpu: str, memory: str = "1Gi") -> Json:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}}


def _resized(name: str, cpu: str, memory: str) -> Step:
    containers = [{"name": "main", "image": "example.test/main:1", **_asks(cpu, memory)}]
    return patch(f"{PODS}/{name}/resize", spec={"containers": containers})


def _using(claim: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def claim(name: str, volume: str = "", storage_class: str = "") -> Step:
    """A claim, bound to the volume if one is named."""
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata: Json = {}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return lambda cluster: cluster.create(CLAIMS, name, metadata=metadata, spec=spec)


def volume(name: str, claim_name: str, zone: str = "", storage_class: str = "") -> Step:
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "default", "name": claim_name},
        "csi": {"driver": _DRIVER, "volumeHandle": name},
    }
    labels = {_ZONE: zone} if zone else {}
    return lambda cluster: cluster.create(VOLUMES, name, metadata={"labels": labels}, spec=spec)


def _csi_node(limit: int) -> Json:
    driver = {"name": _DRIVER, "nodeID": "n1", "topologyKeys": None}
    return {"drivers": [{**driver, "allocatable": {"count": limit}}]}


def _class(name: str) -> Step:
    return lambda cluster: cluster.create(
        CLASSES, name, provisioner=_DRIVER, volumeBindingMode="WaitForFirstConsumer"
    )


def _made_and_bound(cluster: Cluster) -> None:
    """The scheduler asks for a volume on a node, and gets it from who makes and binds them."""

    def is_asked_for() -> bool:
        annotations = cluster.api.get(f"{CLAIMS}/mine")["metadata"].get("annotations", {})
        return "volume.kubernetes.io/selected-node" in annotations

    wait_for("a node to be selected for the claim", is_asked_for)
    volume("v1", "mine", storage_class="late")(cluster)
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    cluster.patch(
        f"{CLAIMS}/mine", metadata={"annotations": annotations}, spec={"volumeName": "v1"}
    )


OF_NODES = [
    Row(
        "a node gets the label",
        "didn't match Pod's node affinity/selector",
        node(),
        pod(nodeSelector={"disk": "ssd"}),
        relabel(_N1, disk="tape"),
        relabel(_N1, disk="ssd"),
    ),
    Row(
        "a node with the label comes",
        "didn't match Pod's node affinity/selector",
        node(),
        pod(nodeSelector={"disk": "ssd"}),
        node("n2", labels={"disk": "tape"}),
        node("n3", labels={"disk": "ssd"}),
    ),
    Row(
        "the taint goes",
        "had untolerated taint(s)",
        node(taints=[_RED_TAINT]),
        pod(),
        patch(_N1, spec={"taints": [_RED_TAINT, _SOFT]}),
        patch(_N1, spec={"taints": [_SOFT]}),
    ),
    Row(
        "the node offers more",
        "Insufficient cpu",
        node(),
        pod(container=_asks("8")),
        patch(f"{_N1}/status", status={"allocatable": {"memory": "64Gi"}}),
        patch(f"{_N1}/status", status={"allocatable": {"cpu": "16"}}),
    ),
    Row(
        "the node is uncordoned",
        "were unschedulable",
        node(unschedulable=True),
        pod(),
        patch(_N1, spec={"taints": [_SOFT]}),
        patch(_N1, spec={"unschedulable": None}),
    ),
    Row(
        # NodeResourcesFit rejected it on every node, and no label changes that. On n1 it fails
        # after the less important pod, too, for its spread, but preemption leaves no rejector.
        "a zone goes, and preemption would help a pod that spreads",
        "Insufficient cpu",
        _all(
            node(labels={_ZONE: "z1"}),
            node("n2", labels={_ZONE: "z2"}),
            pod("counts", on="n1", labels={"colour": "red"}, priorityClassName=_VIP),
            pod("lesser", on="n1", container=_asks("3")),
            pod("equal", on="n2", container=_asks("4"), priorityClassName=_VIP),
        ),
        pod(
            labels={"colour": "red"},
            container=_asks("2"),
            priorityClassName=_VIP,
            topologySpreadConstraints=_spread(domains=1),
        ),
        relabel(f"{NODES}/n2", **{_ZONE: "z1"}),
        delete(f"{PODS}/lesser"),
    ),
]

OF_PODS = [
    Row(
        "who has the port goes",
        "didn't have free ports",
        _all(
            node(),
            pod("holder", on="n1", container=_port(8080)),
            pod("other", on="n1", container=_port(9090)),
        ),
        pod(container=_port(8080)),
        delete(f"{PODS}/other"),
        delete(f"{PODS}/holder"),
    ),
    Row(
        "a placed pod shrinks",
        "Insufficient cpu",
        _all(node(), pod("big", on="n1", container=_asks("4", "2Gi"))),
        pod(container={"resources": {"requests": {"cpu": "2"}}}),
        _resized("big", "4", "1Gi"),
        _resized("big", "1", "1Gi"),
    ),
    Row(
        "a placed pod gets the label that is sought",
        "didn't match pod affinity rules",
        _all(node(), pod("other", on="n1")),
        pod(affinity=_near_red()),
        relabel(f"{PODS}/other", colour="blue"),
        relabel(f"{PODS}/other", colour="red"),
    ),
    Row(
        "a pod that is sought comes",
        "didn't match pod affinity rules",
        node(),
        pod(affinity=_near_red()),
        pod("blue", on="n1", labels={"colour": "blue"}),
        pod("red", on="n1", labels={"colour": "red"}),
    ),
    Row(
        "a pod that counts goes",
        "didn't match pod topology spread constraints",
        _all(
            node(labels={_ZONE: "z1"}),
            pod("counts", on="n1", labels={"colour": "red"}),
            pod("other", on="n1"),
        ),
        pod(labels={"colour": "red"}, topologySpreadConstraints=_spread()),
        delete(f"{PODS}/other"),
        delete(f"{PODS}/counts"),
    ),
]

OF_ITSELF = [
    Row(
        "its last gate goes",
        "",
        node(),
        pod(schedulingGates=[{"name": "example.com/a"}, {"name": "example.com/b"}]),
        patch(_MINE, spec={"schedulingGates": [{"name": "example.com/b"}]}),
        patch(_MINE, spec={"schedulingGates": None}),
    ),
    Row(
        "it tolerates the taint",
        "had untolerated taint(s)",
        node(taints=[_RED_TAINT]),
        pod(),
        relabel(_MINE, colour="red"),
        lambda cluster: cluster.tolerate(POD, {"key": "team", "operator": "Exists"}),
    ),
]

OF_VOLUMES = [
    Row(
        "its claim comes",
        'persistentvolumeclaim "mine" not found',
        _all(node(), volume("v1", "mine")),
        pod(volumes=_using("mine")),
        claim("other"),
        claim("mine", "v1"),
    ),
    Row(
        "the volume of its claim comes",
        'persistentvolume "v1" not found',
        _all(node(), claim("mine", "v1")),
        pod(volumes=_using("mine")),
        claim("other"),
        volume("v1", "mine"),
    ),
    Row(
        "its volume moves to the node's zone",
        "had no available volume zone",
        _all(node(labels={_ZONE: "z1"}), volume("v1", "mine", "z2"), claim("mine", "v1")),
        pod(volumes=_using("mine")),
        relabel(f"{VOLUMES}/v1", colour="red"),
        relabel(f"{VOLUMES}/v1", **{_ZONE: "z1"}),
    ),
    Row(
        "the class of its claim comes",
        "not found",
        _all(node(), claim("mine", storage_class="late")),
        pod(volumes=_using("mine")),
        claim("other", storage_class="late"),
        _all(_class("late"), _made_and_bound),
    ),
    Row(
        "the node takes more volumes",
        "exceed max volume count",
        _all(
            lambda cluster: cluster.create(CSI_NODES, "n1", spec=_csi_node(1)),
            volume("v1", "held"),
            claim("held", "v1"),
            volume("v2", "mine"),
            claim("mine", "v2"),
            node(),
            pod("holder", on="n1", volumes=_using("held")),
        ),
        pod(volumes=_using("mine")),
        relabel(f"{CSI_NODES}/n1", colour="red"),
        patch(f"{CSI_NODES}/n1", spec=_csi_node(2)),
    ),
]


# Devices


_GPU = "gpu.example.com"
_NO_DEVICE = "cannot allocate all claims"
_WITH_CLAIM = [{"name": "gpu", "resourceClaimName": "mine"}]
_GIVEN = {"request": "gpu", "driver": _GPU, "pool": "n1", "device": "d0"}


def device_class(expression: str = "") -> Step:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return lambda cluster: cluster.create(DEVICE_CLASSES, "gpu", spec={"selectors": selectors})


def _slice_spec(*devices: str, generation: int = 1) -> Json:
    return {
        "driver": _GPU,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": name} for name in devices],
    }


def device_slice(*devices: str) -> Step:
    return lambda cluster: cluster.create(SLICES, "n1-gpus", spec=_slice_spec(*devices))


def resource_claim(name: str, **metadata: Any) -> Step:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    spec = {"devices": {"requests": requests}}
    return lambda cluster: cluster.create(RESOURCE_CLAIMS, name, metadata=metadata, spec=spec)


def _gives(name: str) -> Step:
    """The claim has the only device; no pod uses it."""
    allocation = {"devices": {"results": [_GIVEN]}}
    return patch(f"{RESOURCE_CLAIMS}/{name}/status", status={"allocation": allocation})


def _claim_is_made(cluster: Cluster) -> None:
    """As the claim controller does it for a template."""
    uid = cluster.api.get(_MINE)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": uid, "controller": True}
    resource_claim("made", ownerReferences=[owner])(cluster)
    statuses = [{"name": "gpu", "resourceClaimName": "made"}]
    cluster.patch(f"{_MINE}/status", status={"resourceClaimStatuses": statuses})


OF_DEVICES = [
    Row(
        "its resource claim comes",
        "",
        _all(node(), device_class(), device_slice("d0")),
        pod(resourceClaims=_WITH_CLAIM),
        resource_claim("other"),
        resource_claim("mine"),
    ),
    Row(
        "its resource claim is made from a template",
        "",
        _all(node(), device_class(), device_slice("d0")),
        pod(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]),
        resource_claim("other"),
        _claim_is_made,
    ),
    Row(
        "a resource claim gives its device back",
        _NO_DEVICE,
        _all(
            *(node(), device_class(), device_slice("d0")),
            *(resource_claim("held"), _gives("held"), resource_claim("mine")),
        ),
        pod(resourceClaims=_WITH_CLAIM),
        relabel(f"{RESOURCE_CLAIMS}/held", colour="red"),
        patch(f"{RESOURCE_CLAIMS}/held/status", status={"allocation": None}),
    ),
    Row(
        "a slice with a device comes",
        _NO_DEVICE,
        _all(node(), device_class(), resource_claim("mine")),
        pod(resourceClaims=_WITH_CLAIM),
        resource_claim("other"),
        device_slice("d0"),
    ),
    Row(
        "a slice gets a device",
        _NO_DEVICE,
        _all(node(), device_class(), device_slice(), resource_claim("mine")),
        pod(resourceClaims=_WITH_CLAIM),
        resource_claim("other"),
        patch(f"{SLICES}/n1-gpus", spec=_slice_spec("d0", generation=2)),
    ),
    Row(
        "the device class comes",
        "device class gpu does not exist",
        _all(node(), device_slice("d0"), resource_claim("mine")),
        pod(resourceClaims=_WITH_CLAIM),
        resource_claim("other"),
        device_class(),
    ),
    Row(
        "the device class selects the device",
        _NO_DEVICE,
        _all(node(), device_class("false"), device_slice("d0"), resource_claim("mine")),
        pod(resourceClaims=_WITH_CLAIM),
        resource_claim("other"),
        patch(f"{DEVICE_CLASSES}/gpu", spec={"selectors": [{"cel": {"expression": "true"}}]}),
    ),
]

ROWS = [*OF_NODES, *OF_PODS, *OF_ITSELF, *OF_VOLUMES, *OF_DEVICES]
