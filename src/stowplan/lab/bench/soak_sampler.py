"""Looks at a scheduler from outside while it soaks: memory, CPU time, rates, its own metrics.

Called by `soak` every few seconds.
"""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from stowplan.lab.bench.churn import ChurnLoad
from stowplan.lab.bench.observe import cpu_seconds
from stowplan.lab.bench.soak_figures import Sample, p99
from stowplan.lab.controlplane.processes import ServerProcess

_SERIES = (
    "scheduler_pending_pods",
    "scheduler_cache_size",
    "scheduler_inflight_events",
    "stowplan_binds_in_flight",
    "stowplan_events_written",
    "stowplan_events_dropped",
    "stowplan_lists",
    "process_open_fds",
    "python_gc_collections",
)


class Sampler:
    """Looks at the scheduler from outside."""

    def __init__(
        self, churn: ChurnLoad, process: ServerProcess, web: aiohttp.ClientSession, began: float
    ) -> None:
        self._churn = churn
        self._process = process
        self._web = web
        self._began = began
        self._before = self._counts()

    def _counts(self) -> tuple[float, ...]:
        tally = self._churn.tally
        used = cpu_seconds(self._process.pid)
        return (time.monotonic(), used, tally.created, tally.bound, tally.deleted)

    async def take(self) -> Sample:
        self._process.check_running()
        counts = self._counts()
        passed, *grown = (now - then for now, then in zip(counts, self._before, strict=True))
        self._before = counts
        asked = time.monotonic()
        await self._get("/healthz")
        health_s = time.monotonic() - asked
        waits, lags = self._churn.tally.take_waits()
        cores, created, bound, deleted = (each / passed for each in grown)
        return Sample(
            at_s=counts[0] - self._began,
            rss_mib=rss_mib(self._process.pid),
            cpu_cores=cores,
            created_per_s=created,
            bound_per_s=bound,
            deleted_per_s=deleted,
            waiting=len(self._churn.waiting),
            bind_p99_s=p99(waits),
            event_lag_p99_s=p99(lags),
            health_s=health_s,
            series=chosen_series(await self._get("/metrics")),
        )

    async def _get(self, path: str) -> str:
        async with self._web.get(self._process.url + path) as answer:
            return await answer.text()


def chosen_series(exposition: str) -> dict[str, float]:
    return {
        sample.name + "".join(f",{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(exposition)
        if family.name in _SERIES
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024
