"""The kinds in the groups that plugins read, to detect misspelt kinds.

Other groups are not checked: a custom resource may well be called Service.
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
    """Refuse an unknown kind in a group of Kubernetes."""
    group, _, _ = api_version.rpartition("/")
    if group not in _GROUPS or kind in _KINDS.get(api_version, ()):
        return
    homes = [home for home, kinds in _KINDS.items() if kind in kinds]
    if homes:
        hint = f'; did you mean apiVersion "{homes[0]}"?'
    else:
        hint = did_you_mean(kind, [name for kinds in _KINDS.values() for name in kinds])
    raise QuestionRefused(f'kind: no kind "{kind}" is registered for version "{api_version}"{hint}')
