"""Pods of workloads: how one is made from a template, what counts as alive, which goes first.

Pure functions. The rules are those of kube-controller-manager's controller_utils.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.pod_actions import is_ready
from stowplan.apiserver.workload_controllers.objects import reference_to
from stowplan.clock import parse_rfc3339

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1}
_NAME_LENGTH = 58


def pod_of(template: Json, workload: Json) -> Json:
    """A pod from a template, with the workload as its controller and a name to be generated."""
    metadata = template.get("metadata") or {}
    prefix = f"{workload['metadata']['name']}-"
    made = {
        "generateName": prefix[:_NAME_LENGTH],
        "namespace": workload["metadata"]["namespace"],
        "labels": dict(metadata.get("labels") or {}),
        "annotations": dict(metadata.get("annotations") or {}),
        "finalizers": list(metadata.get("finalizers") or ()),
        "ownerReferences": [reference_to(workload)],
    }
    return {"metadata": made, "spec": dict(template["spec"])}


def phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def is_finished(pod: Json) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_terminating(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod: Json) -> bool:
    """Neither finished nor being deleted."""
    return not is_finished(pod) and not is_terminating(pod)


def available_in(pod: Json, min_ready_s: int, now: float) -> float | None:
    """Seconds until a pod counts as available: 0 for now, None as long as it is not ready."""
    if not is_ready(pod):
        return None
    if not min_ready_s:
        return 0.0
    return max(0.0, _ready_since(pod) + min_ready_s - now)


def count_available(
    pods: Iterable[Record], min_ready_s: int, now: float
) -> tuple[int, float | None]:
    """The number of available pods, and when the next one will be."""
    waits = [wait for pod in pods if (wait := available_in(pod.object, min_ready_s, now))]
    ready = sum(is_ready(pod.object) for pod in pods)
    return ready - len(waits), min(waits, default=None)


def to_delete_first(pods: Sequence[Record], related: Iterable[Record]) -> list[Record]:
    """The pods in the order in which a smaller ReplicaSet loses them.

    `related` are the active pods of all ReplicaSets of the same owner: a node that runs several
    of them loses one before a node that runs one.
    """
    crowd = Counter(pod.object["spec"].get("nodeName", "") for pod in related)

    def rank(record: Record) -> tuple[float | str, ...]:
        pod = record.object
        node = pod["spec"].get("nodeName", "")
        restarts = sum(
            each.get("restartCount", 0) for each in pod["status"].get("containerStatuses") or ()
        )
        return (
            bool(node),
            _PHASES.get(phase(pod), 2),
            is_ready(pod),
            _deletion_cost(pod),
            -crowd[node] if node else 0,
            -_ready_since(pod),
            -restarts,
            -parse_rfc3339(pod["metadata"]["creationTimestamp"]),
            pod["metadata"]["name"],
        )

    return sorted(pods, key=rank)


def _ready_since(pod: Json) -> float:
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "Ready" and condition["status"] == "True":
            moved = condition.get("lastTransitionTime")
            return parse_rfc3339(moved) if moved else 0.0
    return 0.0


def _deletion_cost(pod: Json) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0
