"""Plays a plan: every step at its time, on two schedulers, an API server and an etcd.

Called by `tools.chaos`. One thread does the steps; killed servers come back in a second one, one
at a time. At the end faults stop, half of the pods leave, and whatever is left must be bound.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import ControlPlaneError, ServerProcess
from stowplan.lab.faults import ALWAYS, Fault
from tools.chaos import objects
from tools.chaos.api import MERGE, Api, Away
from tools.chaos.load import Load
from tools.chaos.observer import Observer
from tools.chaos.plan import Kind, Step
from tools.chaos.replicas import LEASE_S, Replica, Replicas
from tools.chaos.storms import BINDING, make_storm

_TURN_S = 0.05
_NAMESAKES = 8
_SMALL_FOR_S = 45.0
#: A leader is frozen so long after room was made.
_ABOUT_TO_BIND_S = 0.3
_LAST_PODS_S = 180.0
_LAST_EVENTS_S = 15.0
_CONTROLLERS = "namespace-controller,persistentvolume-binder-controller"
_START_ATTEMPTS = 3


@dataclass(frozen=True)
class Struck:
    """A fault that happened, and when; `label` is its row in the table of recoveries."""

    label: str
    at: float


@dataclass
class Outcome:
    """What the game saw."""

    struck: list[Struck] = field(default_factory=list)
    #: Steps that could not be done, such as clock jumps of kube-scheduler.
    skipped: dict[str, int] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)
    #: Trouble of the stage itself, after which the rest means little.
    problems: list[str] = field(default_factory=list)


class Game:
    """`play` runs the whole plan."""

    def __init__(
        self,
        plane: ControlPlane,
        replicas: Replicas,
        observer: Observer,
        load: Load,
        nodes: int,
        say: Callable[[str], None],
    ) -> None:
        self._plane = plane
        self._replicas = replicas
        self._observer = observer
        self._load = load
        self._nodes = nodes
        self._say = say
        self._api = Api(plane)
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._repairs = ThreadPoolExecutor(1, "repairs")
        self._under_repair: list[Future[None]] = []
        self._room = max(10, nodes // 10)
        self._remade = objects.PodMaker(99)
        self._controllers: ServerProcess | None = None
        self.outcome = Outcome()

    def play(self, plan: Sequence[Step], progress: Callable[[int], None]) -> Outcome:
        self._prepare()
        began = time.monotonic()
        for number, step in enumerate(plan):
            while time.monotonic() < began + step.at_s:
                self._turn()
                progress(number)
            self._say(f"{step.at_s:7.1f} s  {step.kind}")
            self._persist(partial(self._perform, step))
            progress(number + 1)
        self._finish()
        return self.outcome

    # -- the stage ------------------------------------------------------------------------------

    def _prepare(self) -> None:
        for path, made in objects.fixtures():
            self._api.ask("POST", path, made)
        for number in range(self._nodes):
            self._api.ask("POST", "/api/v1/nodes", objects.node(f"n{number}", number))
        self._start_controllers()
        self._replicas.revive()
        self._observer.start()
        self._load.start()
        self._wait_for("full nodes", self._load.is_full.is_set, _LAST_PODS_S)
        self._wait_for("the first bind", lambda: bool(self._observer.binds), _LAST_PODS_S)

    def _turn(self) -> None:
        """What goes on between steps."""
        self._replicas.revive()
        while self._later and self._later[0][0] <= time.monotonic():
            _, _, work = heapq.heappop(self._later)
            self._persist(work)
        for repair in [each for each in self._under_repair if each.done()]:
            self._under_repair.remove(repair)
            repair.result()
        if not self._under_repair and self._controllers and not self._controllers.running:
            self._under_repair.append(self._repairs.submit(self._start_controllers))
        if not (self._load.is_alive() and self._observer.is_alive()):
            raise RuntimeError("the load or the observer has ended")
        time.sleep(_TURN_S)

    def _persist(self, work: Callable[[], None]) -> None:
        """Do it now, or again in a second if the API server is away."""
        try:
            work()
        except Away:
            self._after(1.0, work)

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._count), work))

    def _finish(self) -> None:
        self._say("no more faults; half of the pods leave, the rest must be bound")
        for replica in self._replicas.all:
            replica.proxy.clear()
            replica.proxy.come_back()
        # What would be put right later is put right now.
        in_order = enumerate(sorted(self._later, key=lambda each: each[:2]))
        self._later = [(0.0, number, work) for number, (_, _, work) in in_order]
        self._wait_for("repairs", self._is_repaired, _LAST_PODS_S)
        if self._replicas.leader() is None and not self._replicas.has_led:
            self.outcome.problems.append("no scheduler's log says that it leads")
        self._load.end_arrivals()
        try:
            self._wait_for("the last pods", self._all_bound, _LAST_PODS_S)
        except TimeoutError:
            self.outcome.pending = [p.path for p in self._observer.present() if not p.node]
        until = time.monotonic() + _LAST_EVENTS_S
        while time.monotonic() < until:
            self._turn()
        self._load.stop()
        self._observer.stop()
        self._replicas.stop()
        self._repairs.shutdown()

    def _is_repaired(self) -> bool:
        return not self._later and not self._under_repair

    def _all_bound(self) -> bool:
        present = self._observer.present()
        return all(pod.node and not pod.is_terminating for pod in present)

    def _wait_for(self, what: str, look: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not look():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}")
            self._turn()

    # -- steps ----------------------------------------------------------------------------------

    def _perform(self, step: Step) -> None:
        match step.kind:
            case Kind.KILL:
                replica, label = self._victim(step)
                self._replicas.kill(replica)
                self._struck(f"{step.kind} ({label})")
            case Kind.FREEZE:
                self._freeze(step)
            case Kind.APISERVER:
                self._repair(step, self._kill_apiserver)
            case Kind.ETCD:
                self._repair(step, self._kill_etcd)
            case Kind.CUT:
                replica, label = self._victim(step)
                replica.proxy.go_away()
                self._struck(f"{step.kind} ({label})")
                self._after(1 + 5 * step.size, replica.proxy.come_back)
            case Kind.STORM:
                self._storm(step)
            case Kind.CLOCK:
                self._jump(step)
            case Kind.NODE_GONE:
                self._replace_node(step, 1.0)
            case Kind.NODE_SMALLER:
                self._replace_node(step, objects.SMALLER)
            case Kind.NODE_RELABELLED:
                labels = {objects.ZONE: f"zone-{step.number % (objects.ZONES + 1)}"}
                path = f"/api/v1/nodes/n{step.number % self._nodes}"
                self._api.ask("PATCH", path, {"metadata": {"labels": labels}}, MERGE)
            case Kind.NAMESAKES:
                self._make_namesakes(step)
            case Kind.NAMESPACE:
                name = objects.NAMESPACES[1 + step.number % (len(objects.NAMESPACES) - 1)]
                self._api.ask("DELETE", f"/api/v1/namespaces/{name}")
                self._after(3.0, lambda: self._create_again(name))

    def _struck(self, label: str) -> None:
        self.outcome.struck.append(Struck(label, time.monotonic()))

    def _victim(self, step: Step) -> tuple[Replica, str]:
        leader = self._replicas.leader()
        victim = self._replicas.choose(step.number)
        return victim, "leader" if victim is leader or leader is None else "standby"

    def _freeze(self, step: Step) -> None:
        replica, label = self._victim(step)
        # Every second time its bindings are refused first: on waking it would send them again.
        refused = Fault("create", resource=BINDING, times=ALWAYS * (step.number % 2), status=503)
        replica.proxy.inject(refused)
        self._load.make_room(self._room)
        time.sleep(_ABOUT_TO_BIND_S * step.size)
        self._replicas.freeze(replica)
        refused.times = 0
        self._struck(f"{step.kind} ({label})")
        # The successor fills the room that the frozen leader believes in.
        self._load.take_room(self._room)
        process = replica.process
        self._after(LEASE_S + 1 + 3 * step.size, lambda: self._wake(replica, process))

    def _wake(self, replica: Replica, process: object) -> None:
        if replica.process is process:
            self._replicas.wake(replica)

    def _repair(self, step: Step, work: Callable[[Step], None]) -> None:
        self._under_repair.append(self._repairs.submit(work, step))

    def _kill_apiserver(self, step: Step) -> None:
        self._struck(str(step.kind))
        self._plane.stop_apiserver(grace=0)
        time.sleep(2 * step.size)
        _insist(self._plane.start_apiserver, lambda: self._plane.stop_apiserver(grace=0))

    def _kill_etcd(self, step: Step) -> None:
        self._struck(str(step.kind))
        self._plane.kill_etcd()
        time.sleep(3 * step.size)
        _insist(self._plane.start_etcd, self._plane.kill_etcd)

    def _start_controllers(self) -> None:
        self._controllers = self._plane.start_controller_manager(controllers=_CONTROLLERS)

    def _storm(self, step: Step) -> None:
        for replica in self._replicas.all:
            for fault in make_storm(step.number):
                replica.proxy.inject(fault)
            self._after(2 + 4 * step.size, replica.proxy.clear)
        self._struck(str(step.kind))

    def _jump(self, step: Step) -> None:
        if not self._replicas.has_jumping_clock:
            self.outcome.skipped[step.kind] = self.outcome.skipped.get(step.kind, 0) + 1
            return
        hours = random.Random(step.number).choice((-24.0, -1.0, -0.01, 0.01, 1.0, 24.0, 0.0))
        self._replicas.jump(3600 * hours)
        self._struck(str(step.kind))

    def _replace_node(self, step: Step, share: float) -> None:
        number = step.number % self._nodes
        name = f"n{number}"
        self._api.ask("DELETE", f"/api/v1/nodes/{name}")

        def add() -> None:
            self._api.ask("POST", "/api/v1/nodes", objects.node(name, number, share))

        self._after(1 + 5 * step.size, add)
        if share < 1:

            def restore() -> None:
                status = objects.node(name, number)["status"]
                self._api.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE)

            self._after(_SMALL_FOR_S, restore)

    def _make_namesakes(self, step: Step) -> None:
        dice = random.Random(step.number)
        present = sorted(self._observer.present(), key=lambda pod: bool(pod.node))
        # Pods that wait are the more interesting ones: they may be on their way to a node.
        for pod in dice.sample(present[: 4 * _NAMESAKES], min(_NAMESAKES, len(present))):
            self._api.ask("DELETE", f"{pod.path}?gracePeriodSeconds=0")
            namesake = self._remade.next()
            namesake["metadata"] |= {"name": pod.name, "namespace": pod.namespace}
            namesake["spec"].pop("volumes", None)
            self._api.ask("POST", f"/api/v1/namespaces/{pod.namespace}/pods", namesake)

    def _create_again(self, name: str) -> None:
        status, _ = self._api.ask("POST", "/api/v1/namespaces", objects.namespace(name))
        if status == 409:  # still going
            self._after(2.0, lambda: self._create_again(name))


def _insist(start: Callable[[], None], undo: Callable[[], None]) -> None:
    """Start a server on a busy machine."""
    for attempt in range(_START_ATTEMPTS):
        try:
            start()
            return
        except ControlPlaneError:
            if attempt == _START_ATTEMPTS - 1:
                raise
            undo()
