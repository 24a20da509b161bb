"""Removes from objects everything that schedulers do not read.

Objects are decoded into the structs of `stowplan.api`, which have no fields for environment
variables, commands, arguments, probes or mounts. Secrets and ConfigMaps are never requested. Only
annotations that scheduling reads are kept, and messages of conditions are removed.

`Hashed` also replaces names, that is, every string that is not a keyword of Kubernetes, by a keyed
hash. Equal strings have equal hashes, so selectors still match. The key is never stored.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceClaimTemplate
from stowplan.api.objects import Condition, Node, ObjectMeta, Pod, Volume
from stowplan.api.storage_objects import CSIDriver
from stowplan.recording.decisions import Decision

T = TypeVar("T")
Scrub: TypeAlias = Callable[[Any], bytes]

#: Annotations that plugins read, and the run time of a pod in simulations.
KEPT_ANNOTATIONS: Final = frozenset(
    [
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "kubernetes.io/azure-file-resource-group",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "stowplan.io/run-seconds",
    ]
)
#: Fields of an ephemeral volume's claim that scheduling reads.
_CLAIM_FIELDS: Final = ("accessModes", "resources", "selector", "storageClassName", "volumeMode")
_encode = msgspec.json.Encoder().encode
_replace = msgspec.structs.replace


def scrubbed(obj: Any) -> Any:
    """The object, with only the fields that scheduling reads."""
    metadata = _scrub_metadata(obj.metadata)
    if isinstance(obj, Pod):
        status = _replace(obj.status, conditions=_scrub_conditions(obj.status.conditions))
        spec = obj.spec
        if spec.volumes:
            spec = _replace(spec, volumes=tuple(map(_scrub_volume, spec.volumes)))
        return _replace(obj, metadata=metadata, spec=spec, status=status)
    if isinstance(obj, Node):
        conditions = _scrub_conditions(obj.status.conditions)
        node_status = _replace(obj.status, conditions=conditions)
        return _replace(obj, metadata=metadata, status=node_status)
    if isinstance(obj, DeviceClass):
        return _replace(obj, metadata=metadata, spec=_replace(obj.spec, config=None))
    if isinstance(obj, ResourceClaim):
        return _scrub_claim(_replace(obj, metadata=metadata))
    if isinstance(obj, ResourceClaimTemplate):
        devices = _replace(obj.spec.spec.devices, config=None)
        template = _replace(obj.spec, spec=_replace(obj.spec.spec, devices=devices))
        return _replace(obj, metadata=metadata, spec=template)
    return _replace(obj, metadata=metadata)


def kept(obj: Any) -> bytes:
    """The JSON of a scrubbed object, with its names."""
    return _encode(scrubbed(obj))


def identity(obj: Any) -> Any:
    """The fields of a deleted object that identify it."""
    meta: ObjectMeta = obj.metadata
    return {
        "metadata": {
            name: value
            for name, value in (
                ("name", meta.name),
                ("namespace", meta.namespace),
                ("uid", meta.uid),
                ("resourceVersion", meta.resource_version),
            )
            if value
        }
    }


def _scrub_metadata(meta: ObjectMeta) -> ObjectMeta:
    if not meta.annotations:
        return meta
    annotations = {
        name: text for name, text in meta.annotations.items() if name in KEPT_ANNOTATIONS
    }
    return _replace(meta, annotations=annotations or None)


def _scrub_claim(claim: ResourceClaim) -> ResourceClaim:
    """The claim without parameters and data of drivers, which can contain anything."""
    devices = _replace(claim.spec.devices, config=None)
    spec = _replace(claim.spec, devices=devices)
    status, allocation = claim.status, claim.status.allocation
    if allocation is not None:
        allocated = _replace(allocation.devices, config=None)
        status = _replace(status, allocation=_replace(allocation, devices=allocated))
    if status.devices:
        devices_told = tuple(
            _replace(
                each,
                conditions=_scrub_conditions(each.conditions),
                data=None,
                network_data=None,
            )
            for each in status.devices
        )
        status = _replace(status, devices=devices_told)
    return _replace(claim, spec=spec, status=status)


def _scrub_conditions(conditions: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
    """Conditions without messages, which can quote anything, and probe times (heartbeats)."""
    if not conditions:
        return conditions
    return tuple(_replace(each, message="", last_probe_time=None) for each in conditions)


def _scrub_volume(volume: Volume) -> Volume:
    if volume.ephemeral is not None:
        template = volume.ephemeral.get("volumeClaimTemplate")
        spec = template.get("spec") if isinstance(template, dict) else None
        spec = spec if isinstance(spec, dict) else {}
        claim = {name: spec[name] for name in _CLAIM_FIELDS if name in spec}
        volume = _replace(volume, ephemeral={"volumeClaimTemplate": {"spec": claim}})
    if volume.image is not None:
        reference = volume.image.get("reference")
        image = {"reference": reference} if isinstance(reference, str) else {}
        volume = _replace(volume, image=image)
    return volume


# Names

#: Fields with keywords of Kubernetes, amounts, times or UIDs: strings that contain no names.
_PLAIN: Final = frozenset(
    [
        "accessModes",
        "action",
        "allocationMode",
        "allocationTimestamp",
        "apiGroup",
        "apiVersion",
        "attacher",
        "bindingConditions",
        "bindingFailureConditions",
        "creationTimestamp",
        "declaredFeatures",
        "deletionTimestamp",
        "deviceClassName",  # part of the name of an implicit extended resource
        "distinctAttribute",
        "driver",
        "effect",
        "expression",
        "extendedResourceName",
        "finalizers",
        "key",
        "kind",
        "lastTransitionTime",
        "matchAttribute",
        "matchLabelKeys",
        "maximumVolumeSize",
        "mismatchLabelKeys",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "operator",
        "phase",
        "preemptionPolicy",
        "protocol",
        "provisioner",
        "reason",
        "resource",
        "resourceName",
        "resourceVersion",
        "restartPolicy",
        "schedulerName",
        "shareID",
        "startTime",
        "status",
        "timeAdded",
        "topologyKey",
        "topologyKeys",
        "type",
        "uid",
        "volumeBindingMode",
        "volumeMode",
        "whenUnsatisfiable",
    ]
)
#: Maps from resource names to amounts, and attributes of devices.
_AMOUNTS: Final = frozenset(
    [
        "allocatable",
        "allocatedResources",
        "attributes",  # of devices: CEL expressions compare them with literals
        "capacity",
        "consumedCapacity",
        "counters",
        "limits",
        "overhead",
        "requests",
    ]
)
#: Maps with keys that users choose.
_LABELS: Final = frozenset(["annotations", "labels", "matchLabels", "nodeSelector"])
#: Annotations with keywords of Kubernetes or numbers; the other kept ones have names.
_PLAIN_ANNOTATIONS: Final = KEPT_ANNOTATIONS - {
    "kubernetes.io/azure-file-resource-group",
    "volume.beta.kubernetes.io/storage-class",
    "volume.kubernetes.io/selected-node",
}
#: Fields with the name of a device request, or of one of its alternatives: `gpu/large`.
_REQUESTS: Final = frozenset(["request", "requestName", "requests"])
#: Kinds whose names are not hashed, because fields of `_PLAIN` refer to them.
_PLAIN_KINDS: Final = (CSIDriver, DeviceClass)
_PLAIN_TEXTS: Final = frozenset(
    [
        *("", "true", "false", "metadata.name", "kube-system", "default"),
        *("system-cluster-critical", "system-node-critical"),  # priority classes
    ]
)
_ANY_ADDRESS: Final = frozenset(["", "0.0.0.0", "::"])  # noqa: S104 - compared, not listened on


def _with_name(told: Any, obj: Any) -> Any:
    if isinstance(obj, _PLAIN_KINDS):
        told["metadata"]["name"] = obj.metadata.name
    return told


class Hashed:
    """Encodes objects with hashed names; one key for a whole recording."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    def __call__(self, obj: Any) -> bytes:
        told = self._value(msgspec.to_builtins(scrubbed(obj)))
        return _encode(_with_name(told, obj))

    def identity(self, obj: Any) -> Any:
        return _with_name(self._value(identity(obj)), obj)

    def decision(self, decision: Decision) -> Decision:
        pod = "/".join(map(self.text, decision.pod.split("/")))
        scores = [{**each, "node": self.text(each["node"])} for each in decision.scores]
        return _replace(decision, pod=pod, node=self.text(decision.node), scores=scores)

    def text(self, text: str) -> str:
        """The hash of a string. Numbers stay, because selectors compare them."""
        if text in _PLAIN_TEXTS or text.lstrip("-").isdigit():
            return text
        digest = hashlib.blake2b(text.encode(), key=self._key, digest_size=8).hexdigest()
        return f"h{digest}"

    def _request(self, text: str) -> str:
        return "/".join(map(self.text, text.split("/")))

    def _address(self, address: str) -> str:
        """Another address, made from a hash. The wildcard address stays."""
        if address in _ANY_ADDRESS:
            return address
        digest = hashlib.blake2b(address.encode(), key=self._key, digest_size=3).digest()
        return ".".join(map(str, (10, *digest)))

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._member(name, each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any) -> Any:
        if name in _LABELS and isinstance(value, dict):
            return {
                key: each if key in _PLAIN_ANNOTATIONS else self._value(each)
                for key, each in value.items()
            }
        if name == "disruptedPods" and isinstance(value, dict):
            return {self.text(pod): time for pod, time in value.items()}
        if name == "drivers" and isinstance(value, list | tuple):  # of a CSINode
            return [{**self._value(each), "name": each.get("name", "")} for each in value]
        if name == "hostIP" and isinstance(value, str):
            return self._address(value)
        if name in _REQUESTS and isinstance(value, str):
            return self._request(value)
        if name in _REQUESTS and isinstance(value, list | tuple):
            return [
                self._request(each) if isinstance(each, str) else self._value(each)
                for each in value
            ]
        is_plain = (name in _AMOUNTS and not isinstance(value, list | tuple)) or (
            name in _PLAIN and not isinstance(value, dict)
        )
        return value if is_plain else self._value(value)
