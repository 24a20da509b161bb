"""What of an object is recorded: the fields that a scheduler reads, and nothing else.

Objects are decoded into the structs of `stowplan.api`, which know neither environment variables nor
commands, arguments, probes or mounts; Secrets and ConfigMaps are never asked for. Of annotations
only those are kept that scheduling reads, and of conditions no message.

`Hashed` also replaces names: every text that is not part of the language of Kubernetes, by a keyed
hash of itself. Equal texts stay equal, so selectors match what they matched; the key is forgotten.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from stowplan.api.device_objects import DeviceClass, ResourceClaim
from stowplan.api.objects import Condition, Node, ObjectMeta, Pod, Volume

T = TypeVar("T")
Scrub: TypeAlias = Callable[[Any], bytes]

#: Annotations that plugins read, or that tell how long a pod runs in a simulation.
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
#: Parts of an ephemeral volume's claim that matter.
_CLAIM_FIELDS: Final = ("accessModes", "resources", "selector", "storageClassName", "volumeMode")
_encode = msgspec.json.Encoder().encode
_replace = msgspec.structs.replace


def scrubbed(obj: Any) -> Any:
    """The object without what scheduling does not read."""
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
    return _replace(obj, metadata=metadata)


def kept(obj: Any) -> bytes:
    """The JSON of an object with its names."""
    return _encode(scrubbed(obj))


def identity(obj: Any) -> Any:
    """As much of a deleted object as tells which one it was."""
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
    """Without parameters of drivers, which may be anything."""
    devices = _replace(claim.spec.devices, config=None)
    spec = _replace(claim.spec, devices=devices)
    status, allocation = claim.status, claim.status.allocation
    if allocation is not None:
        allocated = _replace(allocation.devices, config=None)
        status = _replace(status, allocation=_replace(allocation, devices=allocated))
    return _replace(claim, spec=spec, status=status)


def _scrub_conditions(conditions: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
    """Without messages, which quote anything, and times of probes, which change with heartbeats."""
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

#: Fields whose texts are words of Kubernetes, amounts, times or identities without a name in them.
_PLAIN: Final = frozenset(
    [
        "accessModes",
        "action",
        "apiVersion",
        "attacher",
        "creationTimestamp",
        "deletionTimestamp",
        "driver",
        "effect",
        "expression",
        "extendedResourceName",
        "key",
        "kind",
        "lastTransitionTime",
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
        "resourceVersion",
        "restartPolicy",
        "schedulerName",
        "startTime",
        "status",
        "topologyKey",
        "topologyKeys",
        "type",
        "uid",
        "volumeBindingMode",
        "volumeMode",
        "whenUnsatisfiable",
    ]
)
#: Maps from names of resources to amounts, and what devices say of themselves.
_AMOUNTS: Final = frozenset(
    [
        "allocatable",
        "allocatedResources",
        "attributes",  # of devices, which CEL expressions compare with texts
        "capacity",
        "consumedCapacity",
        "counters",
        "limits",
        "overhead",
        "requests",
    ]
)
#: Maps whose keys are chosen by users.
_LABELS: Final = frozenset(["annotations", "labels", "matchLabels", "nodeSelector"])
_PLAIN_TEXTS: Final = frozenset(["", "true", "false", "metadata.name", "kube-system", "default"])
_PREFIXES: Final = ("system-",)  # of priority classes


class Hashed:
    """Encodes objects with hashed names; one key for a whole recording."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    def __call__(self, obj: Any) -> bytes:
        return _encode(self._value(msgspec.to_builtins(scrubbed(obj))))

    def identity(self, obj: Any) -> Any:
        return self._value(identity(obj))

    def text(self, text: str) -> str:
        """Numbers stay: selectors compare them by size."""
        if text in _PLAIN_TEXTS or text.lstrip("-").isdigit() or text.startswith(_PREFIXES):
            return text
        digest = hashlib.blake2b(text.encode(), key=self._key, digest_size=8).hexdigest()
        return f"h{digest}"

    def _value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._member(name, each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return self.text(value) if isinstance(value, str) else value

    def _member(self, name: str, value: Any) -> Any:
        if name in _LABELS and isinstance(value, dict):
            return {
                key: self.text(each) if isinstance(each, str) else self._value(each)
                for key, each in value.items()
            }
        # Requests of devices are a list of names.
        is_plain = (name in _AMOUNTS and not isinstance(value, list | tuple)) or (
            name in _PLAIN and not isinstance(value, dict)
        )
        return value if is_plain else self._value(value)
