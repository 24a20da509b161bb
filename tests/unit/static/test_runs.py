"""One run and the daemon inside the test's own process, on the embedded API server: silence,
patience, and what is told of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import PODS
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.errors import Forbidden, StowplanError
from stowplan.static import binder, one_shot
from stowplan.static.daemon import means, run_daemon
from stowplan.static.one_shot import Summary, run_one_shot
from stowplan.static.settings import StaticSettings
from stowplan.testing import as_manifest, node, pod
from tests import replacing
from tests.unit.api.api_kit import until


@dataclass
class World:
    server: ApiServer
    client: ApiClient
    settings: StaticSettings

    def pods(self, *names: str) -> None:
        for name in names:
            manifest = as_manifest(pod(name, scheduler_name="test"))
            self.server.create("", "v1", "pods", manifest, namespace="default")

    def fault(self, path: str, **fault: Any) -> Fault:
        wrong = Fault(path, **fault)
        self.server.faults.append(wrong)
        return wrong

    async def node_of(self, name: str) -> str:
        return (await self.client.get(PODS, name, namespace="default")).spec.node_name


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Node n1, which is labelled for web-0 and web-1."""
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    await server.start()
    try:
        path = tmp_path / "kubeconfig"
        path.write_text(server.kubeconfig())
        settings = StaticSettings(name="test", kubeconfig=str(path), prometheus_port=None)
        labels = {f"rf.scheduler.test.default/web-{number}": "" for number in range(2)}
        server.create("", "v1", "nodes", as_manifest(node("n1", labels=labels)))
        async with ApiClient(ClusterConfig(server.url)) as client:
            yield World(server, client, settings)
    finally:
        await server.stop()


async def test_silence_ends_in_a_look_at_what_became_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binder, "_TIMEOUT_S", 0.2)
    world.pods("web-0", "web-1")
    world.fault("/web-0/binding", action="hang")
    world.fault("/web-1/binding", action="hang-answer")
    summary = await run_one_shot(world.settings)
    assert summary.placed == {"default/web-1": "on node n1"}
    (why,) = summary.failed.values()
    assert why.startswith("on node n1: ")
    assert why.endswith("no answer in time")
    assert await world.node_of("web-0") == ""
    assert await world.node_of("web-1") == "n1"


async def test_timeouts_are_counted_without_a_status(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "__main__")
    monkeypatch.setattr(binder, "_TIMEOUT_S", 0.2)
    world.fault("/binding", action="hang")
    world.pods("web-0")
    task = asyncio.create_task(run_daemon(replace(world.settings, prometheus_port=0)))
    try:
        await until(lambda: "Pod web-0 scheduled on node n1" in caplog.messages)
        told = next(line for line in caplog.messages if line.startswith("Starting prometheus"))
        async with ClientSession() as session:
            url = f"http://127.0.0.1:{told.rpartition(' ')[2]}/"
            async with session.get(url) as answer:
                page = await answer.text()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert 'http_status="0",namespace="default",node="n1",pod="web-0",reason="Timeout"' in page
    assert await world.node_of("web-0") == "n1"


async def test_patience_has_an_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was lost, and nobody says what became of the pod."""
    monkeypatch.setattr(one_shot, "_PATIENCE_S", 0.5)
    world.pods("web-0")
    world.fault("/binding", action="lose-answer")
    world.fault("/default/pods", method="GET", status=500, times=None)
    summary = await run_one_shot(world.settings)
    assert list(summary.failed) == ["default/web-0"]
    with pytest.raises(StowplanError, match=r"^1 of 1 pods could not be placed; default/web-0 on "):
        summary.check()
    world.server.faults.clear()
    assert (await run_one_shot(world.settings)).lines() == [
        "No pod of scheduler test waits for a node"
    ]


async def test_a_pod_that_is_on_its_way_out_is_nobodys_business(world: World) -> None:
    manifest = as_manifest(pod("web-0", scheduler_name="test"))
    manifest["metadata"]["finalizers"] = ["example.com/wait"]
    world.server.create("", "v1", "pods", manifest, namespace="default")
    await world.client.delete(PODS, "web-0", namespace="default")
    assert (await run_one_shot(world.settings)).lines() == [
        "No pod of scheduler test waits for a node"
    ]


async def test_the_default_name_is_hinted_at_when_nothing_waits(world: World) -> None:
    world.pods("web-0")
    assert (await run_one_shot(replace(world.settings, name="rfcustom"))).lines() == [
        "No pod of scheduler rfcustom waits for a node; --name sets the scheduler"
    ]


async def test_each_pod_is_tried_once_however_many_fail(world: World) -> None:
    names = [f"web-{number}" for number in range(20)]
    world.pods(*names)
    wrong = world.fault("/binding", status=500, times=None)
    summary = await run_one_shot(world.settings)
    assert len(summary.failed) == 2
    assert len(summary.waiting) == 18
    assert wrong.hits == 2


async def test_respect_names_all_rights_that_it_lacks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def can_i(
        self: ApiClient,
        verb: str,
        plural: str,
        *,
        group: str = "",
        namespace: str = "",
        subresource: str = "",
        name: str = "",
    ) -> bool:
        asked.append(f"{verb} {plural}")
        return plural not in ("csinodes", "persistentvolumeclaims")

    replacing.replace(monkeypatch, ApiClient, ApiClient.can_i)(can_i)
    world.pods("web-0")
    settings = replace(world.settings, respect_node_state=True)
    expected = (
        "missing permissions in the whole cluster: list,patch persistentvolumeclaims, "
        "list csinodes.storage.k8s.io. --respect-node-state runs the "
        "default plugins, which need them. Fix: apply the role in deploy/static/respect-node-state"
    )
    for run in (run_one_shot, run_daemon):
        with pytest.raises(Forbidden) as refused:
            await run(settings)
        assert str(refused.value) == expected
    assert await world.node_of("web-0") == ""
    asked.clear()
    assert (await run_one_shot(world.settings)).placed == {"default/web-0": "on node n1"}
    assert asked == [], "strict needs too little to ask"


def test_what_is_missing_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "__main__")
    refused = means(StaticSettings(delay_s=5.0)).on_refused
    for right in ("watch pods", "watch nodes", "create events"):
        refused(right)
    first, *others = caplog.records
    assert first.levelno == logging.WARNING
    assert first.getMessage().startswith("The role does not allow to watch pods: ")
    assert "every 5.0 seconds" in first.getMessage()
    assert [record.getMessage() for record in others] == [
        "The role does not allow to watch nodes either",
        "The role does not allow to create events either",
    ]
    assert all(record.levelno == logging.DEBUG for record in others)


def test_the_summary_is_sorted_and_aligned() -> None:
    summary = Summary(
        "test",
        placed={"b/x": "on node n2", "a/x": "on node n1"},
        failed={"c/x": "on node n1: forbidden"},
    )
    assert summary.lines() == [
        "3 pods of scheduler test: 2 placed, 0 waiting, 1 failed",
        "  placed   a/x on node n1",
        "  placed   b/x on node n2",
        "  failed   c/x on node n1: forbidden",
    ]
