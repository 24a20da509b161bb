"""What to look at next when the cause is not on the nodes: claims, gates, devices."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.api.objects import Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from stowplan.cluster.catalog import Catalog
from stowplan.explain.explanation import Reason

_VOLUME_PLUGINS = ("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")
_NO_CLAIMS = (
    "No claim at all was read: there is none, the file lacks them, or they may not be listed."
)


def advice_for(
    pod: Pod, reasons: Sequence[Reason], catalog: Catalog, *, is_node_missing: bool = False
) -> str:
    """One or two sentences; empty if the reasons say enough."""
    if is_node_missing:
        key = f"{pod.metadata.name} -n {pod.metadata.namespace}"
        again = "its owner creates another" if pod.metadata.owner_references else "create it again"
        return f"No kubelet runs it. Delete it (kubectl delete pod {key}), and {again}."
    if pod.spec.scheduling_gates:
        return "The controller that set a gate removes it; look there for what it waits for."
    if reasons and reasons[0].plugin in _VOLUME_PLUGINS:
        return _about_claims(pod, reasons[0].reason, catalog)
    if reasons and reasons[0].plugin == "DynamicResources":
        namespace = pod.metadata.namespace
        return f"See kubectl get resourceclaims -n {namespace} and kubectl get resourceslices."
    return ""


def _about_claims(pod: Pod, reason: str, catalog: Catalog) -> str:
    namespace = pod.metadata.namespace
    names = [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None
    ]
    if not names:
        return ""
    look = f"See kubectl describe pvc {' '.join(names[:4])} -n {namespace}."
    if "not found" in reason:
        missing = "" if len(catalog[PERSISTENT_VOLUME_CLAIMS]) else f" {_NO_CLAIMS}"
        there = f"kubectl get pvc -n {namespace}"
        return f"Create the claim, or correct its name in the pod; see {there}.{missing}"
    if "unbound immediate" in reason:
        return f"{_why_unbound(names, namespace, catalog)} {look}"
    if "node affinity" in reason or "zone" in reason:
        return (
            f"Its volume can be used on other nodes only: add room there, or move the data. {look}"
        )
    return look


def _why_unbound(names: Sequence[str], namespace: str, catalog: Catalog) -> str:
    for name in names:
        claim = catalog[PERSISTENT_VOLUME_CLAIMS].get(name, namespace)
        if claim is None or claim.spec.volume_name:
            continue
        wanted = claim.spec.storage_class_name
        if not wanted:
            return f'The claim "{name}" names no storage class, so it waits for a volume of none.'
        if catalog[STORAGE_CLASSES].get(wanted) is None:
            return f'The claim "{name}" asks for the storage class "{wanted}", which was not found.'
    return "The claim is not bound: no volume has been provisioned for it, and none matches."
