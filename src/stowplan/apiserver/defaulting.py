"""Defaults of every kind, applied before admission and validation. Changes the object given."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable

from stowplan.apiserver.device_strategies import default_claim_spec, default_taint_times
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import DEVICE_TAINT_RULES, PODS, RESOURCE_SLICES, Kind
from stowplan.apiserver.pod_defaults import (
    begin_status,
    default_pod,
    default_pod_spec,
    default_volume_source,
    merge_label_keys,
)
from stowplan.clock import rfc3339


def on_create(kind: Kind, obj: Json, now: float, *, has_defaults: bool = False) -> None:
    """With `has_defaults`, only what a new object has besides them."""
    if not has_defaults:
        on_update(kind, obj, now)
    match kind.plural:
        case "pods":
            if not has_defaults:
                merge_label_keys(obj)
            begin_status(obj, rfc3339(now))
        case "jobs":
            _select_own_pods(obj)
        case "daemonsets":
            annotations = obj["metadata"].setdefault("annotations", {})
            annotations["deprecated.daemonset.template.generation"] = "1"
        case "persistentvolumes":
            obj["status"]["lastPhaseTransitionTime"] = rfc3339(now)
        case "services":
            _assign_address(obj["spec"])


def on_update(kind: Kind, obj: Json, now: float) -> None:
    if kind is PODS:
        default_pod(obj)
        return
    if kind in (RESOURCE_SLICES, DEVICE_TAINT_RULES):
        default_taint_times(obj, rfc3339(now))
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
    default_volume_source(spec)


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


def _assign_address(spec: Json) -> None:
    """Any free-looking address will do: nothing here routes to it."""
    if spec["type"] == "ExternalName" or "clusterIP" in spec:
        return
    address = f"10.96.{random.randrange(256)}.{random.randrange(1, 255)}"
    spec |= {
        "clusterIP": address,
        "clusterIPs": [address],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }


def _csi_driver(driver: Json) -> None:
    spec = driver["spec"]
    spec.setdefault("attachRequired", True)
    for name in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
        spec.setdefault(name, False)
    spec.setdefault("volumeLifecycleModes", ["Persistent"])
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")


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


def _replication_controller(obj: Json) -> None:
    spec: Json = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" not in spec:
        return
    _template(obj)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


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
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        obj["metadata"].setdefault("labels", dict(labels))


def _select_own_pods(job: Json) -> None:
    """A job finds its pods by its own uid, unless it says that it selects them itself."""
    metadata, spec = job["metadata"], job["spec"]
    if spec.setdefault("manualSelector", False):
        return
    uid = metadata["uid"] = str(uuid.uuid4())
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}controller-uid"] = uid
        labels[f"{prefix}job-name"] = metadata.get("name", "")
    metadata["labels"] = {**labels, **metadata.get("labels", {})}
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def _resource_claim(claim: Json) -> None:
    default_claim_spec(claim["spec"])


def _resource_claim_template(template: Json) -> None:
    default_claim_spec(template["spec"]["spec"])


_DEFAULTS: dict[str, Callable[[Json], None]] = {
    "nodes": _node,
    "namespaces": _namespace,
    "priorityclasses": _priority_class,
    "storageclasses": _storage_class,
    "persistentvolumes": _volume,
    "persistentvolumeclaims": _claim,
    "secrets": _secret,
    "services": _service,
    "csidrivers": _csi_driver,
    "deployments": _deployment,
    "replicasets": _replica_set,
    "replicationcontrollers": _replication_controller,
    "statefulsets": _stateful_set,
    "daemonsets": _daemon_set,
    "jobs": _job,
    "resourceclaims": _resource_claim,
    "resourceclaimtemplates": _resource_claim_template,
}
