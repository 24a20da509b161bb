"""Nodes: what a kubelet reports when it registers, and the taints that follow from conditions.

In a real cluster the node lifecycle controller keeps the taints; here `Kubelet` asks for them
after every change of a node. Both functions return None when there is nothing to change.
"""

from __future__ import annotations

from stowplan.apiserver.history import Json

_PREFIX = "node.kubernetes.io/"
# condition -> status -> taint
_TAINT_OF = {
    "Ready": {"False": "not-ready", "Unknown": "unreachable"},
    "MemoryPressure": {"True": "memory-pressure"},
    "DiskPressure": {"True": "disk-pressure"},
    "PIDPressure": {"True": "pid-pressure"},
    "NetworkUnavailable": {"True": "network-unavailable"},
}
_OURS = frozenset(
    {f"{_PREFIX}{name}" for taints in _TAINT_OF.values() for name in taints.values()}
    | {f"{_PREFIX}unschedulable"}
)
_HEALTH = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_SYSTEM = {
    "kernelVersion": "pretend",
    "osImage": "Stowplan pretend node",
    "containerRuntimeVersion": "pretend://1.0",
    "kubeletVersion": "v1.36.3",
    "operatingSystem": "linux",
    "architecture": "amd64",
}
#: What a node has where its manifest does not say: room for the pods of an experiment.
DEFAULT_SIZE = {"cpu": "4", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"}


def registered(node: Json, now: str) -> Json | None:
    """Return a node as its kubelet registers it; None if another program has set conditions.

    Amounts and labels that a kubelet reports are filled in where the manifest leaves them out.
    """
    status = node["status"]
    if status.get("conditions"):
        return None
    metadata = node["metadata"]
    labels = {
        "kubernetes.io/hostname": metadata["name"],
        "kubernetes.io/os": _SYSTEM["operatingSystem"],
        "kubernetes.io/arch": _SYSTEM["architecture"],
        **(metadata.get("labels") or {}),
    }
    status = dict(status)
    status["capacity"] = {**DEFAULT_SIZE, **(status.get("allocatable") or {})}
    status["capacity"] |= node["status"].get("capacity") or {}
    status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}
    status["conditions"] = [
        {
            "type": name,
            "status": state,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for name, state, reason, message in _HEALTH
    ]
    if not status.get("addresses"):
        status["addresses"] = [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": node["metadata"]["name"]},
        ]
    info = status.get("nodeInfo") or {}
    status["nodeInfo"] = {**info, **{k: v for k, v in _SYSTEM.items() if not info.get(k)}}
    return {**node, "metadata": {**metadata, "labels": labels}, "status": status}


def tainted(node: Json) -> Json | None:
    """The node with the taints that its conditions and cordon ask for, and no others of ours."""
    spec = node.get("spec") or {}
    wanted = [
        f"{_PREFIX}{name}"
        for condition in node["status"].get("conditions") or ()
        if (name := _TAINT_OF.get(condition["type"], {}).get(condition["status"]))
    ]
    if spec.get("unschedulable"):
        wanted.append(f"{_PREFIX}unschedulable")
    before = spec.get("taints") or []
    after = [
        taint
        for taint in before
        if taint["effect"] != "NoSchedule" or taint["key"] not in _OURS or taint["key"] in wanted
    ]
    present = {taint["key"] for taint in after if taint["effect"] == "NoSchedule"}
    after += [{"key": key, "effect": "NoSchedule"} for key in wanted if key not in present]
    if after == before:
        return None
    spec = {key: value for key, value in spec.items() if key != "taints"}
    if after:
        spec["taints"] = after
    return {**node, "spec": spec}
