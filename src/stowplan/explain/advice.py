"""What to look at next when the cause is not on the nodes: claims, gates, devices."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.api.objects import Pod
from stowplan.explain.explanation import Reason

_VOLUME_PLUGINS = ("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")


def advice_for(pod: Pod, reasons: Sequence[Reason]) -> str:
    """One or two sentences; empty if the reasons say enough."""
    namespace = pod.metadata.namespace
    if pod.spec.scheduling_gates:
        return "The controller that set a gate removes it; look there for what it waits for."
    if not reasons:
        return ""
    plugin, reason = reasons[0].plugin, reasons[0].reason
    claims = [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None
    ]
    if plugin in _VOLUME_PLUGINS and claims:
        names = " ".join(claims[:4])
        look = f"kubectl describe pvc {names} -n {namespace}"
        if "not found" in reason:
            there = f"kubectl get pvc -n {namespace}"
            return f"Create the claim, or correct its name in the pod; see {there}."
        if "unbound immediate" in reason:
            return (
                "The claim must be bound first: its storage class binds at once, and no volume has"
                f" been provisioned or matches. See {look}."
            )
        if "node affinity" in reason or "zone" in reason:
            return (
                "Its volume can be used on other nodes only: add room there, or move the data."
                f" See {look}."
            )
        return f"See {look}."
    if plugin == "DynamicResources":
        return f"See kubectl get resourceclaims -n {namespace} and kubectl get resourceslices."
    return ""
