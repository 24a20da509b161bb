"""Pretend kubelets, and the little of the node controller that scheduling depends on.

One task watches pods, nodes and claims in the store and sets timers to move them along: a bound
pod becomes Running once its resource claims are allocated and reserved for it, a finished one
Succeeded or Failed, a deleted one goes away; a new node becomes Ready and its taints follow its
conditions. Nothing here talks HTTP. Steps that come too late (the object has changed or is gone)
do nothing, because that change caused its own event.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVarTuple

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Record, Subscription
from stowplan.apiserver.kinds import NODES, PODS, RESOURCE_CLAIMS
from stowplan.apiserver.node_lifecycle import registered, tainted
from stowplan.apiserver.pod_claims import claim_names, consumer_of, has_claims
from stowplan.apiserver.pod_status import ended_status, running_status
from stowplan.apiserver.store import Store
from stowplan.clock import rfc3339
from stowplan.loader.numbers import whole_number
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_Ts = TypeVarTuple("_Ts")

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
        #: Steps that will be done soon. A pod's own end, which may be far away, is none.
        self._soon = 0
        #: Set while it runs.
        self._inbox: Subscription | None = None
        self._ips = itertools.count(2)
        self._homeless: dict[str, list[tuple[tuple[str, str], str]]] = {}
        #: Bound pods whose claims are not allocated and reserved for them yet, with their UIDs.
        self._without_devices: dict[tuple[str, str], str] = {}

    async def run(self) -> None:
        """Until cancelled."""
        subscription = self._inbox = self._store.subscribe(
            NODES, PODS, RESOURCE_CLAIMS, wants=self._wants
        )
        try:
            for kind in (NODES, PODS):
                for record in self._store.records(kind):
                    change = Change("ADDED", record, None)
                    if self._wants(change):
                        self._see(change)
            await subscription.follow(self._look)
        except Exception:
            log.exception("The simulated kubelet failed: pods stay as they are")
            raise
        finally:
            subscription.close()
            self._inbox = None

    def _look(self) -> None:
        assert self._inbox is not None
        for change in self._inbox.take():
            self._see(change)

    @property
    def has_work(self) -> bool:
        """A pod is to be started or removed, or a node to be made ready. Running is no work."""
        return self._inbox is not None and (self._soon > 0 or self._inbox.has_news)

    def _later(
        self, delay_s: float, step: Callable[[*_Ts], None], *about: *_Ts, is_end: bool = False
    ) -> None:
        self._soon += not is_end
        if delay_s > 0:
            asyncio.get_running_loop().call_later(delay_s, self._do, step, about, is_end)
        else:
            # At once, so that the watches show a new node's taint and its end together.
            self._do(step, about, is_end)

    def _do(self, step: Callable[[*_Ts], None], about: tuple[*_Ts], is_end: bool) -> None:
        self._soon -= not is_end
        if self._inbox is None:
            return
        try:
            step(*about)
        except Exception:
            log.exception("A step of the simulated kubelet failed", extra=kv(about=about))

    def _wants(self, change: Change) -> bool:
        """Nodes, claims, and pods that a kubelet must start or stop now."""
        if change.type == "DELETED":
            return False
        pod = change.record.object
        if pod["kind"] != PODS.kind:
            return True
        if not pod["spec"].get("nodeName"):
            return False
        old = change.previous.object if change.previous else None
        if old is None or "deletionTimestamp" in pod["metadata"]:
            return old is None or "deletionTimestamp" not in old["metadata"]
        if not old["spec"].get("nodeName"):
            return True
        return bool(self._without_devices.get(change.record.key) == pod["metadata"]["uid"])

    def _see(self, change: Change) -> None:
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
        key, metadata = change.record.key, change.record.object["metadata"]
        uid = metadata["uid"]
        if "deletionTimestamp" in metadata:
            self._later(self._options.stop_delay_s, self._remove, key, uid)
        elif self._without_devices.get(key) == uid:
            self._start(key, uid)
        else:
            self._later(self._options.start_delay_s, self._start, key, uid)

    def _see_claim(self, record: Record) -> None:
        for consumer in record.object["status"].get("reservedFor") or ():
            key = record.key[0], consumer["name"]
            uid = self._without_devices.get(key)
            if uid is not None:
                self._start(key, uid)

    def _has_devices(self, pod: Json) -> bool:
        """Every claim of the pod is allocated and reserved for it."""
        if not has_claims(pod):
            return True
        names = claim_names(pod)
        if any(claim["name"] not in names for claim in pod["spec"].get("resourceClaims") or ()):
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
            self._later(run_s, self._finish, key, uid, is_end=True)

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
            self._later(self._options.node_delay_s, self._register, name, uid)
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
