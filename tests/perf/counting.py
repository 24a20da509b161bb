"""Counts what the hot path does: function calls, rows that plugins look at, objects and requests.

Counts do not depend on the machine or its mood: a change that makes every decision do more work
shows in them at once, and where a stopwatch would need a quiet hour. `python -m tests.perf.record`
writes new ceilings.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.config.defaults import default_config
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.lab.bench.decisions import DecisionCase, LoadedEngine
from stowplan.lab.bench.synthetic import HOPELESS, as_informed
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.scheduler.process import SchedulerProcess
from stowplan.testing import as_manifest, node, pod

NODES = 500
STANDING = 1_000
#: Pods before: shapes are kept from their third use on, and a kind of pods has a hundred of them.
WARM_UP = 350
#: Pods that are counted.
PODS_COUNTED = 120

KINDS = (
    "one shape",
    "100 shapes",
    "all distinct",
    "hard spreading",
    "soft spreading",
    "anti-affinity",
    "preferred affinity",
    "too large",
)


@dataclass
class Work:
    """What was done, in all."""

    calls: int = 0
    rows: int = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens within."""

        def on_event(_frame: Any, event: str, _argument: Any) -> None:
            if event in ("call", "c_call"):
                self.calls += 1

        sys.setprofile(on_event)
        try:
            yield
        finally:
            sys.setprofile(None)


def decision_work(kind: str) -> dict[str, float]:
    """Work a pod: of the decision, and of what follows it."""
    deciding, following = Work(), Work()
    stage = LoadedEngine(DecisionCase("counted", kind, nodes=NODES, existing=STANDING))
    engine, handlers = stage.engine, EventHandlers(stage.engine)
    for each in stage.next_pods(WARM_UP + PODS_COUNTED):
        handlers.add_pod(each)
    with rows_counted(deciding):
        for number in range(WARM_UP + PODS_COUNTED):
            if number == WARM_UP:
                deciding.calls = deciding.rows = following.calls = 0
                # What a collection calls depends on what else the process has seen.
                gc.disable()
            try:
                with deciding.counted():
                    outcome = engine.attempt()
                if kind in HOPELESS:
                    assert isinstance(outcome, Failure), outcome
                    continue
                assert isinstance(outcome, Placement), outcome
                informed = as_informed(outcome.pod)
                with following.counted():
                    engine.permitted(outcome)
                    engine.bound(outcome)
                    handlers.update_pod(outcome.queued.pod, informed)
            finally:
                gc.enable()
    return {
        "calls": deciding.calls / PODS_COUNTED,
        "rows": deciding.rows / PODS_COUNTED,
        "calls_afterwards": following.calls / PODS_COUNTED,
    }


@contextmanager
def rows_counted(work: Work) -> Iterator[None]:
    """Count the rows that filters and scores of plugins are asked about."""

    def counting(method: Callable[..., Any], *, is_one: bool) -> Callable[..., Any]:
        def counted(step: Any, cycle: Any, rows: Any, *more: Any) -> Any:
            if is_one:
                work.rows += 1
            elif isinstance(rows, slice):
                work.rows += len(range(cycle.table.capacity)[rows])
            else:
                work.rows += len(rows)
            return method(step, cycle, rows, *more)

        return counted

    with (
        patch.object(FilterStep, "fill", counting(FilterStep.fill, is_one=False)),
        patch.object(ScoreStep, "fill", counting(ScoreStep.fill, is_one=False)),
        patch.object(FilterStep, "status_of_row", counting(FilterStep.status_of_row, is_one=True)),
        patch.object(ScoreStep, "score_of_row", counting(ScoreStep.score_of_row, is_one=True)),
    ):
        yield


# On an API server


class CountingServer(ApiServer):
    """Counts requests by what they ask for."""

    def __init__(self) -> None:
        super().__init__(kubelet=KubeletOptions(enabled=False))
        self.requests: Counter[str] = Counter()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.endswith("/binding"):
            kind = "binds"
        elif request.method == "GET":
            # Informers list and watch once, however many pods there are.
            kind = "pod_reads" if "/pods/" in path else "lists_and_watches"
        elif "/events" in path:
            kind = "events"
        else:
            kind = "other_writes"
        self.requests[kind] += 1
        return await super()._handle(request)


class CountingClient(ApiClient):
    """Counts the objects that it decodes."""

    decoded = 0

    def decoder(self, resource: Any) -> Any:
        return _CountingDecoder(self, super().decoder(resource))


class _CountingDecoder:
    def __init__(self, client: CountingClient, decoder: Any) -> None:
        self._client = client
        self._decoder = decoder

    def __call__(self, raw: Any) -> Any:
        self._client.decoded += 1
        return self._decoder(raw)


async def live_work(pods: int = 200) -> dict[str, float]:
    """Requests and decoded objects a pod, from a running scheduler on the embedded server."""
    server = CountingServer()
    await server.start()
    try:
        for number in range(20):
            server.create("", "v1", "nodes", as_manifest(node(f"n{number}")))
        async with CountingClient(ClusterConfig(server=server.url, source="test")) as client:
            engine = build_engine(default_config(), registry=in_tree_registry(), rng=Random(1))
            process = SchedulerProcess(engine, client)
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            await process.scheduling.wait()
            before, decoded = Counter(server.requests), client.decoded
            for number in range(pods):
                manifest = as_manifest(pod(f"p{number}"))
                manifest["metadata"].pop("uid")
                server.create("", "v1", "pods", manifest, namespace="default")
            while engine.cache.pod_count < pods or engine.cache.assumed_count:  # noqa: ASYNC110 - counts, no event
                await asyncio.sleep(0.01)
            assert await process.recorder.drain(10)
            stop.set()
            await running
            seen = server.requests - before
            return {
                "decoded": (client.decoded - decoded) / pods,
                **{
                    kind: seen[kind] / pods
                    for kind in ("binds", "events", "pod_reads", "other_writes")
                },
            }
    finally:
        await server.stop()
