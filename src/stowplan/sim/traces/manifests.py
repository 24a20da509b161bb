"""Manifests of pods and nodes, small and with shared parts.

A hundred thousand pods of ten applications are a hundred thousand names and ten specs. What must
stay true: equal arguments give equal manifests, in the same order of keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from stowplan.sim.traces.amounts import cpu_text, memory_text, seconds_text
from stowplan.sim.traces.model import RUN_SECONDS, Arrival, Json

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
IMAGE = "registry.k8s.io/pause:3.10"
#: Namespaces that every cluster has.
STANDING_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
#: Priority classes that every cluster has, by their numbers.
SYSTEM_CLASSES = {
    2_000_000_000: "system-cluster-critical",
    2_000_001_000: "system-node-critical",
}


def plain(value: Any) -> Any:
    """The value as plain JSON; YAML's timestamps become texts again."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def arrival(
    at: float, name: str, namespace: str, labels: Json, spec: Json, run_s: float | None
) -> Arrival:
    """A pod's arrival; labels and spec may be those of others."""
    metadata: Json = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    if run_s is not None:
        metadata["annotations"] = {RUN_SECONDS: seconds_text(run_s)}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return Arrival(at, manifest, run_s)


def requests(
    cpu_milli: int, memory_bytes: int, gpus: int, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    amounts: dict[str, str] = {}
    if cpu_milli:
        amounts["cpu"] = cpu_text(cpu_milli)
    if memory_bytes:
        amounts["memory"] = memory_text(memory_bytes)
    if gpus:
        amounts[GPU] = str(gpus)
    return amounts | dict(more or {})


def container(amounts: Mapping[str, str]) -> Json:
    made: Json = {"name": "main", "image": IMAGE}
    if amounts:
        made["resources"] = {"requests": dict(amounts)}
        # An API server wants extended resources limited to what is requested.
        if limits := {name: amount for name, amount in amounts.items() if "/" in name}:
            made["resources"]["limits"] = limits
    return made


def node(
    name: str,
    offers: Mapping[str, str],
    *,
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    taints: Sequence[Json] = (),
) -> Json:
    own = {HOSTNAME: name}
    if zone:
        own[ZONE] = zone
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own | dict(labels or {})},
        "status": {"capacity": offers, "allocatable": offers},
    }
    if taints:
        manifest["spec"] = {"taints": list(taints)}
    return manifest


def namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def priority_class_name(value: int, *, preempts: bool = True) -> str:
    """The name of the class that stands for a number: an API server wants a class for it."""
    if preempts and value in SYSTEM_CLASSES:
        return SYSTEM_CLASSES[value]
    name = f"priority-{value}" if value >= 0 else f"priority-minus-{-value}"
    return name if preempts else f"{name}-never"


def priority_class(name: str, value: int, *, preempts: bool = True) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
    }


def taint(text: str) -> Json:
    """Parse kubectl's form of a taint: `key=value:Effect` or `key:Effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(f"`{text}` is not a taint; write key=value:NoSchedule")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def toleration(text: str) -> Json:
    """Parse `key=value:Effect`, `key=value`, `key:Effect` or `key`; no value: any value."""
    pair, _, effect = text.partition(":")
    key, equals, value = pair.partition("=")
    if not key or effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(f"`{text}` is not a toleration; write key=value:NoSchedule")
    made: Json = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        made["value"] = value
    return made | ({"effect": effect} if effect else {})


def needs_one_of(labels: Mapping[str, Sequence[str]]) -> Json:
    """What of a spec makes a pod want nodes with these labels; several values: any of them."""
    if all(len(values) == 1 for values in labels.values()):
        return {"nodeSelector": {key: values[0] for key, values in labels.items()}}
    wanted = [
        {"key": key, "operator": "In", "values": list(values)} for key, values in labels.items()
    ]
    terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}}
