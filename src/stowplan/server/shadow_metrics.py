"""Metrics of `stowplan shadow` over HTTP, read at each scrape from its counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stowplan.http.messages import Request, Response
from stowplan.http.server import HttpServer
from stowplan.replay.following import Verdict
from stowplan.replay.report import Tally
from stowplan.server.health import LIMITS, LINGER_S, Site, index, shown_address
from stowplan.server.listen import open_port

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class ShadowMetrics(Collector):
    """Serves /metrics until `stop`."""

    def __init__(self, tally: Tally, *, skipped: Callable[[], int] = int) -> None:
        """`skipped` returns the number of bindings that were not compared."""
        self._tally = tally
        self._skipped = skipped
        self._registry = CollectorRegistry()
        self._registry.register(self)
        site = Site()
        site.routes["/metrics"] = self._answer
        site.routes["/"] = lambda _: index(site.routes)
        self._server = HttpServer(site, LIMITS)
        self.url = ""

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        listening = open_port(host, port, flag="--metrics")
        server = await self._server.listen(lambda make: loop.create_server(make, sock=listening))
        bound = server.sockets[0].getsockname()[1]
        self.url = f"http://{shown_address(host)}:{bound}/metrics"

    async def stop(self) -> None:
        await self._server.stop(LINGER_S)

    def collect(self) -> Iterable[Metric]:
        decisions = CounterMetricFamily(
            "stowplan_shadow_decisions",
            "Decisions of the cluster's scheduler, by what this configuration says about them.",
            labels=["verdict"],
        )
        for verdict in Verdict:
            decisions.add_metric([verdict.value], self._tally.verdicts[verdict])
        yield decisions
        plugins = CounterMetricFamily(
            "stowplan_shadow_differences",
            "Decisions where another node has a higher score here, by plugin that prefers it.",
            labels=["plugin"],
        )
        for plugin, number in self._tally.plugins.items():
            plugins.add_metric([plugin], number)
        yield plugins
        yield CounterMetricFamily(
            "stowplan_shadow_skipped",
            "Bindings of pods whose schedulerName no profile of this configuration has.",
            self._skipped(),
        )
        # Without decisions it has no value: 0 would fire alerts, and 1 would claim agreement.
        yield GaugeMetricFamily(
            "stowplan_shadow_agreement_ratio",
            "Share of decisions that this configuration agrees with.",
            self._tally.agreement,
        )

    def _answer(self, _: Request) -> Response:
        return Response(generate_latest(self._registry), 200, _TEXT)
