"""Limits of POST /v1/decide: requests that wait, time, the size of answers, and turns of others."""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias

import msgspec
import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.http.messages import Request, Response
from stowplan.http.parser import parse_request
from stowplan.scheduler.process import SchedulerProcess
from stowplan.server import decide_api
from stowplan.server.decide_api import MAX_WAITING, DecideApi
from tests.unit.judge.live_engine import live_engine

Json: TypeAlias = dict[str, Any]

POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    for number in range(20)
]


def process(*, is_synced: bool = True) -> SchedulerProcess:
    """A process that does not run; its cluster has been read."""
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"))
    made = SchedulerProcess(live_engine(NODES), client)
    if is_synced:
        for informer in made.informers.values():
            informer.synced.set()
    return made


async def ask(api: DecideApi, question: Json) -> tuple[Response, Json]:
    head = b"POST /v1/decide HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
    response = await api(Request(parse_request(head), msgspec.json.encode(question)), {})
    return response, msgspec.json.decode(response.body)


async def test_nothing_is_answered_before_the_cluster_is_read() -> None:
    response, said = await ask(DecideApi(process(is_synced=False), None), {"pod": POD})
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert said["message"] == "the scheduler has not read the cluster yet; see /readyz"


async def test_few_requests_wait() -> None:
    api = DecideApi(process(), None)
    asked = [ask(api, {"questions": [{"pod": POD}] * 3}) for _ in range(MAX_WAITING + 4)]
    statuses = [response.status for response, _ in await asyncio.gather(*asked)]
    assert statuses == [200] * (MAX_WAITING + 1) + [429] * 3
    assert (await ask(api, {"pod": POD}))[0].status == 200


async def test_a_client_that_leaves_makes_room() -> None:
    api = DecideApi(process(), None)
    leaving = [asyncio.create_task(ask(api, {"questions": [{"pod": POD}] * 50})) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
    results = await asyncio.gather(*leaving, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in results)
    assert (await ask(api, {"pod": POD}))[0].status == 200


async def test_others_have_a_turn_between_questions() -> None:
    """Turns of the event loop are counted: at least one for every question."""
    api, turns, count = DecideApi(process(), None), 0, 60

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    _, said = await ask(api, {"questions": [{"pod": POD}] * count})
    counting.cancel()
    assert len(said["answers"]) == count
    assert turns >= count


async def test_the_time_of_a_request_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide_api, "MAX_SECONDS", 0.0)
    api = DecideApi(process(), None)
    response, said = await ask(api, {"pod": POD})
    assert (response.status, said["message"]) == (
        503,
        "not answered within the 0 s of a request",
    )
    response, said = await ask(api, {"questions": [{"id": "a", "pod": POD}, 7]})
    error = "not answered within the 0 s of a request"
    assert response.status == 200
    assert said["answers"] == [{"id": "a", "error": error}, {"id": 2, "error": error}]


async def test_the_size_of_answers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    api = DecideApi(process(), None)
    _, said = await ask(api, {"pod": POD})
    size = len(msgspec.json.encode(said))
    monkeypatch.setattr(decide_api, "MAX_ANSWER_BYTES", 2 * size + size // 2)
    _, said = await ask(api, {"questions": [{"id": number, "pod": POD} for number in range(4)]})
    answers = said["answers"]
    assert [each["id"] for each in answers] == [0, 1, 2, 3]
    assert ["error" in each for each in answers] == [False, False, True, True]
    assert "Fix: ask fewer questions at a time, or with ?detail=summary" in answers[2]["error"]
    monkeypatch.setattr(decide_api, "MAX_ANSWER_BYTES", size - 1)
    assert (await ask(api, {"pod": POD}))[0].status == 400
