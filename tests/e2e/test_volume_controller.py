"""The embedded API server's volume controller beside kube-controller-manager's own.

The same claims and volumes must end in the same phases, with the same names, annotations and
references. A real cluster provisions volumes with a separate program, so neither side provisions.
"""

from __future__ import annotations

import asyncio

import pytest

from stowplan.apiserver.ephemeral_volumes import EphemeralVolumes
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.apiserver.volume_controller import VolumeController, VolumeControllerOptions
from tests.e2e.controllers_beside import assert_same, embedded, real
from tests.e2e.volume_cases import CASES, World

pytestmark = pytest.mark.e2e

#: How often kube-controller-manager looks again at claims that have found nothing.
PERIOD_S = 1.0
#: So late that no volume is made.
NEVER = VolumeControllerOptions(provision_delay_s=1e6)
CONTROLLERS = (
    "persistentvolume-binder-controller,persistentvolume-protection-controller,"
    "persistentvolumeclaim-protection-controller,ephemeral-volume-controller,"
    "garbage-collector-controller"
)


@pytest.mark.timeout(240)
async def test_claims_and_volumes_end_as_with_kube_controller_manager() -> None:
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    period = f"--pvclaimbinder-sync-period={PERIOD_S}s"
    async with real(CONTROLLERS, period) as theirs, embedded(server) as ours:
        volumes = VolumeController(server.store, server.rest.deleter, NEVER)
        ephemeral = EphemeralVolumes(server.store, server.rest.writer, server.rest.deleter)
        running = [asyncio.create_task(each.run()) for each in (volumes, ephemeral)]
        try:
            await assert_same(CASES, World, ours, theirs, again_after_s=2 * PERIOD_S)
        finally:
            for each in running:
                each.cancel()
