"""The embedded API server's volume controller beside kube-controller-manager's own.

The same claims and volumes must end in the same phases, with the same names, annotations and
references. Making volumes takes somebody else in a real cluster, and is left out on both sides.
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
from stowplan.apiserver.volume_controller import VolumeController, VolumeControllerOptions
from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.scheduler_play import session_with
from tests.e2e.volume_cases import CASES, World

pytestmark = pytest.mark.e2e

PATIENCE_S = 40.0
#: How often kube-controller-manager looks again at claims that have found nothing.
PERIOD_S = 1.0
#: So late that no volume is made.
NEVER = VolumeControllerOptions(provision_delay_s=1e6)
CONTROLLERS = (
    "persistentvolume-binder-controller,persistentvolume-protection-controller,"
    "persistentvolumeclaim-protection-controller"
)


@asynccontextmanager
async def embedded() -> AsyncIterator[aiohttp.ClientSession]:
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    await server.start()
    controller = VolumeController(server.store, server.rest.deleter, NEVER)
    running = asyncio.create_task(controller.run())
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        running.cancel()
        await server.stop()


@asynccontextmanager
async def real() -> AsyncIterator[aiohttp.ClientSession]:
    require_binaries("etcd", "kube-apiserver", "kube-controller-manager")
    with ControlPlane() as plane:
        plane.start_controller_manager(
            f"--pvclaimbinder-sync-period={PERIOD_S}s", controllers=CONTROLLERS
        )
        ca_file = str(plane.certificate_authority)
        async with session_with(plane.url, ca_file, plane.admin_token) as session:
            yield session


async def play(name: str, ours: World, theirs: World) -> str:
    """What differs after the first step in which something does; empty if nothing does."""
    await asyncio.gather(ours.begin(), theirs.begin())
    for step in CASES[name]:
        await asyncio.gather(step(ours), step(theirs))
        after = f"{name}, {step.__name__.strip('_')}"
        if found := await differences(after, ours, theirs):
            return found
    return ""


async def differences(after: str, ours: World, theirs: World) -> str:
    """In the end: each may take its time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = await compare(ours, theirs)
        if not found:
            return ""
        if time.monotonic() > deadline:
            return "\n".join([f"after {after}:", *found])
        await asyncio.sleep(0.2)


async def compare(ours: World, theirs: World) -> list[str]:
    mine, real_ones = await asyncio.gather(ours.view(), theirs.view())
    return [
        f"  {thing}: embedded {mine.get(thing)} != real {real_ones.get(thing)}"
        for thing in sorted(mine.keys() | real_ones.keys())
        if mine.get(thing) != real_ones.get(thing)
    ]


@pytest.mark.timeout(240)
async def test_claims_and_volumes_end_as_with_kube_controller_manager() -> None:
    async with real() as their_session, embedded() as our_session:
        worlds = {name: (World(our_session, name), World(their_session, name)) for name in CASES}
        found = await asyncio.gather(*(play(name, *pair) for name, pair in worlds.items()))
        # Whoever had nothing to do may only not have begun yet.
        await asyncio.sleep(2 * PERIOD_S)
        for name, pair in worlds.items():
            if late := await compare(*pair):
                found.append("\n".join([f"{name}, later:", *late]))
    assert not any(found), "embedded != kube-controller-manager\n" + "\n".join(filter(None, found))
