"""A Deployment's status: sums over its ReplicaSets, the conditions Available and Progressing."""

from __future__ import annotations

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.workload_controllers.objects import without_zeros
from stowplan.apiserver.workload_controllers.rollout import Bounds
from stowplan.clock import parse_rfc3339


def deployment_status(
    deployment: Json, new: Record | None, old: list[Record], now: str, time: float
) -> tuple[Json, float | None]:
    """The status, and in how many seconds the progress deadline may pass, if one runs."""
    before = deployment["status"]
    sets = [*old, new] if new else old

    def total(field: str) -> int:
        return sum(each.object["status"].get(field, 0) for each in sets)

    counts = {
        "replicas": total("replicas"),
        "updatedReplicas": new.object["status"].get("replicas", 0) if new else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": total("availableReplicas"),
        "unavailableReplicas": max(0, total("replicas") - total("availableReplicas")),
        "terminatingReplicas": total("terminatingReplicas"),
    }
    status = {
        **counts,
        "observedGeneration": deployment["metadata"]["generation"],
        "collisionCount": before.get("collisionCount"),
    }
    progress, wait_s = _progress(deployment, counts, new, now, time)
    conditions = [_available(deployment, counts), *([progress] if progress else [])]
    failure = _failure(sets)
    if failure:
        conditions.append(failure)
    status["conditions"] = _merged(before.get("conditions") or [], conditions, now)
    return without_zeros(status), wait_s


def _available(deployment: Json, counts: dict[str, int]) -> Json:
    enough = counts["availableReplicas"] >= Bounds.of(deployment).min_available
    return {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }


def _progress(
    deployment: Json, counts: dict[str, int], new: Record | None, now: str, time: float
) -> tuple[Json | None, float | None]:
    """The condition Progressing, and when its deadline passes."""
    before = deployment["status"]
    current = next(
        (each for each in before.get("conditions") or () if each["type"] == "Progressing"), None
    )
    replicas = deployment["spec"]["replicas"]
    what = f'ReplicaSet "{new.key[1]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    made = {"type": "Progressing", "status": "True", "lastUpdateTime": now}
    if deployment["spec"].get("paused"):
        paused = {"status": "Unknown", "reason": "DeploymentPaused"}
        return {**made, **paused, "message": "Deployment is paused"}, None
    if counts["updatedReplicas"] == replicas == counts["replicas"] == counts["availableReplicas"]:
        message = f"{what} has successfully progressed."
        return {**made, "reason": "NewReplicaSetAvailable", "message": message}, None
    was_done = current is not None and current["reason"] == "NewReplicaSetAvailable"
    if was_done and counts["replicas"] == counts["updatedReplicas"]:
        return current, None  # pods come and go, but no rollout is under way
    is_moving = any(counts[name] != before.get(name, 0) for name in counts)
    was_paused = current is not None and current["reason"] == "DeploymentPaused"
    if is_moving or was_done or was_paused or current is None:
        message = f"{what} is progressing."
        moved = {**made, "reason": "ReplicaSetUpdated", "message": message}
        return moved, deployment["spec"]["progressDeadlineSeconds"]
    if current["reason"] == "ProgressDeadlineExceeded":
        return current, None
    since = time - parse_rfc3339(current["lastUpdateTime"])
    left = deployment["spec"]["progressDeadlineSeconds"] - since
    if left > 0:
        return current, left
    message = f"{what} has timed out progressing."
    late = {"reason": "ProgressDeadlineExceeded", "status": "False", "message": message}
    return {**made, **late}, None


def _failure(sets: list[Record]) -> Json | None:
    for each in sets:
        for condition in each.object["status"].get("conditions") or ():
            if condition["type"] == "ReplicaFailure":
                return {name: condition[name] for name in ("type", "status", "reason", "message")}
    return None


def _merged(before: list[Json], after: list[Json], now: str) -> list[Json]:
    """The new conditions with the times of the old ones where nothing has changed."""
    known = {each["type"]: each for each in before}
    merged = []
    for condition in after:
        old = known.get(condition["type"])
        if old is not None and all(
            old.get(name) == condition[name] for name in ("status", "reason", "message")
        ):
            if condition.get("reason") == "ReplicaSetUpdated":
                old = {**old, "lastUpdateTime": condition["lastUpdateTime"]}
            merged.append(old)
            continue
        moved = now
        if old is not None and old["status"] == condition["status"]:
            moved = old["lastTransitionTime"]
        merged.append({"lastUpdateTime": now, "lastTransitionTime": moved, **condition})
    return merged
