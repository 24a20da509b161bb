"""Defaults of every kind, applied before admission and validation. Changes the object given."""

from __future__ import annotations

import base64
from collections.abc import Callable

from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import PODS, Kind
from stowplan.apiserver.pod_defaults import begin_status, default_pod, default_pod_spec
from stowplan.clock import rfc3339


def on_create(kind: Kind, obj: Json, now: float) -> None:
    if kind is PODS:
        default_pod(obj)
        begin_status(obj, rfc3339(now))
        return
    default = _DEFAULTS.get(kind.plural)
    if default is not None:
        default(obj)


def on_update(kind: Kind, obj: Json) -> None:
    if kind is PODS:
        default_pod(obj)
        return
    default = _DEFAULTS.get(kind.plural)
    if default is not None:
        default(obj)


def _node(node: Json) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _namespace(namespace: Json) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _priority_class(priority_class: Json) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _storage_class(storage_class: Json) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def _volume(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")


def _claim(claim: Json) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _secret(secret: Json) -> None:
    secret.setdefault("type", "Opaque")
    for key, text in secret.pop("stringData", {}).items():
        encoded = base64.b64encode(text.encode()).decode()
        secret["data"] = {**secret.get("data", {}), key: encoded}


def _service(service: Json) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _template(obj: Json) -> Json:
    spec: Json = obj.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))
    return spec


def _deployment(obj: Json) -> None:
    spec = _template(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _replica_set(obj: Json) -> None:
    _template(obj).setdefault("replicas", 1)


def _stateful_set(obj: Json) -> None:
    spec = _template(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    spec.setdefault(
        "persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}
    )


def _daemon_set(obj: Json) -> None:
    spec = _template(obj)
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)


def _job(obj: Json) -> None:
    spec = _template(obj)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")


_DEFAULTS: dict[str, Callable[[Json], None]] = {
    "nodes": _node,
    "namespaces": _namespace,
    "priorityclasses": _priority_class,
    "storageclasses": _storage_class,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
    "secrets": _secret,
    "services": _service,
    "deployments": _deployment,
    "replicasets": _replica_set,
    "replicationcontrollers": _replica_set,
    "statefulsets": _stateful_set,
    "daemonsets": _daemon_set,
    "jobs": _job,
}
