"""The demo's run inside the test: waves without end, meddling users, and a tidy end."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import milli_value
from stowplan.api.resources import NODES, PODS
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.cluster.pod_info import held_amounts
from stowplan.demo.displays import PlainLines
from stowplan.demo.show import DemoResult, Show, ShowOptions
from stowplan.testing.builders import as_manifest, pod

QUICK = KubeletOptions(start_delay_s=0.01, stop_delay_s=0.01)


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[str, ApiClient]]:
    """An API server's address, and a client for whoever meddles."""
    server = ApiServer(kubelet=QUICK)
    await server.start()
    try:
        async with ApiClient(ClusterConfig(server=server.url)) as client:
            yield server.url, client
    finally:
        await server.stop()


async def until(is_so: Callable[[], bool], show: asyncio.Task[DemoResult]) -> None:
    while not is_so():
        assert not show.done(), "the show ended by itself"
        await asyncio.sleep(0.01)


def most_of_cpu(nodes: list[Node], pods: list[Pod]) -> float:
    """How full the fullest node is, going by what the API server says."""
    used: Counter[str] = Counter()
    for running in pods:
        if running.spec.node_name and not running.is_finished:
            used[running.spec.node_name] += held_amounts(running).get("cpu", 0)
    assert used
    return max(
        used[node.name] / milli_value((node.status.allocatable or {})["cpu"]) for node in nodes
    )


async def test_waves_follow_the_opening_until_somebody_stops_it() -> None:
    before = asyncio.all_tasks()
    out, stop = io.StringIO(), asyncio.Event()
    async with cluster() as (url, client):
        options = ShowOptions(seed=3, speed=50.0)
        show = asyncio.create_task(Show(url, options, PlainLines(out)).run(stop))
        wanted = ("\nuncordoned ", "\ncordoned ", "\ndeleted ", "\nfinished ")
        await until(lambda: all(word in out.getvalue() for word in wanted), show)
        await until(lambda: out.getvalue().count("\nopened the gate of ") >= 2, show)
        nodes = (await client.list_all(NODES)).items
        pods = (await client.list_all(PODS)).items
        stop.set()
        outcome = await show
        assert len(nodes) == 12
        assert 0 < most_of_cpu(nodes, pods) <= 1
    assert outcome.was_stopped
    assert outcome.view.placed_total > 60
    assert outcome.view.finished_total > 10
    # Finished jobs are cleaned up, so a long demo is no bigger than a short one.
    assert len(outcome.view.placed) < 150
    assert "refused" not in out.getvalue()
    assert asyncio.all_tasks() == before


async def test_a_meddling_user_is_told_of_but_stops_nothing() -> None:
    out = io.StringIO()
    async with cluster() as (url, client):
        await client.create(PODS, as_manifest(pod("web-1", uid="")), namespace="default")
        options = ShowOptions(once=True, speed=50.0)
        outcome = await Show(url, options, PlainLines(out)).run(asyncio.Event())
    assert 'the demo was refused: pods "web-1" already exists' in out.getvalue()
    assert outcome.missing == ()
    assert not outcome.was_stopped


async def test_a_pod_of_the_story_that_is_gone_before_it_was_placed_is_missed() -> None:
    out = io.StringIO()
    async with cluster() as (url, client):
        # The gate opens six seconds of the story later, and the deletion must come before.
        options = ShowOptions(once=True, speed=4.0)
        show = asyncio.create_task(Show(url, options, PlainLines(out)).run(asyncio.Event()))
        await until(lambda: "pending default/audit-1: " in out.getvalue(), show)
        await client.delete(PODS, "audit-1", namespace="default", grace_period_s=0)
        outcome = await show
    assert outcome.missing == ("default/audit-1",)
    assert 'the demo was refused: pods "audit-1" not found' in out.getvalue()


async def test_the_first_problem_ends_it_and_is_told_as_it_is() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    before = asyncio.all_tasks()
    async with cluster() as (url, _):
        with pytest.raises(BrokenPipeError):
            await Show(url, ShowOptions(), PlainLines(Closed())).run(asyncio.Event())
    assert asyncio.all_tasks() == before
