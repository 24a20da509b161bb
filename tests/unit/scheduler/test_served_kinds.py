"""An API server without claims of devices: one line in the log, and everything else works."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.config.load import default_config
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.process import SchedulerProcess
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod

GROUP = "/apis/resource.k8s.io"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    running = ApiServer(kubelet=KubeletOptions(enabled=False))
    await running.start()
    running.create("", "v1", "nodes", as_manifest(make_node("n1")))
    manifest = as_manifest(make_pod("plain"))
    manifest["metadata"].pop("uid", None)
    running.create("", "v1", "pods", manifest, namespace="default")
    yield running
    await running.stop()


async def test_without_the_group_pods_are_scheduled_as_before(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.append(Fault(path=GROUP, status=404, times=None))
    async with ApiClient(ClusterConfig(server=server.url, source="test")) as client:
        stop, tried = asyncio.Event(), asyncio.Event()
        engine = build_engine(default_config())
        process = SchedulerProcess(engine, client, on_outcome=lambda _: tried.set())
        with caplog.at_level(logging.WARNING):
            running = asyncio.create_task(process.run(stop))
            async with asyncio.timeout(30):
                await tried.wait()
            stop.set()
            await running
    assert engine.metrics.pod_scheduling_attempts.at().count == 1
    assert "resourceclaims" not in process.informers
    lines = [each for each in caplog.messages if "DynamicResources is off" in each]
    assert len(lines) == 1
