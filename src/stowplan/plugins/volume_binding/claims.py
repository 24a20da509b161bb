"""What PreFilter makes of a pod's claims: refused, or sorted into bound and yet to be bound.

A claim is bound once it names a volume and the PV controller has said that the binding is
complete. A class in mode WaitForFirstConsumer leaves binding to the scheduler: its claims are
*delayed*. All other claims should be bound already, and a pod must wait for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.api.objects import Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS
from stowplan.api.storage_objects import PersistentVolumeClaim, StorageClass
from stowplan.cluster.catalog import Shelf
from stowplan.cluster.pod_volumes import (
    PodClaim,
    claims_of,
    class_of_claim,
    not_found,
    ownership_problem,
)
from stowplan.framework.status import Status, error, unresolvable

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
#: Set by the scheduler to request a volume for a node; removed by a provisioner that cannot.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
UNBOUND_IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")
_LOST = "Lost"
_DELAYED_MODE = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class PodClaims:
    """The claims of a pod that nothing speaks against, volume by volume."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    #: Those that the scheduler is to bind: to a volume that exists, or by having one made.
    delayed: tuple[PersistentVolumeClaim, ...] = ()


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    """The node that a volume is to be made for; None: that is open."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def claim_problem(pod: Pod, stored: Shelf[PersistentVolumeClaim]) -> Status | None:
    """Why a pod cannot use one of its claims, whatever the node; None if it can use them all."""
    for used in claims_of(pod):
        problem = _problem(pod, used, stored.get(used.name, pod.metadata.namespace))
        if problem is not None:
            return unresolvable(problem)
    return None


def _problem(pod: Pod, used: PodClaim, claim: PersistentVolumeClaim | None) -> str | None:
    if claim is None:
        if used.is_ephemeral:
            return (
                "waiting for ephemeral volume controller to create the persistentvolumeclaim "
                f'"{used.name}"'
            )
        return not_found(PERSISTENT_VOLUME_CLAIMS, used.name)
    if claim.status.phase == _LOST:
        volume = claim.spec.volume_name
        return (
            f'persistentvolumeclaim "{used.name}" bound to non-existent persistentvolume "{volume}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{used.name}" is being deleted'
    return ownership_problem(pod, claim) if used.is_ephemeral else None


def sort_claims(
    claims: list[PersistentVolumeClaim], classes: Shelf[StorageClass]
) -> PodClaims | Status:
    """The pod's claims by what is left to do; a Status if one is not the scheduler's to bind."""
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate = False
    for claim in claims:
        if is_bound(claim):
            bound.append(claim)
            continue
        name = class_of_claim(claim)
        storage_class = classes.get(name) if name else None
        if storage_class is not None and storage_class.volume_binding_mode is None:
            return error(f'VolumeBindingMode not set for StorageClass "{name}"')
        is_delayed = (
            storage_class is not None and storage_class.volume_binding_mode == _DELAYED_MODE
        )
        # A claim that names its volume waits for the PV controller, delayed or not.
        if is_delayed and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            immediate = True
    if immediate:
        return UNBOUND_IMMEDIATE
    return PodClaims(tuple(bound), tuple(delayed))
