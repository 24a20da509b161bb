"""Faults on purpose, and what of the request they let through."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from stowplan.apiserver.faults import Fault
from tests.unit.apiserver.serving import NODES, PODS, Api, node, pod


@pytest.mark.parametrize(
    ("status", "reason"),
    [(409, "Conflict"), (404, "NotFound"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
async def test_an_answer_instead_of_the_deed(api: Api, status: int, reason: str) -> None:
    await api.create(PODS, pod())
    api.server.faults.append(Fault(path="/binding", status=status))
    answer = await api.bind("a", "n1")
    assert (answer.status, answer.reason) == (status, reason)
    assert answer.body["kind"] == "Status"
    assert "nodeName" not in (await api.get(f"{PODS}/a"))["spec"]
    assert (await api.bind("a", "n1")).status == 201  # once is enough


async def test_too_many_requests_says_when_to_come_back(api: Api) -> None:
    api.server.faults.append(Fault(method="POST", path="/nodes", status=429, retry_after_s=3))
    answer = await api.request("POST", NODES, node())
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert answer.body["details"]["retryAfterSeconds"] == 3


async def test_method_path_count_and_start(api: Api) -> None:
    fault = Fault(method="GET", path="/nodes", status=500, after=1, times=2)
    api.server.faults.append(fault)
    statuses = [(await api.request("GET", NODES)).status for _ in range(5)]
    assert statuses == [200, 500, 500, 200, 200]
    assert fault.hits == 2
    assert (await api.request("GET", PODS)).status == 200


async def test_for_ever_until_taken_away(api: Api) -> None:
    api.server.faults.append(Fault(status=500, times=None))
    for _ in range(3):
        assert (await api.request("GET", PODS)).status == 500
    api.server.faults.clear()
    assert (await api.request("GET", PODS)).status == 200


async def test_a_dropped_connection_does_nothing(api: Api) -> None:
    api.server.faults.append(Fault(path="/nodes", action="drop"))
    with pytest.raises(aiohttp.ClientError):
        await api.request("POST", NODES, node())
    assert (await api.get(NODES))["items"] == []


async def test_a_lost_answer_has_done_it(api: Api) -> None:
    await api.create(PODS, pod())
    api.server.faults.append(Fault(path="/binding", action="lose-answer"))
    with pytest.raises(aiohttp.ClientError):
        await api.bind("a", "n1")
    assert (await api.get(f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_an_answer_that_never_comes_has_done_it(api: Api) -> None:
    await api.create(PODS, pod())
    api.server.faults.append(Fault(path="/binding", action="hang-answer"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await api.bind("a", "n1")
    assert (await api.get(f"{PODS}/a"))["spec"]["nodeName"] == "n1"


async def test_a_hanging_request_does_nothing(api: Api) -> None:
    api.server.faults.append(Fault(path="/nodes", action="hang"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await api.request("POST", NODES, node())
    assert (await api.get(NODES))["items"] == []


async def test_a_delayed_request_is_carried_out(api: Api) -> None:
    api.server.faults.append(Fault(path="/nodes", action="delay", delay_s=0.05))
    assert (await api.request("POST", NODES, node())).status == 201
    assert api.server.faults[0].hits == 1


async def test_faults_reach_watches_too(api: Api) -> None:
    api.server.faults.append(Fault(path="/pods", status=503))
    async with api.watch(PODS) as watch:
        assert watch.response.status == 503
    async with api.watch(PODS) as watch:
        assert watch.response.status == 200
