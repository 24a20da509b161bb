"""A watch that falls silent is noticed by own binds, or by missing bookmarks, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.api.transport import Params
from stowplan.api.watch import ObjectEvent
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.config.load import default_config
from stowplan.errors import ApiUnavailable
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.process import SchedulerProcess
from stowplan.sim.virtual.time_loop import TimeLoop, run_virtually


class Network(InProcess):
    """The scheduler's way to the cluster: it can swallow what watches carry, and counts."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        super().__init__(cluster)
        self.requests: Counter[str] = Counter()
        #: New streams are silent from the beginning.
        self.swallows_new = False
        #: Streams that are open fall silent when the next pod is bound.
        self.swallows_at_bind = False
        self._open: set[_Swallowed] = set()

    def swallow(self) -> None:
        """Streams that are open stay open, and carry nothing more."""
        for stream in self._open:
            stream.is_silent = True

    @property
    def watches(self) -> Counter[str]:
        return Counter({k: n for k, n in self.requests.items() if k.startswith("watch ")})

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        params = options.get("params") or {}
        is_look_up = "metadata.name=" in str(params.get("fieldSelector", ""))
        self.requests[f"{'look up' if is_look_up else method} {path.rpartition('/')[2]}"] += 1
        if path.endswith("/binding") and self.swallows_at_bind:
            self.swallows_at_bind = False
            self.swallow()
        return await super().request(method, path, **options)

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AsyncIterator[AsyncIterable[list[ObjectEvent]]]:
        self.requests[f"watch {path.rpartition('/')[2]}"] += 1
        state = _Swallowed(self.swallows_new)
        self._open.add(state)
        async with super().stream(path, params=params, inactivity_s=inactivity_s) as pieces:
            try:
                yield _through(state, pieces, inactivity_s)
            finally:
                self._open.discard(state)


@dataclass(eq=False)
class _Swallowed:
    is_silent: bool = False
    news: asyncio.Queue[list[ObjectEvent] | None] = field(default_factory=asyncio.Queue)


async def _through(
    state: _Swallowed, pieces: AsyncIterable[list[ObjectEvent]], inactivity_s: float
) -> AsyncIterator[list[ObjectEvent]]:
    """As the real transport: silence for too long is an error."""

    async def pump() -> None:
        async for piece in pieces:
            if not state.is_silent:
                state.news.put_nowait(piece)
        state.news.put_nowait(None)

    pumping = asyncio.create_task(pump())
    try:
        while True:
            try:
                async with asyncio.timeout(inactivity_s):
                    piece = await state.news.get()
            except TimeoutError as silence:
                raise ApiUnavailable("the stream is silent") from silence
            if piece is None:
                return
            yield piece
    finally:
        pumping.cancel()


@dataclass
class Stage:
    cluster: EmbeddedCluster
    network: Network
    process: SchedulerProcess
    loop: TimeLoop
    #: The test's own way.
    client: ApiClient

    async def pods(self, *names: str) -> None:
        for name in names:
            await self.client.create(
                PODS,
                {
                    "metadata": {"name": name},
                    "spec": {"containers": [{"name": "main", "image": "x"}]},
                },
                namespace="default",
            )

    def is_confirmed(self, name: str) -> bool:
        pod = self.process.pods.store.get(f"default/{name}")
        return pod is not None and bool(pod.spec.node_name)

    async def until_bound(self, *names: str) -> None:
        while True:
            items = (await self.client.list_all(PODS)).items
            if {p.metadata.name for p in items if p.spec.node_name} >= {*names}:
                return
            await asyncio.sleep(0.01)


def play(script: Callable[[Stage], Awaitable[None]]) -> None:
    async def work(loop: TimeLoop) -> None:
        cluster = EmbeddedCluster(kubelet=KubeletOptions(enabled=False), clock=loop.clock)
        config = ClusterConfig(server=SERVER)
        network = Network(cluster)
        client = ApiClient(config, transport=InProcess(cluster))
        await client.create(
            NODES,
            {
                "metadata": {"name": "n1"},
                "status": {"allocatable": {"cpu": "9", "memory": "9Gi", "pods": "9999"}},
            },
        )
        process = SchedulerProcess(
            build_engine(default_config(), clock=loop.clock),
            ApiClient(config, transport=network),
            clock=loop.clock,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(process.run(stop))
        await process.scheduling.wait()
        try:
            await script(Stage(cluster, network, process, loop, client))
        finally:
            stop.set()
            await running

    run_virtually(work)


def test_an_own_bind_that_no_watch_confirms_leads_to_a_reconnect_of_all_silent_watches() -> None:
    async def script(stage: Stage) -> None:
        await stage.pods("a")
        await stage.until_bound("a")
        await asyncio.sleep(11)
        before = stage.network.requests.copy()
        stage.network.swallows_at_bind = True
        await stage.pods(*"bcdefgh")
        await stage.until_bound(*"bcdefgh")
        await asyncio.sleep(9)
        assert stage.network.requests["look up pods"] == 0
        await asyncio.sleep(12)
        assert all(stage.is_confirmed(name) for name in "bcdefgh")
        assert stage.network.requests["look up pods"] == 1, "one read, however many pods"
        assert stage.network.requests["GET pods"] == before["GET pods"], "nothing is listed"
        for watched, number in (stage.network.watches - before).items():
            assert number == 1, watched
        assert stage.network.watches["watch nodes"] == 2, "the others may be silent as well"

    play(script)


def test_confirmed_binds_cost_no_request() -> None:
    async def script(stage: Stage) -> None:
        names = [f"p{number}" for number in range(50)]
        await stage.pods(*names)
        await stage.until_bound(*names)
        await asyncio.sleep(200)
        assert stage.network.requests["look up pods"] == 0
        assert set(stage.network.watches.values()) == {1}, "bookmarks keep quiet streams open"

    play(script)


def test_a_watch_that_stays_silent_ends_in_a_list() -> None:
    async def script(stage: Stage) -> None:
        stage.network.swallows_new = True
        stage.network.swallow()
        lists = stage.network.requests["GET pods"]
        await stage.pods("a")
        await stage.process.pods.relist()
        await stage.until_bound("a")
        await asyncio.sleep(60)
        assert stage.is_confirmed("a")
        assert lists + 2 <= stage.network.requests["GET pods"] <= lists + 3

    play(script)


@pytest.mark.parametrize("fault", ["answer", "hang"])
def test_a_slow_or_absent_server_is_left_alone(fault: Literal["answer", "hang"]) -> None:
    async def script(stage: Stage) -> None:
        stage.network.swallows_at_bind = True
        await stage.pods("a")
        await stage.until_bound("a")
        stage.cluster.faults.append(Fault("/pods", "GET", fault, status=503, times=None))
        before = stage.network.watches
        await asyncio.sleep(45)
        assert stage.network.watches == before, "nothing is known, so nothing is done"
        reads = stage.network.requests["look up pods"]
        assert reads == (4 if fault == "answer" else 3), "one at a time, every ten seconds"
        stage.cluster.faults.clear()
        await asyncio.sleep(21)
        assert stage.is_confirmed("a")

    play(script)


def test_a_watch_that_is_behind_but_delivers_is_left_alone() -> None:
    async def script(stage: Stage) -> None:
        stage.network.swallows_at_bind = True
        await stage.pods("a")
        await stage.until_bound("a")
        before = stage.network.watches
        for _ in range(6):
            await asyncio.sleep(5)
            stage.process.pods.heard_at = stage.loop.time()  # older changes
        assert stage.network.watches == before

    play(script)


@pytest.mark.parametrize("swallows_new", [False, True])
def test_without_binds_missing_bookmarks_reveal_it(swallows_new: bool) -> None:
    async def script(stage: Stage) -> None:
        await asyncio.sleep(1)
        stage.network.swallow()
        stage.network.swallows_new = swallows_new
        await stage.client.create(NODES, {"metadata": {"name": "n2"}})
        await asyncio.sleep(74)
        assert set(stage.network.watches.values()) == {1}
        await asyncio.sleep(4)
        assert set(stage.network.watches.values()) == {2}
        assert ("n2" in stage.process.nodes.store) is not swallows_new
        if swallows_new:
            await asyncio.sleep(170)
            assert "n2" in stage.process.nodes.store, "after three silent streams a list"

    play(script)
