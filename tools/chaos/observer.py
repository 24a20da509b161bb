"""What becomes of pods, as a watch of its own sees it: when each was bound, and when it went.

Runs in a thread beside the schedulers. Read by the load (what can be deleted), by the game
(recovery times) and by the verdict. Times are this process's monotonic clock.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from tools.chaos.api import Api, Away

_PODS = "/api/v1/pods"
#: Bookmarks come every minute; the stream ends before a silent one could be believed.
_STREAM_S = 30


@dataclass
class Seen:
    """One pod, by its UID."""

    uid: str
    namespace: str
    name: str
    milli: int
    node: str = ""
    bound_at: float = 0.0
    is_terminating: bool = False
    gone_at: float = 0.0

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


class Observer(threading.Thread):
    """Lists and watches pods until `stop`."""

    def __init__(self, api: Api) -> None:
        super().__init__(name="observer", daemon=True)
        self._api = api
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        #: All pods ever seen.
        self.pods: dict[str, Seen] = {}
        self._present: dict[str, Seen] = {}
        #: Times of binds, in order.
        self.binds: list[float] = []

    def present(self) -> list[Seen]:
        with self._lock:
            return list(self._present.values())

    def requested_milli(self) -> int:
        return sum(pod.milli for pod in self.present())

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except Away:
                time.sleep(0.1)

    def _follow(self) -> None:
        status, answer = self._api.ask("GET", _PODS)
        if status != 200:
            time.sleep(0.2)
            return
        listed = {pod["metadata"]["uid"]: pod for pod in answer["items"]}
        for uid in {*self._present} - {*listed}:
            self._remove(uid)
        for pod in listed.values():
            self._note(pod)
        version = answer["metadata"]["resourceVersion"]
        query = f"watch=1&timeoutSeconds={_STREAM_S}&resourceVersion={version}"
        for event in self._api.watch(f"{_PODS}?{query}"):
            if event["type"] == "ERROR" or "type" not in event:
                return
            if event["type"] == "DELETED":
                self._remove(event["object"]["metadata"]["uid"])
            else:
                self._note(event["object"])
            if self._stopping.is_set():
                return

    def _note(self, pod: dict[str, Any]) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        seen = self._present.get(meta["uid"])
        if seen is None:
            cpu = spec["containers"][0]["resources"]["requests"]["cpu"]
            seen = Seen(meta["uid"], meta["namespace"], meta["name"], int(cpu.removesuffix("m")))
            with self._lock:
                self._present[seen.uid] = self.pods[seen.uid] = seen
        seen.is_terminating = "deletionTimestamp" in meta
        if spec.get("nodeName") and not seen.node:
            seen.node, seen.bound_at = spec["nodeName"], time.monotonic()
            self.binds.append(seen.bound_at)

    def _remove(self, uid: str) -> None:
        with self._lock:
            seen = self._present.pop(uid, None)
        if seen is not None:
            seen.gone_at = time.monotonic()
