"""Which claims a pod uses, and what kube-scheduler says when one is missing or not the pod's own.

The volume plugins and the table's index of used claims all ask here, so that they agree on what a
pod uses. A volume names its claim, or it is *ephemeral*: then the claim is made for the pod by a
controller, is called `<pod>-<volume>`, and must be owned by the pod.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stowplan.api.objects import Pod, Volume
from stowplan.api.resources import Resource
from stowplan.api.storage_objects import PersistentVolumeClaim

#: Older than `spec.storageClassName`, and still read before it.
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def placing_volumes(pod: Pod) -> tuple[Volume, ...]:
    """Those of a pod's volumes that its place depends on: claims, and disks that it names."""
    volumes = pod.spec.volumes
    if not volumes:
        return ()
    return tuple(volume for volume in volumes if _matters(volume))


def _matters(volume: Volume) -> bool:
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.aws_elastic_block_store is not None
        or volume.azure_disk is not None
        or volume.azure_file is not None
        or volume.cinder is not None
        or volume.gce_persistent_disk is not None
        or volume.iscsi is not None
        or volume.portworx_volume is not None
        or volume.rbd is not None
        or volume.vsphere_volume is not None
    )


class PodClaim(NamedTuple):
    """A claim that a pod uses, by its name in the pod's namespace."""

    name: str
    #: The volume of the pod that it stands behind.
    volume: str
    is_ephemeral: bool = False


def claims_of(pod: Pod) -> tuple[PodClaim, ...]:
    """The claims that a pod uses, volume by volume; one that it names twice comes twice."""
    volumes = pod.spec.volumes
    if not volumes:
        return ()
    found: list[PodClaim] = []
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            found.append(PodClaim(volume.persistent_volume_claim.claim_name, volume.name))
        elif volume.ephemeral is not None:
            found.append(PodClaim(f"{pod.metadata.name}-{volume.name}", volume.name, True))
    return tuple(found)


def named_claims(pod: Pod) -> tuple[str, ...]:
    """Names of the claims that a pod's volumes name: all but the ephemeral ones."""
    return tuple(
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None
    )


def claim_names(pod: Pod) -> list[str]:
    """Names of the claims that a pod uses, the ephemeral ones among them."""
    return [claim.name for claim in claims_of(pod)]


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim does not serve a pod's ephemeral volume; None: it was made for the pod."""
    pod_meta, meta = pod.metadata, claim.metadata
    controllers = (owner.uid for owner in meta.owner_references or () if owner.controller)
    if meta.namespace == pod_meta.namespace and next(controllers, None) == pod_meta.uid:
        return None
    return (
        f"PVC {meta.namespace}/{meta.name} was not created for pod "
        f"{pod_meta.namespace}/{pod_meta.name} (pod is not owner)"
    )


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for; empty when it asks for none."""
    annotated = (claim.metadata.annotations or {}).get(_CLASS_ANNOTATION)
    return annotated if annotated is not None else claim.spec.storage_class_name or ""


def not_found(resource: Resource[Any], name: str) -> str:
    """What kube-scheduler says of an object that its informers do not have."""
    kind = resource.kind.lower()
    return f'{kind}{"." + resource.group if resource.group else ""} "{name}" not found'
