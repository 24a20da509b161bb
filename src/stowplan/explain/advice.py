"""What to look at next when the cause is not on the nodes: claims, gates, devices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from stowplan.api.objects import Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_volumes import claims_of
from stowplan.explain.commands import delete_pods, kubectl
from stowplan.explain.explanation import Reason

#: Of a CEL selector that reads a missing attribute.
_NO_KEY: Final = re.compile(r"CEL runtime error: no such key: ([A-Za-z_][A-Za-z0-9_]*)")
VOLUME_PLUGINS = ("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")


def advice_for(
    pod: Pod,
    reasons: Sequence[Reason],
    catalog: Catalog,
    *,
    has_nodes: bool = True,
    are_nodes_unread: bool = False,
    is_node_missing: bool = False,
    details: Iterable[str] = (),
) -> str:
    """One or two sentences; empty if the reasons say enough.

    `details` are the cause in words, and those of obstacles on nodes.
    """
    if is_node_missing:
        again = "its owner creates another" if pod.metadata.owner_references else "create it again"
        return f"No kubelet runs it. Delete it ({delete_pods([pod])}), and {again}."
    if pod.spec.scheduling_gates:
        return "The controller that set a gate removes it; look there for what it waits for."
    if not has_nodes and not are_nodes_unread:
        return "A kubelet registers its node when it starts; see kubectl get nodes."
    if not has_nodes:
        return (
            "No node was read. A file must have them, too: kubectl get nodes,pods -A -o yaml writes"
            " both."
        )
    for text in details:
        if (missing := _NO_KEY.search(text)) is not None:
            return (
                f"The selector reads {missing[1]}, which a device lacks. Test for it first:"
                f' has(device.attributes["DOMAIN"].{missing[1]}) && ...'
            )
    if reasons and reasons[0].plugin in VOLUME_PLUGINS:
        return _about_claims(pod, reasons[0].reason, catalog)
    if reasons and reasons[0].plugin == "DynamicResources" and pod.spec.resource_claims:
        namespace = pod.metadata.namespace
        look = kubectl(["get", "resourceclaims,resourceclaimtemplates", "-n", namespace])
        return f"See {look} and kubectl get deviceclasses,resourceslices."
    return ""


def _about_claims(pod: Pod, reason: str, catalog: Catalog) -> str:
    namespace = pod.metadata.namespace
    names = [claim.name for claim in claims_of(pod)]
    if not names:
        return ""
    look = f"See {kubectl(['describe', 'pvc', '-n', namespace], names[:4])}."
    there = kubectl(["get", "pvc", "-n", namespace])
    if "not found" in reason:
        return f"Create the claim, or correct its name in the pod; see {there}."
    if "ephemeral volume controller" in reason:
        return (
            "The ephemeral volume controller, a part of kube-controller-manager, creates it. See"
            f" {there} and {kubectl(['get', 'events', '-n', namespace])}."
        )
    if "max volume count" in reason:
        return "See kubectl get csinodes -o yaml for the limits, which the driver sets."
    if "ReadWriteOncePod" in reason:
        return "One pod at a time can use a ReadWriteOncePod claim. Is the other pod still needed?"
    if "available persistent volumes" in reason:
        return f"Create such a PersistentVolume, or use a class that provisions volumes. {look}"
    if "unbound immediate" in reason:
        return f"{_why_unbound(names, namespace, catalog)} {look}"
    if "node affinity" in reason or "zone" in reason:
        return f"Add room where the volume is, or move its data. {look}"
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
