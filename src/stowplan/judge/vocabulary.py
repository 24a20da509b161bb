"""Kinds in the groups that plugins read: a kind that is not one of them is a slip of the pen.

Other groups are anybody's (a custom resource may well be called Service), and are not looked at.
"""

from __future__ import annotations

from stowplan.config.fields import did_you_mean
from stowplan.judge.refusal import QuestionRefused

_KINDS: dict[str, tuple[str, ...]] = {
    "v1": (
        "Binding",
        "ComponentStatus",
        "ConfigMap",
        "Endpoints",
        "Event",
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "Service",
        "ServiceAccount",
    ),
    "apps/v1": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "policy/v1": ("Eviction", "PodDisruptionBudget"),
    "storage.k8s.io/v1": (
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "StorageClass",
        "VolumeAttachment",
        "VolumeAttributesClass",
    ),
}
_GROUPS = {api_version.rpartition("/")[0] for api_version in _KINDS}


def check_kind(api_version: str, kind: str) -> None:
    """Refuses what looks like one of Kubernetes' own kinds and is none."""
    group, _, _ = api_version.rpartition("/")
    if group not in _GROUPS or kind in _KINDS.get(api_version, ()):
        return
    homes = [home for home, kinds in _KINDS.items() if kind in kinds]
    if homes:
        hint = f'; did you mean apiVersion "{homes[0]}"?'
    else:
        hint = did_you_mean(kind, [name for kinds in _KINDS.values() for name in kinds])
    raise QuestionRefused(f'kind: no kind "{kind}" is registered for version "{api_version}"{hint}')
