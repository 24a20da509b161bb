"""The embedded API server beside kube-apiserver: the same requests must get the same answers.

Status codes, Status bodies and whole objects are compared, with what is random masked. What is
meant to differ is left out step by step, in the scenarios, with the reason beside it.
"""

from __future__ import annotations

import ssl
import uuid
from collections.abc import AsyncIterator

import aiohttp
import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.lab.controlplane import ControlPlane
from tests.e2e import (
    parity_claims,
    parity_devices,
    parity_junk,
    parity_objects,
    parity_pods,
    parity_taint_rules,
)
from tests.e2e.parity import Step, compare, new_namespace

pytestmark = pytest.mark.e2e

PARTS = (
    parity_pods,
    parity_objects,
    parity_junk,
    parity_claims,
    parity_devices,
    parity_taint_rules,
)
SCENARIOS: dict[str, list[Step]] = {
    name: steps for part in PARTS for name, steps in part.SCENARIOS.items()
}


@pytest.fixture
async def embedded() -> AsyncIterator[aiohttp.ClientSession]:
    """Without kubelet, as bare as the control plane of these tests."""
    server = ApiServer(kubelet=KubeletOptions(enabled=False))
    await server.start()
    async with aiohttp.ClientSession(server.url) as session:
        yield session
    await server.stop()


@pytest.fixture
async def real(control_plane: ControlPlane) -> AsyncIterator[aiohttp.ClientSession]:
    tls = ssl.create_default_context(cafile=str(control_plane.certificate_authority))
    async with aiohttp.ClientSession(
        control_plane.url,
        headers={"Authorization": f"Bearer {control_plane.admin_token}"},
        connector=aiohttp.TCPConnector(ssl=tls),
    ) as session:
        yield session


@pytest.mark.parametrize("name", SCENARIOS)
async def test_answers_are_those_of_kube_apiserver(
    name: str, embedded: aiohttp.ClientSession, real: aiohttp.ClientSession
) -> None:
    steps = SCENARIOS[name]
    namespace = f"parity-{uuid.uuid4().hex[:10]}"
    async with new_namespace(embedded, namespace) as ours, new_namespace(real, namespace) as theirs:
        found = await compare(ours, theirs, steps)
    assert not found, "embedded != kube-apiserver\n" + "\n".join(found)


def test_scenario_names_are_unique() -> None:
    assert len(SCENARIOS) == sum(len(part.SCENARIOS) for part in PARTS)
