"""A simulated scheduler: the real process, restarted by a supervisor whenever it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cache
from random import Random

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.clock import VirtualClock
from stowplan.config.load import default_config
from stowplan.errors import LeadershipLost, StowplanError
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.process import Election, SchedulerProcess
from stowplan.sim.faults.network import Network, Wire
from stowplan.sim.faults.seeded_loop import Owner, SeededLoop, owned_by

_LEASE = ("stowplan", "kube-system")
_RESTART_S = 1.0

#: Made once for all runs: no process changes them.
_config = cache(default_config)
_registry = cache(in_tree_registry)


class ReplicaClock:
    """The clocks of one machine: its wall clock may jump, and it may have been suspended."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.jumped_s = 0.0
        self.suspended_s = 0.0

    def monotonic(self) -> float:
        return self._clock.monotonic() - self.suspended_s

    def boottime(self) -> float:
        return self._clock.monotonic()

    def time(self) -> float:
        return self._clock.time() + self.jumped_s


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision to bind, and what the scheduler had seen of the API server by then."""

    at: float
    by: str
    uid: str
    node: str
    nodes_version: int
    pods_version: int


@dataclass(slots=True)
class Replica:
    """One scheduler and its supervisor."""

    number: int
    network: Network
    loop: SeededLoop
    seed: int
    verify: int
    annotates: bool
    decided: list[Decided]
    findings: list[str]
    process: SchedulerProcess | None = None
    clock: ReplicaClock = field(init=False)
    _owner: Owner = field(init=False)
    _wire: Wire | None = None
    _running: asyncio.Task[None] | None = None
    _stop: asyncio.Event | None = None
    _lives: int = 0

    def __post_init__(self) -> None:
        self.clock = ReplicaClock(self.loop.clock)
        self._owner = Owner(f"r{self.number}")

    def start(self) -> None:
        """Start a new process, which knows nothing of the former one."""
        self._lives += 1
        name = f"r{self.number}.{self._lives}"
        self._owner = Owner(name)
        context = owned_by(self._owner)
        wire = self._wire = Wire(self.network, self.number, self.clock)
        client = ApiClient(ClusterConfig(server="http://simulated"), transport=wire)
        engine = build_engine(
            _config(),
            registry=_registry(),
            clock=self.clock,
            rng=Random(f"{self.seed}/{name}"),
        )
        engine.verify_decisions(self.verify)
        process = SchedulerProcess(
            engine,
            client,
            identity=name,
            election=Election(*_LEASE, identity=name),
            clock=self.clock,
            on_outcome=lambda outcome: self._note(name, process, outcome),
            annotates=self.annotates,
        )
        self.process = process
        stop = self._stop = asyncio.Event()
        self.network.note(f"{name} starts")
        self._running = self.loop.create_task(
            self._live(name, process, stop), name=name, context=context
        )

    async def _live(self, name: str, process: SchedulerProcess, stop: asyncio.Event) -> None:
        try:
            await process.run(stop)
        except LeadershipLost:
            pass
        except StowplanError as problem:
            self.network.note(f"{name} ends: {problem}")
        except asyncio.CancelledError:
            return
        except Exception as problem:
            self.findings.append(f"the scheduler ended with {type(problem).__name__}: {problem}")
        self.network.note(f"{name} ended")
        self.process = None
        self.network.later(_RESTART_S, self._restart, self._lives)

    def _restart(self, life: int) -> None:
        if life == self._lives:
            self.start()

    def _note(self, name: str, process: SchedulerProcess, outcome: Placement | Failure) -> None:
        if isinstance(outcome, Placement):
            self.decided.append(
                Decided(
                    self.network.now(),
                    name,
                    outcome.pod.uid,
                    outcome.node,
                    process.nodes.resource_version,
                    process.pods.resource_version,
                )
            )

    # What happens to it

    def kill(self, restart_s: float) -> None:
        """End it at once, wherever its tasks are; nothing that it began goes on."""
        if self._wire is None or self._running is None:
            return
        self._wire.is_cut = True
        self.process = None
        self.loop.thaw(self._owner)
        self._owner.cancel()
        self._lives += 1
        self.network.later(restart_s, self._restart, self._lives)

    def stop(self) -> None:
        """Ask it to end, as SIGTERM does."""
        if self._stop is not None:
            self._stop.set()

    def freeze(self, seconds: float) -> None:
        owner = self._owner
        owner.is_frozen = True
        self.network.later(seconds, self.loop.thaw, owner)

    def suspend(self, seconds: float) -> None:
        """Stop its machine: only the clocks that count suspended time go on."""
        self.clock.suspended_s += seconds
        self.loop.delay_timers(self._owner, seconds)
        self.freeze(seconds)
