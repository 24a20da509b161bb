"""Objects that an API server refuses: a good one of each kind, and single mistakes to make in it.

The same table is put to `stowplan decide` and to a real kube-apiserver, which must complain of the
same field.
"""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple, TypeAlias

Json: TypeAlias = dict[str, Any]

_POD_SPEC: Json = {
    "containers": [
        {
            "name": "main",
            "image": "web:1",
            "resources": {"requests": {"cpu": "1"}},
            "ports": [{"containerPort": 80}],
        }
    ]
}
_TEMPLATE: Json = {"metadata": {"labels": {"app": "web"}}, "spec": _POD_SPEC}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _object(kind: str, api_version: str = "v1", **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "good"}, **more}


GOOD: dict[str, Json] = {
    "Pod": _object("Pod", spec=_POD_SPEC),
    "Node": _object(
        "Node",
        spec={"taints": [{"key": "a", "effect": "NoSchedule"}]},
        status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    ),
    "Namespace": _object("Namespace"),
    "Service": _object("Service", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    "ReplicaSet": _object(
        "ReplicaSet",
        "apps/v1",
        spec={"selector": {"matchLabels": {"app": "web"}}, "template": _TEMPLATE},
    ),
    "PodDisruptionBudget": _object(
        "PodDisruptionBudget",
        "policy/v1",
        spec={"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
    ),
    "StatefulSet": _object(
        "StatefulSet",
        "apps/v1",
        spec={
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": _TEMPLATE,
        },
    ),
    "ReplicationController": _object(
        "ReplicationController", spec={"selector": {"app": "web"}, "template": _TEMPLATE}
    ),
    "PersistentVolumeClaim": _object(
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    ),
    "PersistentVolume": _object(
        "PersistentVolume",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disks.example.com", "volumeHandle": "v1"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}
                    ]
                }
            },
        },
    ),
    "StorageClass": _object("StorageClass", "storage.k8s.io/v1", provisioner="disks.example.com"),
    "CSINode": _object(
        "CSINode",
        "storage.k8s.io/v1",
        spec={"drivers": [{"name": "disks.example.com", "nodeID": "n", "topologyKeys": ["zone"]}]},
    ),
    "CSIDriver": _object("CSIDriver", "storage.k8s.io/v1", spec={"storageCapacity": True}),
    "CSIStorageCapacity": _object(
        "CSIStorageCapacity",
        "storage.k8s.io/v1",
        storageClassName="fast",
        capacity="10Gi",
        nodeTopology={"matchLabels": {"zone": "z"}},
    ),
    "VolumeAttachment": _object(
        "VolumeAttachment",
        "storage.k8s.io/v1",
        spec={
            "attacher": "disks.example.com",
            "nodeName": "n1",
            "source": {"persistentVolumeName": "pv"},
        },
    ),
    "DeviceClass": _object(
        "DeviceClass",
        "resource.k8s.io/v1",
        spec={"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
    ),
    "ResourceSlice": _object(
        "ResourceSlice",
        "resource.k8s.io/v1",
        spec={
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "A100"}}}],
        },
    ),
    "ResourceClaim": _object(
        "ResourceClaim",
        "resource.k8s.io/v1",
        spec={
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu.example.com",
                            "allocationMode": "ExactCount",
                            "count": 1,
                        },
                    }
                ]
            }
        },
    ),
}
for _kind in ("ReplicaSet", "StatefulSet"):
    GOOD[_kind]["spec"]["template"]["spec"] = {**_POD_SPEC, "restartPolicy": "Always"}


class Mistake(NamedTuple):
    """`value` at `path` of a good object (None takes it out) is refused because of `field`."""

    kind: str
    path: str
    value: Any
    field: str
    words: str = ""

    def made(self) -> Json:
        """The object with the mistake in it."""
        obj = copy.deepcopy(GOOD[self.kind])
        *way, last = (
            int(step) if step.isdecimal() else step for step in re.findall(r"[^.\[\]]+", self.path)
        )
        holder: Any = obj
        for step in way:
            holder = holder.setdefault(step, {}) if isinstance(holder, dict) else holder[step]
        if self.value is None:
            del holder[last]
        elif isinstance(holder, list) and last == len(holder):
            holder.append(self.value)
        else:
            holder[last] = self.value
        return obj

    def __str__(self) -> str:
        return f"{self.kind}.{self.path}"


_TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
_SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
_AFFINITY = "spec.affinity"
_SPREADING = "spec.topologySpreadConstraints"
_MAIN = "spec.containers[0]"


def _node_term(**requirement: Any) -> Json:
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


MISTAKES: list[Mistake] = [
    # Names and labels
    Mistake("Pod", "metadata.name", None, "metadata.name", "Required value"),
    Mistake("Pod", "metadata.name", "Web_1", "metadata.name", "RFC 1123"),
    Mistake("Pod", "metadata.name", 7, "metadata.name", "cannot unmarshal number"),
    Mistake("Pod", "metadata.labels", {"-x": "y"}, "metadata.labels", "name part"),
    Mistake("Pod", "metadata.labels", {"x": "y!"}, "metadata.labels", "a valid label"),
    Mistake("Pod", "metadata.labels", ["x"], "metadata.labels", "cannot unmarshal array"),
    Mistake("Pod", "metadata.annotations", {"a b": ""}, "metadata.annotations", "name part"),
    Mistake("Pod", "metadata.deletionTimestamp", "soon", "metadata.deletionTimestamp", "soon"),
    Mistake("Namespace", "metadata.name", "a.b", "metadata.name", "Invalid value"),
    Mistake("Node", "metadata.name", "n/1", "metadata.name", "RFC 1123"),
    # What pods ask for
    Mistake("Pod", "spec", "big", "spec", "cannot unmarshal string"),
    Mistake("Pod", "spec.containers", [], "spec.containers", "Required value"),
    Mistake("Pod", "spec.containers", {"a": 1}, "spec.containers", "cannot unmarshal object"),
    Mistake("Pod", f"{_MAIN}.name", None, f"{_MAIN}.name", "Required value"),
    Mistake("Pod", f"{_MAIN}.image", None, f"{_MAIN}.image", "Required value"),
    Mistake("Pod", "spec.containers[1]", {"name": "main", "image": "x"}, "spec.containers[1].name"),
    Mistake(
        "Pod",
        f"{_MAIN}.resources.requests.cpu",
        "lots",
        f"{_MAIN}.resources.requests[cpu]",
        "quantities must match",
    ),
    Mistake("Pod", f"{_MAIN}.resources.requests.cpu", "-1", f"{_MAIN}.resources.requests[cpu]"),
    Mistake("Pod", f"{_MAIN}.resources.requests.cup", "1", f"{_MAIN}.resources.requests[cup]"),
    Mistake("Pod", f"{_MAIN}.resources.limits.cpu", "500m", f"{_MAIN}.resources.requests"),
    Mistake(
        "Pod",
        f"{_MAIN}.resources.requests",
        {"example.com/gpu": "1"},
        f"{_MAIN}.resources.limits",
        "Limit must be set",
    ),
    Mistake("Pod", f"{_MAIN}.resources.limits", "all", f"{_MAIN}.resources.limits"),
    Mistake("Pod", f"{_MAIN}.ports[0].hostPort", 70000, f"{_MAIN}.ports[0].hostPort"),
    Mistake("Pod", f"{_MAIN}.ports[0].hostPort", "80", f"{_MAIN}.ports[0].hostPort"),
    Mistake("Pod", f"{_MAIN}.ports[0].protocol", "tcp", f"{_MAIN}.ports[0].protocol"),
    Mistake(
        "Pod",
        "spec.resources",
        {"requests": {"cpu": "500m"}},
        "spec.resources.requests[cpu]",
        "must be greater than or equal to aggregate container requests of 1",
    ),
    Mistake("Pod", "spec.overhead", {"cpu": "-1"}, "spec.overhead[cpu]"),
    Mistake("Pod", "spec.priority", 2**31, "spec.priority", "cannot unmarshal number"),
    Mistake("Pod", "spec.restartPolicy", "Sometimes", "spec.restartPolicy"),
    Mistake("Pod", "spec.preemptionPolicy", "Maybe", "spec.preemptionPolicy"),
    Mistake("Pod", "spec.nodeSelector", {"zone": "a b"}, "spec.nodeSelector"),
    Mistake("Pod", "spec.nodeSelector", "zone=a", "spec.nodeSelector"),
    Mistake("Pod", "spec.nodeName", "A", "spec.nodeName"),
    Mistake("Pod", "spec.schedulingGates", [{"name": "a b"}], "spec.schedulingGates[0]"),
    # Tolerations
    Mistake("Pod", "spec.tolerations", [{"operator": "Equal"}], "spec.tolerations[0].operator"),
    Mistake(
        "Pod",
        "spec.tolerations",
        [{"key": "a", "operator": "Exists", "value": "x"}],
        "spec.tolerations[0].operator",
    ),
    Mistake(
        "Pod", "spec.tolerations", [{"key": "a", "effect": "Never"}], "spec.tolerations[0].effect"
    ),
    # Affinity
    Mistake(
        "Pod",
        f"{_AFFINITY}.nodeAffinity.{_REQUIRED}",
        {"nodeSelectorTerms": []},
        f"{_AFFINITY}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.nodeAffinity.{_REQUIRED}",
        _node_term(key="a", operator="Is", values=["x"]),
        f"{_AFFINITY}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.nodeAffinity.{_REQUIRED}",
        _node_term(key="a", operator="In"),
        f"{_AFFINITY}.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.nodeAffinity.{_PREFERRED}",
        [{"weight": 101, "preference": {}}],
        f"{_AFFINITY}.nodeAffinity.{_PREFERRED}[0].weight",
        "must be in the range 1-100",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.podAffinity.{_REQUIRED}",
        [{**_TERM, "topologyKey": ""}],
        f"{_AFFINITY}.podAffinity.{_REQUIRED}[0].topologyKey",
        "can not be empty",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.podAntiAffinity.{_REQUIRED}",
        [{**_TERM, "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}],
        f"{_AFFINITY}.podAntiAffinity.{_REQUIRED}[0].labelSelector.matchExpressions[0].operator",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.podAntiAffinity.{_PREFERRED}",
        [{"weight": 0, "podAffinityTerm": _TERM}],
        f"{_AFFINITY}.podAntiAffinity.{_PREFERRED}[0].weight",
    ),
    Mistake(
        "Pod",
        f"{_AFFINITY}.podAffinity.{_REQUIRED}",
        [{**_TERM, "namespaces": ["No_Such"]}],
        f"{_AFFINITY}.podAffinity.{_REQUIRED}[0].namespace",
    ),
    # Spreading
    Mistake("Pod", _SPREADING, [{**_SPREAD, "maxSkew": 0}], f"{_SPREADING}[0].maxSkew"),
    Mistake("Pod", _SPREADING, [{**_SPREAD, "topologyKey": ""}], f"{_SPREADING}[0].topologyKey"),
    Mistake(
        "Pod",
        _SPREADING,
        [{**_SPREAD, "whenUnsatisfiable": "Panic"}],
        f"{_SPREADING}[0].whenUnsatisfiable",
    ),
    Mistake("Pod", _SPREADING, [{**_SPREAD, "minDomains": 0}], f"{_SPREADING}[0].minDomains"),
    Mistake(
        "Pod",
        _SPREADING,
        [{**_SPREAD, "nodeTaintsPolicy": "Perhaps"}],
        f"{_SPREADING}[0].nodeTaintsPolicy",
    ),
    Mistake("Pod", _SPREADING, [_SPREAD, _SPREAD], f"{_SPREADING}[0].", "Duplicate value"),
    Mistake(
        "Pod",
        _SPREADING,
        [{**_SPREAD, "matchLabelKeys": ["app"]}],
        f"{_SPREADING}[0].matchLabelKeys",
        "must not be specified when labelSelector is not set",
    ),
    # Volumes
    Mistake("Pod", "spec.volumes", [{"name": "A"}], "spec.volumes[0].name"),
    Mistake(
        "Pod",
        "spec.volumes",
        [{"name": "a", "persistentVolumeClaim": {}}],
        "spec.volumes[0].persistentVolumeClaim.claimName",
    ),
    Mistake(
        "Pod",
        "spec.volumes",
        [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}],
        "spec.volumes[0].hostPath",
        "may not specify more than 1 volume type",
    ),
    # Nodes
    Mistake("Node", "spec.taints[0].effect", None, "spec.taints[0].effect", "Required value"),
    Mistake("Node", "spec.taints[0].effect", "Never", "spec.taints[0].effect", "Unsupported value"),
    Mistake("Node", "spec.taints[1]", {"key": "a", "effect": "NoSchedule"}, "spec.taints[1]"),
    Mistake("Node", "spec.taints[0].key", "a b", "spec.taints[0].key"),
    Mistake("Node", "spec.unschedulable", "yes", "spec.unschedulable", "cannot unmarshal string"),
    Mistake("Node", "status.allocatable.cpu", "-4", "status.allocatable.cpu"),
    Mistake("Node", "status.allocatable.cpu", "four", "status.allocatable[cpu]"),
    Mistake("Node", "status.allocatable.pods", "1.5", "status.allocatable.pods", "integer"),
    Mistake("Node", "status.images", [{"sizeBytes": "1"}], "status.images[0].sizeBytes"),
    # Owners and services
    Mistake("Service", "spec.ports", None, "spec.ports", "Required value"),
    Mistake("ReplicaSet", "spec.selector", None, "spec.selector", "Required value"),
    Mistake("ReplicaSet", "spec.selector.matchLabels.app", "db", "spec.template.metadata.labels"),
    Mistake("PodDisruptionBudget", "metadata.labels.not!a!key", "x", "metadata.labels"),
    Mistake("StatefulSet", "spec.selector", {}, "spec.selector", "empty selector"),
    Mistake("StatefulSet", "spec.replicas", -1, "spec.replicas"),
    Mistake("ReplicationController", "spec.template", None, "spec.template", "Required value"),
    Mistake("ReplicationController", "spec.selector.app", "db", "spec.template.metadata.labels"),
    # Storage
    Mistake("PersistentVolumeClaim", "spec.accessModes", None, "spec.accessModes"),
    Mistake("PersistentVolumeClaim", "spec.accessModes[0]", "RW", "spec.accessModes"),
    Mistake("PersistentVolumeClaim", "spec.resources", {}, "spec.resources[storage]"),
    Mistake(
        "PersistentVolumeClaim",
        "spec.resources.requests.storage",
        "0",
        "spec.resources[storage]",
        "must be greater than zero",
    ),
    Mistake("PersistentVolumeClaim", "spec.volumeMode", "Disk", "spec.volumeMode"),
    Mistake("PersistentVolumeClaim", "spec.storageClassName", "A", "spec.storageClassName"),
    Mistake("PersistentVolume", "spec.capacity", None, "spec.capacity", "Required value"),
    Mistake("PersistentVolume", "spec.capacity.storage", "0", "spec.capacity[storage]"),
    Mistake("PersistentVolume", "spec.capacity.cpu", "1", "spec.capacity"),
    Mistake("PersistentVolume", "spec.accessModes[0]", "RW", "spec.accessModes"),
    Mistake("PersistentVolume", "spec.csi", None, "spec", "must specify a volume type"),
    Mistake("PersistentVolume", "spec.csi.volumeHandle", None, "spec.csi.volumeHandle"),
    Mistake("PersistentVolume", "spec.nodeAffinity.required", None, "spec.nodeAffinity.required"),
    Mistake("PersistentVolume", "spec.storageClassName", "A", "spec.storageClassName"),
    Mistake(
        "PersistentVolume",
        "spec.volumeAttributesClassName",
        "",
        "spec.volumeAttributesClassName",
    ),
    Mistake("StorageClass", "provisioner", None, "provisioner", "Required value"),
    Mistake("StorageClass", "volumeBindingMode", "Late", "volumeBindingMode"),
    Mistake("StorageClass", "reclaimPolicy", "Burn", "reclaimPolicy"),
    Mistake(
        "StorageClass",
        "allowedTopologies",
        [{"matchLabelExpressions": [{"key": "zone"}]}],
        "allowedTopologies[0].matchLabelExpressions[0].values",
    ),
    Mistake("CSINode", "spec.drivers[0].name", None, "spec.drivers[0].name"),
    Mistake("CSINode", "spec.drivers[0].nodeID", None, "spec.drivers[0].nodeID"),
    Mistake(
        "CSINode",
        "spec.drivers[0].allocatable",
        {"count": -1},
        "spec.drivers[0].allocatable.count",
    ),
    Mistake(
        "CSINode",
        "spec.drivers[1]",
        {"name": "disks.example.com", "nodeID": "n"},
        "spec.drivers[1]",
        "Duplicate value",
    ),
    Mistake("CSIStorageCapacity", "storageClassName", "A", "storageClassName"),
    Mistake("CSIStorageCapacity", "capacity", "-1", "capacity"),
    Mistake(
        "CSIStorageCapacity",
        "nodeTopology.matchLabels",
        {"a b": "c"},
        "nodeTopology.matchLabels",
    ),
    Mistake("VolumeAttachment", "spec.attacher", None, "spec.attacher"),
    Mistake("VolumeAttachment", "spec.nodeName", "A", "spec.nodeName"),
    Mistake("VolumeAttachment", "spec.source", {}, "spec.source"),
    Mistake("CSIDriver", "spec.storageCapacity", "yes", "spec.storageCapacity"),
    Mistake("CSIDriver", "spec.fsGroupPolicy", "Any", "spec.fsGroupPolicy"),
    Mistake(
        "DeviceClass",
        "spec.selectors",
        [{"cel": {"expression": "device.driver =="}}],
        "spec.selectors[0].cel.expression",
        "compilation failed",
    ),
    Mistake("ResourceSlice", "spec.driver", None, "spec.driver", "Required value"),
    Mistake("ResourceSlice", "spec.nodeName", "A", "spec.nodeName"),
    Mistake("ResourceSlice", "spec.pool.name", "A_B", "spec.pool.name"),
    Mistake(
        "ResourceClaim", "spec.devices.requests", [{"name": "gpu"}], "spec.devices.requests[0]"
    ),
]
