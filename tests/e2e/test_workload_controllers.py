"""The embedded API server's workload controllers beside kube-controller-manager's own.

The same Deployments, ReplicaSets, StatefulSets and Jobs must end in the same pods, owners and
statuses. KWOK plays the kubelets of the real control plane.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.scheduler_play import session_with
from tests.e2e.workload_cases import CASES, NODE, World

pytestmark = pytest.mark.e2e

PATIENCE_S = 30.0
SIZE = {"cpu": "99", "memory": "999Gi", "pods": "999"}
NODE_BODY = {"metadata": {"name": NODE}, "status": {"capacity": SIZE, "allocatable": SIZE}}
CONTROLLERS = (
    "deployment-controller,replicaset-controller,statefulset-controller,job-controller,"
    "garbage-collector-controller"
)


@asynccontextmanager
async def embedded() -> AsyncIterator[aiohttp.ClientSession]:
    server = ApiServer(
        kubelet=KubeletOptions(start_delay_s=0.05, stop_delay_s=0.05, job_run_s=0.3),
        workloads=WorkloadControllerOptions(),
    )
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        await server.stop()


@asynccontextmanager
async def real() -> AsyncIterator[aiohttp.ClientSession]:
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
    with ControlPlane() as plane:
        plane.start_controller_manager(controllers=CONTROLLERS)
        plane.start_kwok()
        ca_file = str(plane.certificate_authority)
        async with session_with(plane.url, ca_file, plane.admin_token) as session:
            yield session


async def play(name: str, ours: World, theirs: World) -> str:
    """What differs after the first step in which something does; empty if nothing does."""
    await asyncio.gather(ours.begin(), theirs.begin())
    for step in CASES[name]:
        after = f"{name}, {step.__name__.strip('_')}"
        try:
            await asyncio.gather(step(ours), step(theirs))
        except AssertionError as error:
            return f"{after}: {error}"
        if found := await differences(after, ours, theirs):
            return found
    return ""


async def differences(after: str, ours: World, theirs: World) -> str:
    """In the end: each may take its time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        mine, real_ones = await asyncio.gather(ours.view(), theirs.view())
        if mine == real_ones:
            return ""
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    found = [
        f"  {thing}:\n    embedded {mine.get(thing)}\n    real     {real_ones.get(thing)}"
        for thing in sorted(mine.keys() | real_ones.keys())
        if mine.get(thing) != real_ones.get(thing)
    ]
    return "\n".join([f"after {after}:", *found])


@pytest.mark.timeout(240)
async def test_workloads_end_as_with_kube_controller_manager() -> None:
    async with real() as their_session, embedded() as our_session:
        for session in (their_session, our_session):
            async with session.post("/api/v1/nodes", json=NODE_BODY) as answer:
                assert answer.status == 201, await answer.text()
        worlds = {name: (World(our_session, name), World(their_session, name)) for name in CASES}
        found = await asyncio.gather(*(play(name, *pair) for name, pair in worlds.items()))
    assert not any(found), "embedded != kube-controller-manager\n" + "\n".join(filter(None, found))
