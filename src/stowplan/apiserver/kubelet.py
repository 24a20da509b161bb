"""Pretend kubelets, and the little of the node controller that scheduling depends on.

One task watches pods and nodes in the store and moves them along: a bound pod becomes Running,
a finished one Succeeded, a deleted one goes away; a new node becomes Ready and loses the taint
that admission gave it. Nothing here talks HTTP.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.apiserver.admission import NOT_READY
from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Change, Json, Record
from stowplan.apiserver.kinds import NODES, PODS
from stowplan.apiserver.pod_actions import with_condition
from stowplan.apiserver.store import Store
from stowplan.clock import rfc3339
from stowplan.errors import ApiError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

RUN_SECONDS = "stowplan.io/run-seconds"


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """Delays in seconds. With `enabled` off the server behaves like a bare kube-apiserver."""

    enabled: bool = True
    start_delay_s: float = 0.5
    stop_delay_s: float = 0.5
    node_delay_s: float = 0.0


class Kubelet:
    """All kubelets of the cluster in one task."""

    def __init__(self, store: Store, deleter: Deleter, options: KubeletOptions) -> None:
        self._store = store
        self._deleter = deleter
        self._options = options
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._ips = itertools.count(2)

    async def run(self) -> None:
        """Until cancelled."""
        pods, nodes = self._store.subscribe(PODS), self._store.subscribe(NODES)
        try:
            for kind, see in ((NODES, self._see_node), (PODS, self._see_pod)):
                for record in self._store.records(kind):
                    see(Change("ADDED", record, None))
            waiting = {asyncio.ensure_future(s.wait(None)): s for s in (pods, nodes)}
            try:
                while True:
                    await asyncio.wait(
                        waiting, timeout=self._pause(), return_when=asyncio.FIRST_COMPLETED
                    )
                    for future in [f for f in waiting if f.done()]:
                        subscription = waiting.pop(future)
                        for change in subscription.take():
                            (self._see_pod if subscription is pods else self._see_node)(change)
                        waiting[asyncio.ensure_future(subscription.wait(None))] = subscription
                    self._do_what_is_due()
            finally:
                for future in waiting:
                    future.cancel()
        finally:
            pods.close()
            nodes.close()

    def _pause(self) -> float | None:
        if not self._due:
            return None
        return max(0.0, self._due[0][0] - self._store.clock.monotonic())

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        when = self._store.clock.monotonic() + delay_s
        heapq.heappush(self._due, (when, next(self._order), action))

    def _do_what_is_due(self) -> None:
        now = self._store.clock.monotonic()
        while self._due and self._due[0][0] <= now:
            action = heapq.heappop(self._due)[2]
            try:
                action()
            except ApiError as error:  # the object changed under us; its next event comes soon
                log.info("Pretend kubelet gave up a step", extra=kv(err=error))

    # Pods

    def _see_pod(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        pod = change.record.object
        old = change.previous.object if change.previous else None
        if not pod["spec"].get("nodeName"):
            return
        key, uid = change.record.key, pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if old is None or "deletionTimestamp" not in old["metadata"]:
                self._later(self._options.stop_delay_s, lambda: self._remove(key, uid))
        elif (old is None or not old["spec"].get("nodeName")) and _is_pending(pod):
            self._later(self._options.start_delay_s, lambda: self._start(key, uid))

    def _current(self, key: tuple[str, str], uid: str) -> Record | None:
        record = self._store.get(PODS, *key)
        if record is None or record.object["metadata"]["uid"] != uid:
            return None
        return record

    def _start(self, key: tuple[str, str], uid: str) -> None:
        record = self._current(key, uid)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        now = rfc3339(self._store.clock.time())
        ip = _address(next(self._ips))
        status = running_status(record.object, now, ip)
        self._store.update(PODS, {**record.object, "status": status}, record)
        run_s = _run_seconds(record.object)
        if run_s is not None:
            self._later(run_s, lambda: self._finish(key, uid))

    def _finish(self, key: tuple[str, str], uid: str) -> None:
        record = self._current(key, uid)
        if record is None or "deletionTimestamp" in record.object["metadata"]:
            return
        now = rfc3339(self._store.clock.time())
        status = succeeded_status(record.object, now)
        self._store.update(PODS, {**record.object, "status": status}, record)

    def _remove(self, key: tuple[str, str], uid: str) -> None:
        record = self._current(key, uid)
        if record is None:
            return
        self._deleter.delete(PODS, record, {"gracePeriodSeconds": 0})

    # Nodes

    def _see_node(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        name, uid = change.record.key[1], change.record.object["metadata"]["uid"]
        if change.previous is None:
            self._later(self._options.node_delay_s, lambda: self._node_ready(name, uid))

    def _node_ready(self, name: str, uid: str) -> None:
        record = self._store.get(NODES, "", name)
        if record is None or record.object["metadata"]["uid"] != uid:
            return
        node = record.object
        status, spec = dict(node.get("status") or {}), dict(node.get("spec") or {})
        if not status.get("conditions"):
            now = rfc3339(self._store.clock.time())
            status["conditions"] = [
                {
                    "type": "Ready",
                    "status": "True",
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": now,
                    "reason": "KubeletReady",
                    "message": "kubelet is posting ready status",
                }
            ]
        ready = any(
            c.get("type") == "Ready" and c.get("status") == "True" for c in status["conditions"]
        )
        if ready:
            taints = [
                taint
                for taint in spec.get("taints") or ()
                if (taint.get("key"), taint.get("effect"))
                != (NOT_READY["key"], NOT_READY["effect"])
            ]
            spec.pop("taints", None)
            if taints:
                spec["taints"] = taints
        self._store.update(NODES, {**node, "spec": spec, "status": status}, record)


def _is_pending(pod: Json) -> bool:
    return bool((pod.get("status") or {}).get("phase", "Pending") == "Pending")


def running_status(pod: Json, now: str, ip: str) -> Json:
    status = dict(pod.get("status") or {})
    spec = pod["spec"]
    conditions = status.get("conditions")
    for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        conditions = with_condition(conditions, {"type": name, "status": "True"}, now)
    status |= {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": now,
        "containerStatuses": [
            {
                "name": container.get("name", ""),
                "state": {"running": {"startedAt": now}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": container.get("image", ""),
                "imageID": "",
                "containerID": f"pretend://{pod['metadata']['uid']}/{container.get('name', '')}",
                "started": True,
            }
            for container in spec.get("containers") or ()
        ],
    }
    return status


def succeeded_status(pod: Json, now: str) -> Json:
    status = dict(pod.get("status") or {})
    conditions = status.get("conditions")
    for name in ("Ready", "ContainersReady"):
        condition = {"type": name, "status": "False", "reason": "PodCompleted"}
        conditions = with_condition(conditions, condition, now)
    finished = []
    for container in status.get("containerStatuses") or ():
        started = container["state"].get("running", {}).get("startedAt", now)
        ended = {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": started,
            "finishedAt": now,
            "containerID": container["containerID"],
        }
        state = {"terminated": ended}
        finished.append({**container, "state": state, "ready": False, "started": False})
    status |= {"phase": "Succeeded", "conditions": conditions, "containerStatuses": finished}
    return status


def _run_seconds(pod: Json) -> float | None:
    text = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS, "")
    try:
        return float(text) if text else None
    except ValueError:
        log.warning(
            "Annotation is not a number of seconds",
            extra=kv(annotation=RUN_SECONDS, value=text, pod=pod["metadata"]["name"]),
        )
        return None


def _address(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
