"""What a configuration adds to the service: parts that run, /mutate, /reschedule, health, metrics.

`serving` makes one `Parts` of what `configuration` has loaded, attaches it to the service before
the first request, and starts and stops it with the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stowplan.extender.background import Measured, Runs, data_lines
from stowplan.extender.configuration import Configured
from stowplan.extender.data import DataProvider
from stowplan.extender.mutation import Mutator
from stowplan.extender.rescheduling import Rescheduler
from stowplan.extender.service import Service
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_MUTATED_NAMESPACES = ("default",)


class Parts:
    """See the module; ConfigError where settings need something that is not configured."""

    def __init__(self, configured: Configured) -> None:
        settings, algorithm = configured.settings, configured.algorithm
        built = _each_once((*configured.parts, settings.kubeapi))
        kubeapis = [part for part in built if getattr(part, "name", "") == "kubeapi"]
        provider = settings.data_provider or getattr(algorithm, "data_provider", None)
        self.mutator = Mutator(
            provider if isinstance(provider, DataProvider) else None,
            monitored_namespaces=settings.monitored_namespaces or _MUTATED_NAMESPACES,
            dram_threshold=settings.dram_threshold,
            cold_start_duration=settings.cold_start_duration,
            if_toptier_limit=settings.if_toptier_limit,
            in_thread=algorithm.runs_in_thread,
        )
        self.rescheduler = Rescheduler(
            algorithm,
            settings.kubeapi or next(iter(kubeapis), None),
            interval=settings.reschedule_interval,
            token_file=settings.reschedule_token_file,
            by_get=settings.reschedule_by_get,
            limit=settings.reschedule_limit,
        )
        running = [part for part in built if isinstance(part, Runs)]
        self._running: list[Runs] = [*running, self.rescheduler]
        self._measured: list[Measured] = [*self._running, self.mutator]

    def attach(self, service: Service) -> None:
        # By default the API server sends no credentials to a webhook, and a webhook that rejects
        # its requests would block pods.
        service.add_route("POST", "/mutate", self.mutator.handle, is_open=True)
        self.rescheduler.add_routes(service)
        for name, part in self._named():
            service.ready_checks[name] = part.why_not_ready
            service.ready_notes[name] = part.note
        service.more_metrics = lambda: data_lines(self._measured)

    def measure(self, part: Measured) -> None:
        """Show the values of something else on /metrics, too."""
        self._measured.append(part)

    async def start(self) -> None:
        for part in self._running:
            await part.start()

    async def stop(self) -> None:
        """Those that need others end before them."""
        for part in reversed(self._running):
            try:
                await part.stop()
            except Exception:
                log.exception("A component failed to stop", extra=kv(part=part.name))

    def _named(self) -> Iterator[tuple[str, Runs]]:
        """Several of one kind get numbers."""
        seen: dict[str, int] = {}
        for part in self._running:
            number = seen[part.name] = seen.get(part.name, 0) + 1
            yield (part.name if number == 1 else f"{part.name}-{number}"), part


def _each_once(objects: Iterable[Any]) -> list[Any]:
    """An anchor's object is built once, but may be named often."""
    return list({id(each): each for each in objects if each is not None}.values())
