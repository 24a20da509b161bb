"""The row of a pod: READY, STATUS and RESTARTS as kube-apiserver computes them.

STATUS is the phase or reason of the pod unless a container has something more telling to say; the
order in which the containers are looked at decides, so it follows upstream step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stowplan.apiserver.table_text import age, dig, has_condition, items, number, since, text

Json = dict[str, Any]


@dataclass(slots=True)
class _Summary:
    """What has been learned from the containers so far."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""  # RFC 3339, so that the later one is the greater string

    def count_restarts(self, status: Json) -> None:
        self.restarts += number(status, "restartCount")
        self.last_restart = max(
            self.last_restart, text(status, "lastState", "terminated", "finishedAt")
        )


def pod_row(pod: Json, now: float) -> list[Any]:
    """All cells of a pod, the wide ones included."""
    summary = _summarize(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({since(summary.last_restart, now)} ago)"
    sidecars = sum(map(_is_sidecar, items(pod, "spec", "initContainers")))
    total = len(items(pod, "spec", "containers")) + sidecars
    pod_ips = items(pod, "status", "podIPs")
    return [
        text(pod, "metadata", "name"),
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age(pod, now),
        (text(pod_ips[0], "ip") if pod_ips else "") or "<none>",
        text(pod, "spec", "nodeName") or "<none>",
        text(pod, "status", "nominatedNodeName") or "<none>",
        _readiness_gates(pod),
    ]


def pod_row_conditions(pod: Json) -> list[Json]:
    """Marks finished pods, so that clients can tell them apart without reading cells."""
    phase = dig(pod, "status", "phase")
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in messages:
        return []
    return [
        {"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]},
    ]


def _is_sidecar(container: Json | None) -> bool:
    return text(container, "restartPolicy") == "Always"


def _summarize(pod: Json) -> _Summary:
    phase = text(pod, "status", "phase")
    reason = text(pod, "status", "reason") or phase
    for condition in items(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    summary = _Summary(reason)
    sidecars = _Summary(reason)
    initializing = _look_at_init_containers(pod, summary, sidecars)
    if not initializing or has_condition(pod, "Initialized"):
        summary.restarts, summary.last_restart = sidecars.restarts, sidecars.last_restart
        _look_at_containers(pod, summary)
    if dig(pod, "metadata", "deletionTimestamp"):
        if text(pod, "status", "reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _look_at_init_containers(pod: Json, summary: _Summary, sidecars: _Summary) -> bool:
    """True while init containers still decide the status. Only the first unfinished one counts."""
    specs = items(pod, "spec", "initContainers")
    by_name = {container.get("name"): container for container in specs}
    for position, status in enumerate(items(pod, "status", "initContainerStatuses")):
        sidecar = _is_sidecar(by_name.get(status.get("name")))
        summary.count_restarts(status)
        if sidecar:
            sidecars.count_restarts(status)
        terminated = dig(status, "state", "terminated")
        if terminated is not None and number(terminated, "exitCode") == 0:
            continue
        if sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        waiting = text(status, "state", "waiting", "reason")
        if terminated is not None:
            summary.reason = "Init:" + _termination_reason(terminated)
        elif waiting and waiting != "PodInitializing":
            summary.reason = "Init:" + waiting
        else:
            summary.reason = f"Init:{position}/{len(specs)}"
        return True
    return False


def _look_at_containers(pod: Json, summary: _Summary) -> None:
    """From the last container to the first, so that the first one has the last word."""
    has_running = False
    error_reason = ""
    for status in reversed(items(pod, "status", "containerStatuses")):
        summary.count_restarts(status)
        terminated = dig(status, "state", "terminated")
        if waiting := text(status, "state", "waiting", "reason"):
            summary.reason = waiting
        elif terminated is not None:
            summary.reason = _termination_reason(terminated)
            if number(terminated, "exitCode"):
                error_reason = summary.reason
        elif status.get("ready") and dig(status, "state", "running") is not None:
            has_running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if has_running and has_condition(pod, "Ready"):
            summary.reason = "Running"
        elif error_reason:
            summary.reason = error_reason
        elif has_running:
            summary.reason = "NotReady"


def _termination_reason(terminated: Json) -> str:
    if reason := text(terminated, "reason"):
        return reason
    if signal := number(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{number(terminated, 'exitCode')}"


def _readiness_gates(pod: Json) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return "<none>"
    ready = sum(has_condition(pod, text(gate, "conditionType")) for gate in gates)
    return f"{ready}/{len(gates)}"
