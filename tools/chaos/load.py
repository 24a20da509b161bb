"""The load: pods that come at a steady rate while others leave, on nodes that are full.

Runs in a thread. The pods that exist ask for slightly more than all nodes have, so some always
wait, and a scheduler that believes in room that is not there overcommits a node. It is also the
kubelet: terminating pods are gone a second later.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from tools.chaos.api import Api, Away
from tools.chaos.objects import Json, PodMaker
from tools.chaos.observer import Observer, Seen

_TICK_S = 0.25
_PRESSURE = 1.02
#: Pods a second until the nodes are full for the first time.
_FILL_RATE = 200.0
#: After an outage pods of so many seconds come at once, and no more: no flood.
_CATCH_UP_S = 3.0
_GRACE_S = 1.0
_CONNECTIONS = 6


class Load(threading.Thread):
    """`rate` pods a second, until `stop`."""

    def __init__(
        self,
        connect: Callable[[], Api],
        observer: Observer,
        maker: PodMaker,
        rate: float,
        room_milli: int,
    ) -> None:
        super().__init__(name="load", daemon=True)
        self._pool = ThreadPoolExecutor(_CONNECTIONS, "load")
        self._connect = connect
        self._connections = threading.local()
        self._observer = observer
        self._maker = maker
        self._rate = rate
        self._room_milli = room_milli
        self._dice = random.Random(1)
        self._stopping = threading.Event()
        self._is_arriving = True
        self._terminating: dict[str, float] = {}
        self._owed = 0.0
        self.is_full = threading.Event()

    def end_arrivals(self) -> None:
        """Nothing new comes, and half of the room is made free; terminating pods still go."""
        self._is_arriving = False

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        then = time.monotonic()
        while not self._stopping.is_set():
            now = time.monotonic()
            rate = self._rate if self.is_full.is_set() else _FILL_RATE
            self._owed = min(self._owed + rate * (now - then), rate * _CATCH_UP_S)
            then = now
            try:
                self._tick()
            except Away:
                time.sleep(0.2)
            time.sleep(_TICK_S)

    def make_room(self, count: int) -> None:
        """More pods come than fit, and others leave: what waits is about to be bound."""
        self._create_pods([self._maker.next() for _ in range(count)])
        time.sleep(_TICK_S)
        self._delete_pods(self._leaving()[:count])

    def take_room(self, count: int) -> None:
        """Pods come that are placed before those that wait."""
        self._create_pods([self._maker.first() for _ in range(count)])

    def _tick(self) -> None:
        self._finish_terminating()
        if self._is_arriving:
            count = int(self._owed)
            self._owed -= count
            self._create_pods([self._maker.next() for _ in range(count)])
        share = _PRESSURE if self._is_arriving else 0.5
        excess = self._observer.requested_milli() - share * self._room_milli
        if excess >= 0:
            self.is_full.set()
        leaving = []
        for pod in self._leaving():
            if excess <= 0:
                break
            excess -= pod.milli
            leaving.append(pod)
        self._delete_pods(leaving)

    def _leaving(self) -> list[Seen]:
        """Bound pods in the order in which they leave."""
        found = [pod for pod in self._observer.present() if pod.node and not pod.is_terminating]
        self._dice.shuffle(found)
        return found

    def _finish_terminating(self) -> None:
        now = time.monotonic()
        terminating = {pod.uid: pod for pod in self._observer.present() if pod.is_terminating}
        self._terminating = {uid: self._terminating.get(uid, now) for uid in terminating}
        over = [uid for uid, since in self._terminating.items() if now - since >= _GRACE_S]
        self._delete_pods(terminating[uid] for uid in over)

    def _create_pods(self, made: list[Json]) -> None:
        paths = [f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods" for pod in made]
        list(self._pool.map(lambda path, pod: self._ask("POST", path, pod), paths, made))

    def _delete_pods(self, pods: Iterable[Seen]) -> None:
        paths = [f"{pod.path}?gracePeriodSeconds=0" for pod in pods]
        list(self._pool.map(lambda path: self._ask("DELETE", path), paths))

    def _ask(self, method: str, path: str, body: object = None) -> None:
        if not hasattr(self._connections, "api"):
            self._connections.api = self._connect()
        self._connections.api.ask(method, path, body)
