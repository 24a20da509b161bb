"""From decision to fact: assume, write, and wait until the PV controller has bound everything.

Volumes that exist are promised to their claims (claimRef); for claims that need a new volume the
chosen node is written into the claim, which makes its provisioner start. Both are patches that the
API server rejects after a concurrent change. Then the pod waits, woken by every change of its
claims and volumes, until all are bound, a timeout, or another writer reverts these patches.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stowplan.api.objects import ObjectReference, Pod
from stowplan.api.paging import is_older
from stowplan.api.resources import CSI_NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.framework.handle import Handle
from stowplan.logs import V2, V4, get_logger, kv
from stowplan.plugins.volume_binding.assumed import BelievedVolumes
from stowplan.plugins.volume_binding.claims import SELECTED_NODE, is_bound, selected_node
from stowplan.plugins.volume_binding.matching import is_promised_to
from stowplan.plugins.volume_binding.reach import reaches
from stowplan.plugins.volume_binding.search import NodeVolumes

log = get_logger(__name__)

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: Whether the pod and its node still exist is looked at so often; all else wakes us.
_LOOK_S = 1.0


class BindingProblem(Exception):
    """The reason why a pod's volumes cannot be bound; the pod must be scheduled again."""


def promised(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a claimRef that means the claim; itself, if that is so already."""
    meta, ref = claim.metadata, volume.spec.claim_ref
    if ref is None or (ref.namespace, ref.name, ref.uid) != (meta.namespace, meta.name, meta.uid):
        ref = ObjectReference(
            kind=PERSISTENT_VOLUME_CLAIMS.kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            api_version=PERSISTENT_VOLUME_CLAIMS.api_version,
            resource_version=meta.resource_version,
        )
    annotations = volume.metadata.annotations
    if not is_promised_to(volume, claim) and _BOUND_BY_CONTROLLER not in (annotations or {}):
        # Lets the PV controller undo this claimRef; it must not undo one that a user has set.
        annotations = {**(annotations or {}), _BOUND_BY_CONTROLLER: "yes"}
    if ref is volume.spec.claim_ref and annotations is volume.metadata.annotations:
        return volume
    return replace(
        volume,
        metadata=replace(volume.metadata, annotations=annotations),
        spec=replace(volume.spec, claim_ref=ref),
    )


def selecting(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """The claim with the node written into it that its volume is to be made for."""
    annotations = {**(claim.metadata.annotations or {}), SELECTED_NODE: node}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def assume(believed: BelievedVolumes, decided: NodeVolumes, node: str) -> NodeVolumes:
    """Believe at once in what is going to be written."""
    assumed = NodeVolumes()
    for volume, claim in decided.bindings:
        changed = promised(volume, claim)
        if changed is not volume:
            believed.volumes.assume(changed)
        assumed.bindings.append((changed, claim))
    for claim in decided.provisions:
        selected = selecting(claim, node)
        believed.claims.assume(selected)
        assumed.provisions.append(selected)
    return assumed


def revert(believed: BelievedVolumes, assumed: NodeVolumes) -> None:
    """Take back what was assumed and not written."""
    for volume, _ in assumed.bindings:
        believed.volumes.restore(volume)
    for claim in assumed.provisions:
        believed.claims.restore(claim)


async def bind_volumes(
    handle: Handle,
    believed: BelievedVolumes,
    pod: Pod,
    node: str,
    volumes: NodeVolumes,
    timeout_s: float,
) -> None:
    """Write what was assumed and wait until it is so; BindingProblem or an API error if not."""
    deadline = handle.clock.monotonic() + timeout_s
    claims = [claim for _, claim in volumes.bindings] + volumes.provisions
    wakeup = handle.wakeup()
    keys = [(claim.metadata.namespace, claim.metadata.name) for claim in claims]
    with believed.telling(keys, wakeup.ring):
        await _write(handle, volumes)
        while not _all_bound(handle, believed, pod, node, volumes):
            left = deadline - handle.clock.monotonic()
            if left <= 0:
                raise BindingProblem("binding volumes: context deadline exceeded")
            if not await wakeup.wait(min(left, _LOOK_S)):
                raise BindingProblem("binding volumes: context canceled")
    log.log(V2, "All volumes of the pod are bound", extra=kv(pod=pod.key, node=node))


async def _write(handle: Handle, volumes: NodeVolumes) -> None:
    """Patch volumes and claims; what was written stands in `volumes` from then on."""
    client = handle.client
    for place, (volume, claim) in enumerate(volumes.bindings):
        written = await client.amend(
            PERSISTENT_VOLUMES,
            volume.metadata.name,
            {
                "metadata": {"annotations": volume.metadata.annotations},
                "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
            },
            resource_version=volume.metadata.resource_version,
        )
        volumes.bindings[place] = (written, claim)
        log.log(V4, "Promised volume to claim", extra=kv(volume=written.metadata.name))
    for place, claim in enumerate(volumes.provisions):
        meta = claim.metadata
        volumes.provisions[place] = await client.amend(
            PERSISTENT_VOLUME_CLAIMS,
            meta.name,
            {"metadata": {"annotations": {SELECTED_NODE: selected_node(claim)}}},
            namespace=meta.namespace,
            resource_version=meta.resource_version,
        )
        log.log(V4, "Asked for a volume", extra=kv(claim=f"{meta.namespace}/{meta.name}"))


def _all_bound(
    handle: Handle, believed: BelievedVolumes, pod: Pod, node: str, volumes: NodeVolumes
) -> bool:
    """Whether the API server shows every claim bound; raises if that cannot happen any more."""
    try:
        labels = _labels_of_node(handle, pod, node)
        return all(
            _is_binding_done(handle, believed, node, labels, volume, claim)
            for volume, claim in volumes.bindings
        ) and all(
            _is_provision_done(handle, believed, node, labels, claim)
            for claim in volumes.provisions
        )
    except ValueError as problem:
        raise BindingProblem(f"binding volumes: {problem}") from problem


def _labels_of_node(handle: Handle, pod: Pod, node: str) -> dict[str, str]:
    table = handle.table
    row = table.live_row(node)
    if row is None:
        raise ValueError(f'failed to get node "{node}": node "{node}" not found')
    if pod.uid not in table.pods[row]:
        name = pod.metadata.name
        raise ValueError(f'pod does not exist any more: pod "{name}" not found')
    return table.node(row).metadata.labels or {}


def _is_binding_done(
    handle: Handle,
    believed: BelievedVolumes,
    node: str,
    labels: dict[str, str],
    written: PersistentVolume,
    claim: PersistentVolumeClaim,
) -> bool:
    name = written.metadata.name
    volume = believed.volumes.stored.get(name)
    if volume is None:
        raise ValueError(f'failed to check binding: persistentvolumes "{name}" not found')
    current = _stored_claim(believed, claim, "failed to check binding")
    if _is_older(volume, written):
        return False
    try:
        _check_reach(handle, volume, node, labels)
    except _Untranslatable as problem:
        raise ValueError(f"failed to translate pv to csi: {problem}") from problem
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        raise ValueError(f'ClaimRef got reset for pv "{name}"')
    return is_bound(current)


def _is_provision_done(
    handle: Handle,
    believed: BelievedVolumes,
    node: str,
    labels: dict[str, str],
    written: PersistentVolumeClaim,
) -> bool:
    claim = _stored_claim(believed, written, "failed to check provisioning pvc")
    if _is_older(claim, written):
        return False
    name = claim.metadata.name
    if claim.metadata.annotations is None:
        raise ValueError(f'selectedNode annotation reset for PVC "{name}"')
    if (selected_node(claim) or "") != node:
        # How a provisioner says that it cannot make the volume there.
        raise ValueError(f'provisioning failed for PVC "{name}"')
    if claim.spec.volume_name:
        volume = believed.volumes.stored.get(claim.spec.volume_name)
        if volume is None:
            return False  # Not delivered yet, or gone: then the claim will show it.
        _check_reach(handle, volume, node, labels)
    return is_bound(claim)


class _Untranslatable(ValueError):
    """An in-tree volume that cannot be read as its CSI driver's."""


def _check_reach(
    handle: Handle, volume: PersistentVolume, node: str, labels: dict[str, str]
) -> None:
    try:
        is_reached = reaches(volume, labels, handle.catalog[CSI_NODES].get(node))
    except ValueError as problem:
        raise _Untranslatable(str(problem)) from problem
    if not is_reached:
        name = volume.metadata.name
        raise ValueError(
            f'pv "{name}" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms'
        )


def _stored_claim(
    believed: BelievedVolumes, claim: PersistentVolumeClaim, doing: str
) -> PersistentVolumeClaim:
    meta = claim.metadata
    current = believed.claims.stored.get(meta.name, meta.namespace)
    if current is None:
        raise ValueError(
            f'{doing}: persistentvolumeclaims "{meta.namespace}/{meta.name}" not found'
        )
    return current


def _is_older(
    shown: PersistentVolume | PersistentVolumeClaim,
    written: PersistentVolume | PersistentVolumeClaim,
) -> bool:
    """Whether the watch has not yet shown what we wrote."""
    return is_older(shown.metadata.resource_version, written.metadata.resource_version)
