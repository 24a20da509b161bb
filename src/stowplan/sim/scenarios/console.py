"""The web console of a scenario in real time (`simulate --on embedded --console`).

It shows the cluster while the scenario plays, and keeps it when the scenario is over, until Ctrl-C:
the page Try then changes it. The outcome is what it was when the scenario ended.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.console.mirror import ClusterMirror, MirroringHandlers, mirror_of
from stowplan.console.serving import Console
from stowplan.framework.registry import Registry
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.ledger import Ledger
from stowplan.server.listen import open_port
from stowplan.sim.scenarios.recording import Recording, Witness

_HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """`port` 0 picks a free one; `tell` gets the address, and that the scenario is over."""

    port: int
    tell: Callable[[str], None]


class ScenarioConsole:
    """Feeds a console through the handlers of the scenario's scheduler."""

    def __init__(
        self,
        options: ConsoleOptions,
        config: KubeSchedulerConfiguration,
        registry: Registry | None,
        embedded: EmbeddedCluster | None,
    ) -> None:
        self._options = options
        self._embedded = embedded
        self._mirror = mirror_of(config, registry)
        self._mirror.is_synced = lambda: True

    def handlers(self, engine: Engine, recording: Recording) -> EventHandlers:
        return _MirroredWitness(engine, recording, self._mirror)

    @asynccontextmanager
    async def served(self, engine: Engine) -> AsyncIterator[None]:
        engine.ledger = Ledger(engine.clock)
        console = Console(self._mirror, engine, embedded=self._embedded)
        await console.start(open_port(_HOST, self._options.port, flag="--console"))
        self._options.tell(f"console on {console.url}")
        try:
            yield
        finally:
            await console.stop()

    async def until_stopped(self) -> None:
        """Return at Ctrl-C or SIGTERM."""
        self._options.tell("the scenario is over; the console stays until Ctrl-C")
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            loop.add_signal_handler(number, stop.set)
        try:
            await stop.wait()
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


class _MirroredWitness(Witness, MirroringHandlers):
    """Handlers that record, schedule and mirror each event."""

    def __init__(self, engine: Engine, recording: Recording, mirror: ClusterMirror) -> None:
        MirroringHandlers.__init__(self, engine, mirror)
        self._recording = recording
