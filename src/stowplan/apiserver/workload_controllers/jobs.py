"""Jobs: pods until enough of them have succeeded, or too many have failed.

Each pod carries a finalizer until its end is counted in the status, so no end is lost or counted
twice, even if a user deletes the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat

from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import JOBS, PODS
from stowplan.apiserver.pod_actions import is_ready
from stowplan.apiserver.workload_controllers.job_indexes import format_indexes, parse_indexes
from stowplan.apiserver.workload_controllers.objects import ClusterObjects, without_zeros
from stowplan.apiserver.workload_controllers.owner_index import controller_of
from stowplan.apiserver.workload_controllers.pod_facts import (
    is_active,
    is_terminating,
    phase,
    pod_of,
    to_delete_first,
)
from stowplan.apiserver.workload_controllers.replica_sets import BURST
from stowplan.errors import ApiError
from stowplan.loader.numbers import whole_number

TRACKED = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_OURS = "kubernetes.io/job-controller"
_LONGEST_BACKOFF_S = 600.0
_REASONS = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "DeadlineExceeded": "Job was active longer than specified deadline",
    "CompletionsReached": "Reached expected number of succeeded pods",
    "JobSuspended": "Job suspended",
    "JobResumed": "Job resumed",
}


class Jobs:
    """Reconciles one Job at a time."""

    def __init__(self, objects: ClusterObjects, backoff_s: float) -> None:
        self._objects = objects
        self._backoff_s = backoff_s
        #: Failures in a row by UID, and when the last was counted.
        self._failures: dict[str, tuple[int, float]] = {}

    def forget(self, uid: str) -> None:
        self._failures.pop(uid, None)

    def reconcile(self, job: Record, again_in: Callable[[float], None]) -> None:
        """Count ended pods, create or delete others, report. ApiError if creating fails."""
        spec, status = job.object["spec"], dict(job.object["status"])
        if spec.get("managedBy") not in (None, "", _OURS):
            return
        if _is_done(status):
            self._expire(job, again_in)
            return
        pods = self._objects.claimed(JOBS, job)
        if not spec.get("suspend"):
            status.setdefault("startTime", self._objects.now())
        self._count_ended(job.object, status, pods)
        active = [pod for pod in pods if is_active(pod.object)]
        refusal: ApiError | None = None
        if failure := self._failure(spec, status, again_in):
            status["failed"] = status.get("failed", 0) + len(active)
            active = self._end(active, status, "FailureTarget", "Failed", failure)
        else:
            try:
                self._manage(job.object, status, active, again_in)
            except ApiError as error:
                message = f"Error creating: {error.message}"
                self._objects.event(job.object, "Warning", "FailedCreate", message)
                refusal = error
            if self._is_complete(spec, status, active):
                reason = "CompletionsReached"
                active = self._end(active, status, "SuccessCriteriaMet", "Complete", reason)
                status["completionTime"] = self._objects.now()
        self._report(job, status, active)
        if refusal is not None:
            raise refusal

    # Ends of pods

    def _count_ended(self, job: Json, status: Json, pods: list[Record]) -> None:
        done = parse_indexes(status.get("completedIndexes", ""), job["spec"].get("completions", 0))
        waits = job["spec"].get("podReplacementPolicy") == "Failed"
        for pod in pods:
            obj = pod.object
            if TRACKED not in (obj["metadata"].get("finalizers") or ()):
                continue
            if phase(obj) == "Succeeded":
                if _is_indexed(job):
                    done.add(_index_of(obj))
                else:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                self.forget(job["metadata"]["uid"])
            elif phase(obj) == "Failed" or (is_terminating(obj) and not waits):
                status["failed"] = status.get("failed", 0) + 1
                count, _ = self._failures.get(job["metadata"]["uid"], (0, 0.0))
                self._failures[job["metadata"]["uid"]] = count + 1, self._objects.time()
            else:
                continue
            self._untrack(pod)
        if _is_indexed(job):
            done.discard(-1)
            status["completedIndexes"] = format_indexes(done)
            status["succeeded"] = len(done)

    def _untrack(self, pod: Record) -> Record:
        finalizers = pod.object["metadata"].get("finalizers") or ()
        left = [each for each in finalizers if each != TRACKED]
        return self._objects.set_metadata(PODS, pod, finalizers=left)

    def release(self, pod: Record) -> None:
        """Let go of a pod that no living Job will count."""
        if TRACKED not in (pod.object["metadata"].get("finalizers") or ()):
            return
        owner = controller_of(pod.object)
        job = None if owner is None else self._objects.owner(pod.object, owner)
        if job is None or _is_done(job.object.get("status") or {}) or is_terminating(job.object):
            self._untrack(pod)

    # The next pods

    def _manage(
        self, job: Json, status: Json, active: list[Record], again_in: Callable[[float], None]
    ) -> None:
        """Create or delete pods; `active` follows."""
        spec = job["spec"]
        self._note_suspension(spec, status)
        wanted = 0 if spec.get("suspend") else spec["parallelism"]
        if spec.get("completions") is not None:
            wanted = min(wanted, max(0, spec["completions"] - status.get("succeeded", 0)))
        elif status.get("succeeded"):
            wanted = min(wanted, len(active))  # one success is enough; the rest may end
        for pod in to_delete_first(active, active)[: max(0, len(active) - wanted)]:
            self._delete_uncounted(pod)
            active.remove(pod)
        missing = wanted - len(active)
        if missing <= 0:
            return
        wait_s = self._backoff(job["metadata"]["uid"])
        if wait_s > 0:
            again_in(wait_s)
            return
        free: Iterable[int | None] = repeat(None)
        if _is_indexed(job):
            free = self._free_indexes(job, status, active)
        active += (self._create(job, index) for index in islice(free, min(missing, BURST)))
        if missing > BURST:
            again_in(0.0)

    def _note_suspension(self, spec: Json, status: Json) -> None:
        is_suspended = any(
            each["type"] == "Suspended" and each["status"] == "True"
            for each in status.get("conditions") or ()
        )
        if bool(spec.get("suspend")) == is_suspended:
            return
        if spec.get("suspend"):
            status.pop("startTime", None)
            self._set_condition(status, "Suspended", "True", "JobSuspended")
        else:
            status["startTime"] = self._objects.now()
            self._set_condition(status, "Suspended", "False", "JobResumed")

    def _backoff(self, uid: str) -> float:
        """Seconds until the next pod after failures: 10 s, doubled with each one in a row."""
        count, last = self._failures.get(uid, (0, 0.0))
        if not count:
            return 0.0
        pause: float = min(self._backoff_s * 2 ** min(count - 1, 20), _LONGEST_BACKOFF_S)
        return last + pause - self._objects.time()

    def _free_indexes(self, job: Json, status: Json, active: list[Record]) -> Iterator[int]:
        completions = job["spec"]["completions"]
        taken = parse_indexes(status.get("completedIndexes", ""), completions)
        taken |= {_index_of(pod.object) for pod in active}
        return (index for index in range(completions) if index not in taken)

    def _create(self, job: Json, index: int | None) -> Record:
        pod = pod_of(job["spec"]["template"], job)
        metadata, spec = pod["metadata"], pod["spec"]
        metadata["finalizers"] = [TRACKED]
        if index is not None:
            name = job["metadata"]["name"]
            metadata["generateName"] = f"{name}-{index}-"
            metadata["annotations"][INDEX] = metadata["labels"][INDEX] = str(index)
            spec["hostname"] = f"{name}-{index}"
            field = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": field}
            for kind in ("initContainers", "containers"):
                if spec.get(kind):
                    spec[kind] = [
                        {**each, "env": [*(each.get("env") or ()), variable]} for each in spec[kind]
                    ]
        return self._objects.create(PODS, job["metadata"]["namespace"], pod)

    def _delete_uncounted(self, pod: Record) -> None:
        self._objects.delete(PODS, self._untrack(pod))

    # The end

    def _failure(self, spec: Json, status: Json, again_in: Callable[[float], None]) -> str:
        if status.get("failed", 0) > spec["backoffLimit"]:
            return "BackoffLimitExceeded"
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is None or "startTime" not in status or spec.get("suspend"):
            return ""
        left = deadline - self._objects.seconds_since(status["startTime"])
        if left > 0:
            again_in(left)
        return "" if left > 0 else "DeadlineExceeded"

    @staticmethod
    def _is_complete(spec: Json, status: Json, active: list[Record]) -> bool:
        succeeded: int = status.get("succeeded", 0)
        if spec.get("completions") is None:
            return succeeded > 0 and not active
        return bool(succeeded >= spec["completions"]) and not spec.get("suspend")

    def _end(
        self, active: list[Record], status: Json, first: str, last: str, reason: str
    ) -> list[Record]:
        for pod in active:
            self._delete_uncounted(pod)
        for name in (first, last):
            self._set_condition(status, name, "True", reason)
        return []

    def _set_condition(self, status: Json, name: str, value: str, reason: str) -> None:
        now = self._objects.now()
        others = [each for each in status.get("conditions") or () if each["type"] != name]
        made = {
            "type": name,
            "status": value,
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": _REASONS[reason],
        }
        status["conditions"] = [*others, made]

    def _expire(self, job: Record, again_in: Callable[[float], None]) -> None:
        """Delete a finished Job after ttlSecondsAfterFinished."""
        self.forget(job.object["metadata"]["uid"])
        ttl = job.object["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        ended = next(
            each["lastTransitionTime"]
            for each in job.object["status"]["conditions"]
            if each["type"] in ("Complete", "Failed")
        )
        left = ttl - self._objects.seconds_since(ended)
        if left > 0:
            again_in(left)
        else:
            self._objects.delete(JOBS, job)

    def _report(self, job: Record, status: Json, active: list[Record]) -> None:
        pods = self._objects.controlled(PODS, job.object)
        status |= {
            "active": len(active),
            "ready": sum(is_ready(pod.object) for pod in active),
            "terminating": sum(is_terminating(pod.object) for pod in pods),
        }
        self._objects.set_status(
            JOBS, job, {**without_zeros(status), "uncountedTerminatedPods": {}}
        )


def _is_done(status: Json) -> bool:
    return any(
        each["type"] in ("Complete", "Failed") and each["status"] == "True"
        for each in status.get("conditions") or ()
    )


def _is_indexed(job: Json) -> bool:
    return bool(job["spec"]["completionMode"] == "Indexed")


def _index_of(pod: Json) -> int:
    index = whole_number((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return -1 if index is None else index
