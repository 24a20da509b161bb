"""Pretend kubelets, and the little of the node controller that scheduling depends on.

One task watches pods, nodes and claims in the store and moves them along: a bound pod becomes
Running once its resource claims are allocated and reserved for it, a finished one Succeeded or
Failed, a deleted one goes away; a new node becomes Ready and its taints follow its conditions.
Nothing here talks HTTP. Steps that come too late (the object has changed or is gone) do nothing,
because that change caused its own event.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Record, Subscription
from stowplan.apiserver.kinds import NODES, PODS, RESOURCE_CLAIMS
from stowplan.apiserver.node_lifecycle import registered, tainted
from stowplan.apiserver.pod_claims import claim_names, consumer_of
from stowplan.apiserver.pod_status import ended_status, running_status
from stowplan.apiserver.store import Store
from stowplan.clock import rfc3339
from stowplan.loader.numbers import whole_number
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

RUN_SECONDS = "stowplan.io/run-seconds"
EXIT_CODE = "stowplan.io/exit-code"


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """Delays in seconds. With `enabled` off the server behaves like a bare kube-apiserver.

    `run_s` is how long pods run that are not restarted for ever, `job_run_s` those of Jobs; None:
    until they are deleted. A pod's annotation stowplan.io/run-seconds says it for that pod,
    whatever its restart policy; a pod with the annotation stowplan.io/exit-code ends with that.
    """

    enabled: bool = True
    start_delay_s: float = 0.5
    stop_delay_s: float = 0.5
    node_delay_s: float = 0.0
    run_s: float | None = None
    job_run_s: float | None = None


class Kubelet:
    """All kubelets of the cluster in one task."""

    def __init__(self, store: Store, deleter: Deleter, options: KubeletOptions) -> None:
        self._store = store
        self._deleter = deleter
        self._options = options
        #: When, in which order, what, and whether it is a pod's own end, which may be far away.
        self._due: list[tuple[float, int, Callable[[], None], bool]] = []
        self._ends = 0
        self._inbox: Subscription | None = None
        self._order = itertools.count()
        self._ips = itertools.count(2)
        self._homeless: dict[str, list[tuple[tuple[str, str], str]]] = {}
        #: Bound pods whose claims are not allocated and reserved for them yet, with their UIDs.
        self._without_devices: dict[tuple[str, str], str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        subscription = self._inbox = self._store.subscribe(NODES, PODS, RESOURCE_CLAIMS)
        try:
            for kind in (NODES, PODS):
                for record in self._store.records(kind):
                    self._see(Change("ADDED", record, None))
            while True:
                await subscription.wait(self._pause())
                for change in subscription.take():
                    self._see(change)
                self._do_what_is_due()
        except Exception:
            log.exception("The simulated kubelet failed: pods stay as they are")
            raise
        finally:
            subscription.close()

    def _pause(self) -> float | None:
        if not self._due:
            return None
        return max(0.0, self._due[0][0] - self._store.clock.monotonic())

    @property
    def has_work(self) -> bool:
        """A pod is to be started or removed, or a node to be made ready. Running is no work."""
        return len(self._due) > self._ends or (self._inbox is not None and self._inbox.has_news)

    def _later(self, delay_s: float, action: Callable[[], None], *, is_end: bool = False) -> None:
        when = self._store.clock.monotonic() + delay_s
        self._ends += is_end
        heapq.heappush(self._due, (when, next(self._order), action, is_end))

    def _do_what_is_due(self) -> None:
        now = self._store.clock.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, action, is_end = heapq.heappop(self._due)
            self._ends -= is_end
            action()

    def _see(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        kind = change.record.object["kind"]
        if kind == NODES.kind:
            self._see_node(change)
        elif kind == PODS.kind:
            self._see_pod(change)
        else:
            self._see_claim(change.record)

    def _now(self) -> str:
        return rfc3339(self._store.clock.time())

    # Pods

    def _see_pod(self, change: Change) -> None:
        pod, old = change.record.object, change.previous.object if change.previous else None
        if not pod["spec"].get("nodeName"):
            return
        key, uid = change.record.key, pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if old is None or "deletionTimestamp" not in old["metadata"]:
                self._later(self._options.stop_delay_s, lambda: self._remove(key, uid))
        elif old is None or not old["spec"].get("nodeName"):
            self._later(self._options.start_delay_s, lambda: self._start(key, uid))
        elif self._without_devices.get(key) == uid:
            self._start(key, uid)

    def _see_claim(self, record: Record) -> None:
        for consumer in record.object["status"].get("reservedFor") or ():
            key = record.key[0], consumer["name"]
            uid = self._without_devices.get(key)
            if uid is not None:
                self._start(key, uid)

    def _has_devices(self, pod: Json) -> bool:
        """Every claim of the pod is allocated and reserved for it."""
        claims = pod["spec"].get("resourceClaims") or ()
        names = claim_names(pod)
        if not claims and not names:
            return True
        if any(claim["name"] not in names for claim in claims):
            return False
        namespace, consumer = pod["metadata"]["namespace"], consumer_of(pod)
        for name in names.values():
            record = self._store.get(RESOURCE_CLAIMS, namespace, name)
            if record is None or "allocation" not in record.object["status"]:
                return False
            if consumer not in (record.object["status"].get("reservedFor") or ()):
                return False
        return True

    def _current(self, key: tuple[str, str], uid: str) -> Record | None:
        """The pod, if it is still that one and not on its way out."""
        record = self._store.get(PODS, *key)
        if record is None:
            return None
        metadata = record.object["metadata"]
        if metadata["uid"] != uid or "deletionTimestamp" in metadata:
            return None
        return record

    def _start(self, key: tuple[str, str], uid: str) -> None:
        self._without_devices.pop(key, None)
        record = self._current(key, uid)
        if record is None or record.object["status"].get("phase") != "Pending":
            return
        pod = record.object
        node = pod["spec"]["nodeName"]
        if self._store.get(NODES, "", node) is None:
            self._homeless.setdefault(node, []).append((key, uid))
            return
        if not self._has_devices(pod):
            self._without_devices[key] = uid
            return
        status = running_status(pod, self._now(), _address(next(self._ips)))
        self._store.update(PODS, {**pod, "status": status}, record)
        run_s = self._run_seconds(pod)
        if run_s is not None:
            self._later(run_s, lambda: self._finish(key, uid), is_end=True)

    def _finish(self, key: tuple[str, str], uid: str) -> None:
        record = self._current(key, uid)
        if record is not None and record.object["status"].get("phase") == "Running":
            marks = record.object["metadata"].get("annotations") or {}
            code = whole_number(marks.get(EXIT_CODE, "0"))
            status = ended_status(record.object, self._now(), 1 if code is None else code)
            self._store.update(PODS, {**record.object, "status": status}, record)

    def _remove(self, key: tuple[str, str], uid: str) -> None:
        record = self._store.get(PODS, *key)
        if record is not None and record.object["metadata"]["uid"] == uid:
            self._deleter.delete(PODS, record, {"gracePeriodSeconds": 0})

    def _run_seconds(self, pod: Json) -> float | None:
        text = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS, "")
        if not text:
            if self._options.job_run_s is not None and _is_of_job(pod):
                return self._options.job_run_s
            return self._options.run_s if pod["spec"]["restartPolicy"] != "Always" else None
        try:
            return max(0.0, float(text))
        except ValueError:
            log.warning(
                "Annotation is not a number of seconds",
                extra=kv(annotation=RUN_SECONDS, value=text, pod=pod["metadata"]["name"]),
            )
            return None

    # Nodes

    def _see_node(self, change: Change) -> None:
        name, uid = change.record.key[1], change.record.object["metadata"]["uid"]
        if change.previous is None:
            self._later(self._options.node_delay_s, lambda: self._register(name, uid))
        else:
            self._taint(change.record)

    def _register(self, name: str, uid: str) -> None:
        record = self._store.get(NODES, "", name)
        if record is None or record.object["metadata"]["uid"] != uid:
            return
        node = registered(record.object, self._now())
        if node is not None:
            record = self._store.update(NODES, node, record)
        self._taint(record)
        for key, pod_uid in self._homeless.pop(name, ()):
            self._start(key, pod_uid)

    def _taint(self, record: Record) -> None:
        if self._store.get(NODES, *record.key) is not record:
            return
        node = tainted(record.object)
        if node is not None:
            self._store.update(NODES, node, record)


def _is_of_job(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "Job" for owner in owners)


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
