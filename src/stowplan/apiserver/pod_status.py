"""The statuses that a kubelet reports for a pod: running, then succeeded or failed."""

from __future__ import annotations

from stowplan.apiserver.history import Json
from stowplan.apiserver.pod_actions import with_conditions

HOST_IP = "127.0.0.1"
_STARTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def running_status(pod: Json, now: str, ip: str) -> Json:
    """Everything started and ready."""
    spec = pod["spec"]
    generation = pod["metadata"].get("generation", 0)
    status = dict(pod["status"])
    met = {"status": "True", "observedGeneration": generation}
    status |= {
        "observedGeneration": generation,
        "phase": "Running",
        "conditions": with_conditions(
            status.get("conditions"), now, *({"type": name, **met} for name in _STARTED)
        ),
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "podIP": HOST_IP if spec.get("hostNetwork") else ip,
        "startTime": now,
        "containerStatuses": [_running(pod, each, now) for each in spec.get("containers") or ()],
    }
    status["podIPs"] = [{"ip": status["podIP"]}]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _running(pod, each, now)
            if each.get("restartPolicy") == "Always"
            else _ended(_running(pod, each, now), now)
            for each in spec["initContainers"]
        ]
    return status


def ended_status(pod: Json, now: str, exit_code: int = 0) -> Json:
    """Every container has ended with the exit code."""
    status = dict(pod["status"])
    over = {
        "status": "False",
        "observedGeneration": pod["metadata"].get("generation", 0),
        "reason": "PodFailed" if exit_code else "PodCompleted",
    }
    return status | {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": with_conditions(
            status.get("conditions"),
            now,
            {"type": "Ready", **over},
            {"type": "ContainersReady", **over},
        ),
        "containerStatuses": [
            _ended(container, now, exit_code) for container in status.get("containerStatuses") or ()
        ],
    }


def _running(pod: Json, container: Json, now: str) -> Json:
    return {
        "name": container["name"],
        "state": {"running": {"startedAt": now}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": container.get("image", ""),
        "imageID": "",
        "containerID": f"pretend://{pod['metadata']['uid']}/{container['name']}",
        "started": True,
    }


def _ended(container: Json, now: str, exit_code: int = 0) -> Json:
    ended = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": container["state"].get("running", {}).get("startedAt", now),
        "finishedAt": now,
        "containerID": container["containerID"],
    }
    return {**container, "state": {"terminated": ended}, "ready": False, "started": False}
