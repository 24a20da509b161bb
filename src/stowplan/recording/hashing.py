"""Replaces the names in objects by keyed hashes.

A string is hashed unless a table here lists its field, so a new field of a struct is hashed. Keys
of maps stay: they are label keys or names of resources. Equal strings have equal hashes. A label
with several zones, which the plugin VolumeZone splits, is hashed zone by zone.

Whole numbers stay in labels of nodes and in what is matched with these, because `Gt` and `Lt`
compare them, and numbers stay in prices and run times, which simulations read. Everywhere else, a
number is hashed as any other string.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from stowplan.api import device_objects as devices
from stowplan.api import objects as core
from stowplan.api import storage_objects as storage
from stowplan.api.labels import parse_int64
from stowplan.api.workload_objects import PodDisruptionBudgetStatus

S = TypeVar("S", bound=msgspec.Struct)
Rule: TypeAlias = Callable[["Names", Any], Any]

#: Fields with values that the API server restricts, amounts, times, UIDs, label keys, and names of
#: resources, schedulers, drivers and device classes.
_STAYS: Final[Mapping[type, str]] = {
    core.ObjectMeta: "uid resource_version creation_timestamp deletion_timestamp",
    core.OwnerReference: "uid",
    core.ObjectReference: "uid resource_version",
    core.Condition: "last_transition_time last_probe_time",
    core.LabelSelectorRequirement: "key operator",
    core.ResourceRequirements: "requests limits",
    core.ContainerPort: "protocol",
    core.RestartRule: "action",
    core.Container: "restart_policy",
    core.Toleration: "key operator effect",
    core.PodAffinityTerm: "topology_key match_label_keys mismatch_label_keys",
    core.TopologySpreadConstraint: (
        "topology_key when_unsatisfiable node_affinity_policy node_taints_policy match_label_keys"
    ),
    core.AzureDisk: "kind",
    core.InlineCsi: "driver",
    core.PodSpec: "scheduler_name overhead preemption_policy",
    core.ContainerStatus: "allocated_resources",
    core.PodStatus: "phase start_time allocated_resources",
    core.Taint: "key effect",
    core.NodeStatus: "allocatable capacity declared_features",
    storage.CSIVolumeSource: "driver",
    storage.PersistentVolumeSpec: "capacity access_modes volume_mode",
    storage.PersistentVolumeStatus: "phase",
    storage.PersistentVolumeClaimSpec: "access_modes volume_mode",
    storage.PersistentVolumeClaimStatus: "phase",
    storage.TopologySelectorRequirement: "key",
    storage.StorageClass: "provisioner volume_binding_mode",
    storage.CSINodeDriver: "name topology_keys",
    storage.CSIStorageCapacity: "capacity maximum_volume_size",
    storage.VolumeAttachmentSpec: "attacher",
    devices.CounterSet: "counters",
    devices.DeviceCounterConsumption: "counters",
    devices.DeviceTaint: "key effect time_added",
    devices.Device: "attributes capacity",  # CEL expressions compare them with literals
    devices.ResourceSliceSpec: "driver",
    devices.CELDeviceSelector: "expression",
    devices.DeviceClassSpec: "extended_resource_name",
    devices.DeviceToleration: "key operator effect",
    devices.CapacityRequirements: "requests",
    # A class's name is also part of the name of an implicit extended resource.
    devices.DeviceRequestDetails: "device_class_name allocation_mode",
    devices.DeviceConstraint: "match_attribute distinct_attribute",
    devices.AllocatedDevice: "driver share_id consumed_capacity",
    devices.AllocationResult: "allocation_timestamp",
    devices.ClaimMeta: "finalizers",  # `scrub` keeps only that of Kubernetes
    devices.ClaimConsumer: "uid",
    devices.DeviceStatus: "driver share_id",
    devices.DeviceTaintSelector: "driver",
    devices.ContainerExtendedResourceRequest: "resource_name",
}
#: Kinds whose names stay, because fields of `_STAYS` refer to them.
_NAMED_BY_OTHERS: Final = (storage.CSIDriver, devices.DeviceClass)
#: Words of Kubernetes that stay in fields where other controllers write words of their own.
_WORDS: Final = frozenset(
    [
        *("v1", "apps/v1", "batch/v1", "policy/v1", "resource.k8s.io/v1"),
        *("ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Deployment"),
        *("Job", "CronJob", "Node", "Pod", "PersistentVolumeClaim", "pods"),
        # Conditions and their reasons
        *("True", "False", "Unknown"),
        *("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"),
        *("DisruptionTarget", "PodResizePending", "PodResizeInProgress"),
        *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("Unschedulable", "SchedulingGated", "SchedulerError", "PreemptionByScheduler"),
        *("DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC"),
        *("TerminationByKubelet", "PodCompleted", "Deferred", "Infeasible"),
        *("KubeletReady", "KubeletNotReady", "NodeStatusUnknown", "NodeStatusNeverUpdated"),
        # Volume plugins that CSI drivers have replaced
        *("kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file"),
        *("kubernetes.io/cinder", "kubernetes.io/gce-pd", "kubernetes.io/portworx-volume"),
        *("kubernetes.io/rbd", "kubernetes.io/vsphere-volume"),
    ]
)
#: Strings that are never hashed.
_PLAIN_TEXTS: Final = frozenset(
    [
        *("", "true", "false", "yes", "metadata.name", "kube-system", "default"),
        *("system-cluster-critical", "system-node-critical"),  # priority classes
    ]
)
#: A label and annotations that simulations read as numbers.
_NUMBERS: Final = frozenset(["stowplan.io/price-per-hour", "stowplan.io/run-seconds"])
#: The label that repeats the name of a node.
_HOSTNAME: Final = "kubernetes.io/hostname"
#: Labels of nodes that volumes have, too, with several values as `a__b` (plugin VolumeZone).
_ZONES: Final = frozenset(
    [
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    ]
)
_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_ANY_ADDRESS: Final = frozenset(["", "0.0.0.0", "::"])  # noqa: S104 - compared, not listened on
_replace = msgspec.structs.replace


class _ExtendedResourceClaim(core.Wire, frozen=True):
    """The claim that a scheduler made for a pod's extended resources."""

    resource_claim_name: str = ""
    request_mappings: tuple[devices.ContainerExtendedResourceRequest, ...] | None = None


class Names:
    """Hashes of names, with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def hashed(self, obj: S) -> S:
        """The object with hashed names."""
        if isinstance(obj, core.Pod):
            obj = cast(S, _with_named_claims(obj))
        made = self._struct(obj)
        if isinstance(obj, _NAMED_BY_OTHERS) and isinstance(made, _NAMED_BY_OTHERS):
            meta = _replace(made.metadata, name=obj.metadata.name)
            return cast(S, _replace(made, metadata=meta))
        return made

    def text(self, text: str) -> str:
        """The hash of a string."""
        if text in _PLAIN_TEXTS:
            return text
        digest = hashlib.blake2b(text.encode(), key=self._key, digest_size=8).hexdigest()
        return f"h{digest}"

    def path(self, text: str) -> str:
        """Names separated by slashes: a pod's key, or a device request with its alternative."""
        return "/".join(map(self.text, text.split("/")))

    def _struct(self, value: S) -> S:
        changed = {}
        for name, rule in _rules_of(type(value)):
            each = getattr(value, name)
            if isinstance(each, tuple):
                changed[name] = tuple([rule(self, one) for one in each])
            elif each is not None:
                changed[name] = rule(self, each)
        return _replace(value, **changed)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, core.LabelSelectorRequirement | storage.TopologySelectorRequirement):
            values = tuple([self._label(value.key, each) for each in value.values or ()])
            return _replace(value, values=values or None)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, dict):
            return {key: self._label(key, each) for key, each in value.items()}
        return value

    def _label(self, key: str, value: str) -> str:
        if key in _ZONES:
            return "__".join(map(self._unless_whole, value.split("__")))
        return self.text(value)

    def _unless_whole(self, text: str) -> str:
        return self.text(text) if parse_int64(text) is None else text

    def _of_node(self, value: Any) -> Any:
        """What has labels of nodes, or is matched with them."""
        return _NodeLabels(self._key)._value(value)

    def _word(self, text: str) -> str:
        return text if text in _WORDS else self.text(text)

    def _annotations(self, annotations: dict[str, str]) -> dict[str, str]:
        return {
            key: ",".join(map(self._word, value.split(",")))
            if key == _MIGRATED_PLUGINS
            else self._unless_number(key, value)
            for key, value in annotations.items()
        }

    def _unless_number(self, key: str, value: str) -> str:
        if key in _NUMBERS:
            with suppress(ValueError):
                float(value)
                return value
        return self.text(value)

    def _image(self, name: str) -> str:
        """An image with a tag, because the plugin ImageLocality appends one to names without."""
        if not name:
            return name
        has_tag = name.rfind(":") > name.rfind("/")
        return f"{self.text(name if has_tag else f'{name}:latest')}:hashed"

    def _image_volume(self, source: dict[str, Any]) -> dict[str, Any]:
        reference = source.get("reference")
        return {"reference": self._image(reference)} if isinstance(reference, str) else {}

    def _address(self, address: str) -> str:
        """Another address, made from a hash. The wildcard address stays."""
        if address in _ANY_ADDRESS:
            return address
        digest = hashlib.blake2b(address.encode(), key=self._key, digest_size=3).digest()
        return ".".join(map(str, (10, *digest)))

    def _extended(self, claim: dict[str, Any]) -> Any:
        return msgspec.to_builtins(self._struct(msgspec.convert(claim, _ExtendedResourceClaim)))

    def _disrupted(self, pods: dict[str, Any]) -> dict[str, Any]:
        return {self.text(pod): time for pod, time in pods.items()}


class _NodeLabels(Names):
    """Hashes in which labels are those of nodes."""

    def _label(self, key: str, value: str) -> str:
        if key in _NUMBERS:
            return self._unless_number(key, value)
        if key in _ZONES or key == _HOSTNAME:
            return super()._label(key, value)
        return self._unless_whole(value)


#: Fields that are hashed in another way; the rule of a list is applied to its elements.
_RULES: Final[Mapping[tuple[type, str], Rule]] = {
    (core.Node, "metadata"): Names._of_node,
    (core.PodSpec, "node_selector"): Names._of_node,
    (core.NodeSelectorTerm, "match_expressions"): Names._of_node,
    (storage.StorageClass, "allowed_topologies"): Names._of_node,
    (storage.CSIStorageCapacity, "node_topology"): Names._of_node,
    (core.ObjectMeta, "annotations"): Names._annotations,
    (core.OwnerReference, "kind"): Names._word,
    (core.OwnerReference, "api_version"): Names._word,
    (core.ObjectReference, "kind"): Names._word,
    (core.ObjectReference, "api_version"): Names._word,
    (core.Condition, "type"): Names._word,
    (core.Condition, "status"): Names._word,
    (core.Condition, "reason"): Names._word,
    (core.Container, "image"): Names._image,
    (core.ContainerImage, "names"): Names._image,
    (core.ContainerPort, "host_ip"): Names._address,
    (core.Volume, "image"): Names._image_volume,
    (core.PodStatus, "extended_resource_claim_status"): Names._extended,
    (PodDisruptionBudgetStatus, "disrupted_pods"): Names._disrupted,
    (devices.Device, "binding_conditions"): Names._word,
    (devices.Device, "binding_failure_conditions"): Names._word,
    (devices.AllocatedDevice, "binding_conditions"): Names._word,
    (devices.AllocatedDevice, "binding_failure_conditions"): Names._word,
    (devices.AllocatedDevice, "request"): Names.path,
    (devices.DeviceConstraint, "requests"): Names.path,
    (devices.ContainerExtendedResourceRequest, "request_name"): Names.path,
    (devices.ClaimConsumer, "api_group"): Names._word,
    (devices.ClaimConsumer, "resource"): Names._word,
}


@cache
def _rules_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, Rule], ...]:
    """The fields of a struct that can contain names, each with its rule."""
    rules: dict[str, Rule] = {}
    for field in msgspec.structs.fields(kind):
        owner = next(each for each in kind.__mro__ if field.name in each.__annotations__)
        if field.name not in _STAYS.get(owner, "").split():
            rules[field.name] = _RULES.get((owner, field.name), Names._value)
    return tuple(rules.items())


def _with_named_claims(pod: core.Pod) -> core.Pod:
    """The pod with claims by name in place of generic ephemeral volumes.

    Such a claim is called `<pod>-<volume>`. A PersistentVolume refers to it by that name alone, so
    the whole name is hashed, and plugins cannot compose the hash from those of the parts.
    """
    volumes = pod.spec.volumes
    if not volumes or all(each.ephemeral is None for each in volumes):
        return pod
    named = tuple(
        each
        if each.ephemeral is None
        else _replace(
            each,
            ephemeral=None,
            persistent_volume_claim=core.ClaimVolume(claim_name=f"{pod.metadata.name}-{each.name}"),
        )
        for each in volumes
    )
    return _replace(pod, spec=_replace(pod.spec, volumes=named))
