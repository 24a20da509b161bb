"""ReplicaSets: keep as many pods as `replicas` says."""

from __future__ import annotations

from collections.abc import Callable

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import PODS, REPLICA_SETS
from stowplan.apiserver.pod_actions import is_ready
from stowplan.apiserver.workload_controllers.objects import ClusterObjects, without_zeros
from stowplan.apiserver.workload_controllers.owner_index import controller_of
from stowplan.apiserver.workload_controllers.pod_facts import (
    count_available,
    is_active,
    is_terminating,
    pod_of,
    to_delete_first,
)
from stowplan.errors import ApiError

#: Pods created or deleted in one reconciliation, so that requests are served in between.
BURST = 100


class ReplicaSets:
    """Reconciles one ReplicaSet at a time."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def reconcile(self, replica_set: Record, again_in: Callable[[float], None]) -> None:
        """Create or delete pods, then report the status. ApiError if pods cannot be created."""
        pods = self._objects.claimed(REPLICA_SETS, replica_set)
        active = [pod for pod in pods if is_active(pod.object)]
        wanted = replica_set.object["spec"]["replicas"]
        refusal: ApiError | None = None
        if len(active) < wanted:
            refusal = self._create(replica_set.object, min(wanted - len(active), BURST), active)
        elif len(active) > wanted:
            surplus = min(len(active) - wanted, BURST)
            for pod in to_delete_first(active, self._related(replica_set.object, active))[:surplus]:
                self._objects.delete(PODS, pod)
                active.remove(pod)
        if len(active) != wanted and refusal is None:
            again_in(0.0)
        pods = self._objects.controlled(PODS, replica_set.object)
        self._report(replica_set, pods, refusal, again_in)
        if refusal is not None:
            raise refusal

    def _create(self, replica_set: Json, count: int, active: list[Record]) -> ApiError | None:
        namespace = replica_set["metadata"]["namespace"]
        pod = pod_of(replica_set["spec"]["template"], replica_set)
        try:
            active += (self._objects.create(PODS, namespace, pod) for _ in range(count))
        except ApiError as error:
            message = f"Error creating: {error.message}"
            self._objects.event(replica_set, "Warning", "FailedCreate", message)
            return error
        return None

    def _related(self, replica_set: Json, active: list[Record]) -> list[Record]:
        owner = controller_of(replica_set)
        deployment = None if owner is None else self._objects.owner(replica_set, owner)
        if deployment is None:
            return active
        return [
            pod
            for each in self._objects.controlled(REPLICA_SETS, deployment.object)
            for pod in self._objects.controlled(PODS, each.object)
            if is_active(pod.object)
        ]

    def _report(
        self,
        replica_set: Record,
        pods: list[Record],
        refusal: ApiError | None,
        again_in: Callable[[float], None],
    ) -> None:
        obj = replica_set.object
        active = [pod for pod in pods if is_active(pod.object)]
        labels = obj["spec"]["template"]["metadata"].get("labels") or {}
        available, next_s = count_available(
            active, obj["spec"].get("minReadySeconds", 0), self._objects.time()
        )
        if next_s is not None:
            again_in(next_s)
        status = {
            "fullyLabeledReplicas": sum(
                labels.items() <= (pod.object["metadata"].get("labels") or {}).items()
                for pod in active
            ),
            "readyReplicas": sum(is_ready(pod.object) for pod in active),
            "availableReplicas": available,
            "terminatingReplicas": sum(is_terminating(pod.object) for pod in pods),
            "observedGeneration": obj["metadata"]["generation"],
            "conditions": self._conditions(obj, refusal),
        }
        self._objects.set_status(
            REPLICA_SETS, replica_set, {"replicas": len(active), **without_zeros(status)}
        )

    def _conditions(self, obj: Json, refusal: ApiError | None) -> list[Json]:
        before = obj["status"].get("conditions") or []
        others = [each for each in before if each["type"] != "ReplicaFailure"]
        if refusal is None:
            return others
        moved = next(
            (each["lastTransitionTime"] for each in before if each["type"] == "ReplicaFailure"),
            self._objects.now(),
        )
        failure = {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": moved,
            "reason": "FailedCreate",
            "message": refusal.message,
        }
        return [*others, failure]
