"""StatefulSets: pods with ordinals, created, replaced and removed in order.

There are no ControllerRevisions: a pod that is missing is created from today's template, also
below the partition of a rolling update.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from stowplan.apiserver.pod_actions import is_ready
from stowplan.apiserver.workload_controllers.deployments import template_hash
from stowplan.apiserver.workload_controllers.objects import ClusterObjects, without_zeros
from stowplan.apiserver.workload_controllers.pod_facts import (
    available_in,
    is_active,
    is_finished,
    is_terminating,
    phase,
    pod_of,
)
from stowplan.apiserver.workload_controllers.replica_sets import BURST
from stowplan.errors import ApiError

REVISION_LABEL = "controller-revision-hash"
_ORDINAL = re.compile(r"(.*)-(0|[1-9][0-9]*)")


class StatefulSets:
    """Reconciles one StatefulSet at a time."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def reconcile(self, stateful_set: Record, again_in: Callable[[float], None]) -> None:
        """Take the next steps and report the status. ApiError if a pod cannot be created."""
        refusal: ApiError | None = None
        try:
            self._step(stateful_set, again_in)
        except ApiError as error:
            obj = stateful_set.object
            message = f"create Pod in StatefulSet {obj['metadata']['name']} failed: {error.message}"
            self._objects.event(obj, "Warning", "FailedCreate", message)
            refusal = error
        self._report(stateful_set)
        if refusal is not None:
            raise refusal

    def _step(self, stateful_set: Record, again_in: Callable[[float], None]) -> None:
        obj = stateful_set.object
        spec = obj["spec"]
        in_order = spec["podManagementPolicy"] == "OrderedReady"
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec["replicas"])
        pods = self._by_ordinal(stateful_set)
        created = 0
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                self._create(obj, ordinal)
                created += 1
            elif is_finished(pod.object):
                self._objects.delete(PODS, pod)
            elif not is_terminating(pod.object) and self._is_available(obj, pod, again_in):
                continue
            if in_order:
                return
            if created == BURST:
                again_in(0.0)
                return
        surplus = sorted(set(pods) - set(wanted), reverse=True)
        for ordinal in surplus:
            self._objects.delete(PODS, pods[ordinal])
            if in_order:
                return
        if not surplus and not created:
            self._replace_outdated(obj, pods, wanted, again_in)

    def _replace_outdated(
        self,
        obj: Json,
        pods: dict[int, Record],
        wanted: range,
        again_in: Callable[[float], None],
    ) -> None:
        """Delete the last outdated pod, once all after it are available again."""
        strategy = obj["spec"]["updateStrategy"]
        if strategy["type"] != "RollingUpdate":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        revision = _revision(obj)
        for ordinal in reversed(wanted):
            if ordinal < partition:
                return
            pod = pods[ordinal]
            if is_terminating(pod.object):
                return
            if _revision_of(pod.object) != revision:
                self._objects.delete(PODS, pod)
                return
            if not self._is_available(obj, pod, again_in):
                return

    def _by_ordinal(self, stateful_set: Record) -> dict[int, Record]:
        name = stateful_set.key[1]
        found = {}
        for pod in self._objects.claimed(STATEFUL_SETS, stateful_set):
            match = _ORDINAL.fullmatch(pod.key[1])
            if match is not None and match[1] == name:
                found[int(match[2])] = pod
        return found

    def _is_available(self, obj: Json, pod: Record, again_in: Callable[[float], None]) -> bool:
        if phase(pod.object) != "Running":
            return False
        wait_s = available_in(
            pod.object, obj["spec"].get("minReadySeconds", 0), self._objects.time()
        )
        if wait_s:
            again_in(wait_s)
        return wait_s == 0.0

    # One pod and its claims

    def _create(self, obj: Json, ordinal: int) -> None:
        namespace = obj["metadata"]["namespace"]
        name = f"{obj['metadata']['name']}-{ordinal}"
        claims = {}
        for template in obj["spec"].get("volumeClaimTemplates") or ():
            volume = template["metadata"].get("name", "")
            claims[volume] = f"{volume}-{name}"
            self._create_claim(obj, template, claims[volume])
        pod = pod_of(obj["spec"]["template"], obj)
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["name"] = name
        metadata["labels"] |= {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION_LABEL: _revision(obj),
        }
        spec["hostname"] = name
        if obj["spec"].get("serviceName"):
            spec["subdomain"] = obj["spec"]["serviceName"]
        volumes = [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in claims.items()
        ]
        kept = [each for each in spec.get("volumes") or () if each["name"] not in claims]
        if volumes or kept:
            spec["volumes"] = [*volumes, *kept]
        self._objects.create(PODS, namespace, pod)

    def _create_claim(self, obj: Json, template: Json, name: str) -> None:
        namespace = obj["metadata"]["namespace"]
        if self._objects.get(PERSISTENT_VOLUME_CLAIMS, (namespace, name)) is not None:
            return
        metadata = template["metadata"]
        selected = obj["spec"]["selector"].get("matchLabels") or {}
        claim = {
            "metadata": {
                "name": name,
                "labels": {**(metadata.get("labels") or {}), **selected},
                "annotations": metadata.get("annotations"),
            },
            "spec": template["spec"],
        }
        self._objects.create(PERSISTENT_VOLUME_CLAIMS, namespace, claim)

    # The status

    def _report(self, stateful_set: Record) -> None:
        obj = stateful_set.object
        before, now = obj["status"], self._objects.time()
        pods = list(self._by_ordinal(stateful_set).values())
        ready = [pod for pod in pods if phase(pod.object) == "Running" and is_ready(pod.object)]
        min_ready_s = obj["spec"].get("minReadySeconds", 0)
        available = sum(available_in(pod.object, min_ready_s, now) == 0.0 for pod in ready)
        living = [_revision_of(pod.object) for pod in pods if is_active(pod.object)]
        update = _revision(obj)
        current = before.get("currentRevision") or update
        if len(living) == living.count(update) == obj["spec"]["replicas"] == len(ready):
            current = update
        status = {
            "observedGeneration": obj["metadata"]["generation"],
            "readyReplicas": len(ready),
            "currentReplicas": living.count(current),
            "updatedReplicas": living.count(update),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": 0,
        }
        counts = {"replicas": len(pods), "availableReplicas": available}
        self._objects.set_status(STATEFUL_SETS, stateful_set, {**counts, **without_zeros(status)})


def _revision(stateful_set: Json) -> str:
    name = stateful_set["metadata"]["name"]
    return f"{name}-{template_hash(stateful_set['spec']['template'])}"


def _revision_of(pod: Json) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))
