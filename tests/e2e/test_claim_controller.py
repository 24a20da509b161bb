"""The embedded API server's claim controller beside kube-controller-manager's own.

The same pods, claims and templates must end in the same claims, with the same owners, annotations,
reservations and allocations, and in the same statuses of pods.
"""

from __future__ import annotations

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from tests.e2e.claim_cases import CASES, World
from tests.e2e.controllers_beside import assert_same, embedded, real

pytestmark = pytest.mark.e2e

CONTROLLERS = "resourceclaim-controller,garbage-collector-controller"


@pytest.mark.timeout(240)
async def test_claims_end_as_with_kube_controller_manager() -> None:
    server = ApiServer(kubelet=KubeletOptions(enabled=False), device_claims=True)
    async with real(CONTROLLERS) as theirs, embedded(server) as ours:
        await assert_same(CASES, World, ours, theirs)
