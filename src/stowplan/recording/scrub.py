"""Removes from objects everything that schedulers do not read.

Objects are decoded into the structs of `stowplan.api`, which have no fields for environment
variables, commands, arguments, probes or mounts. Secrets and ConfigMaps are never requested. Only
annotations that scheduling reads are kept, and messages of conditions are removed.

`Hashed` also replaces names by keyed hashes (`hashing`). The key is never written.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b
from typing import Any, Final

import msgspec

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceClaimTemplate
from stowplan.api.objects import Condition, Node, ObjectMeta, Pod, Volume
from stowplan.recording.decisions import EVENT, Decision
from stowplan.recording.hashing import Names

#: The controller of kube-scheduler's events.
_KUBE_SCHEDULER: Final = "default-scheduler"
#: Annotations that plugins read, and the run time of a pod and the price of a node in simulations.
KEPT_ANNOTATIONS: Final = frozenset(
    [
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "kubernetes.io/azure-file-resource-group",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "stowplan.io/run-seconds",
        "stowplan.io/price-per-hour",
    ]
)
#: Fields of an ephemeral volume's claim that scheduling reads.
_CLAIM_FIELDS: Final = ("accessModes", "resources", "selector", "storageClassName", "volumeMode")
#: The finalizer that schedulers set and remove; those of other controllers can be called anything.
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
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
    finalizers = tuple(each for each in claim.metadata.finalizers or () if each == _FINALIZER)
    metadata = _replace(claim.metadata, finalizers=finalizers or None)
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
    return _replace(claim, metadata=metadata, spec=spec, status=status)


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


class Hashed:
    """Encodes objects with hashed names."""

    def __init__(self, secret: bytes | None = None) -> None:
        """Objects with the same secret make equal hashes. The default is a random secret."""
        key = blake2b(secret or secrets.token_bytes(32)).digest()
        #: Identifies the key in headers without revealing it.
        self.key_id = blake2b(key=key, digest_size=8, person=b"key ID").hexdigest()
        self.names = Names(key)

    def __call__(self, obj: Any) -> bytes:
        return _encode(self.names.hashed(scrubbed(obj)))

    def identity(self, obj: Any) -> Any:
        return identity(self.names.hashed(type(obj)(metadata=obj.metadata)))

    def decision(self, decision: Decision) -> Decision:
        """The attempt with hashed names. Any controller can write an event, under any name."""
        text = self.names.text
        scheduler = decision.scheduler
        if decision.source == EVENT and scheduler != _KUBE_SCHEDULER:
            scheduler = text(scheduler)
        scores = [{**each, "node": text(each["node"])} for each in decision.scores]
        pod = self.names.path(decision.pod)
        node = text(decision.node)
        return _replace(decision, pod=pod, node=node, scheduler=scheduler, scores=scores)
