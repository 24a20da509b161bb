"""Workers that ask each other: metrics of all, rescheduling by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import isawaitable

import pytest

from stowplan.extender.algorithms.nop import NOPAlgorithm
from stowplan.extender.configuration import Configured, Settings
from stowplan.extender.mailboxes import Mailboxes
from stowplan.extender.peers import Peers, one_page
from stowplan.extender.service import Service
from stowplan.extender.serving import configured_for
from stowplan.http.messages import Request, Response
from stowplan.http.parser import Headers, RequestHead

PAGES = (
    "# HELP a Some.\n# TYPE a counter\na 1\n# HELP b_seconds Others.\n# TYPE b_seconds histogram\n"
    'b_seconds_bucket{le="1"} 2\nb_seconds_sum 0.5\n',
    "# HELP a Some.\n# TYPE a counter\na 3\n# HELP c { braces }\n# TYPE c gauge\n"
    'c{text="with { and space"} 4\nc 5 1700000000000\n',
)


def test_pages_become_one() -> None:
    assert one_page([*PAGES, None]).splitlines() == [
        "# HELP wca_scheduler_worker_up 1 if the worker's metrics are here.",
        "# TYPE wca_scheduler_worker_up gauge",
        'wca_scheduler_worker_up{worker="0"} 1',
        'wca_scheduler_worker_up{worker="1"} 1',
        'wca_scheduler_worker_up{worker="2"} 0',
        "# HELP a Some.",
        "# TYPE a counter",
        'a{worker="0"} 1',
        'a{worker="1"} 3',
        "# HELP b_seconds Others.",
        "# TYPE b_seconds histogram",
        'b_seconds_bucket{worker="0",le="1"} 2',
        'b_seconds_sum{worker="0"} 0.5',
        "# HELP c { braces }",
        "# TYPE c gauge",
        'c{worker="1",text="with { and space"} 4',
        'c{worker="1"} 5 1700000000000',
    ]


def asked(path: str, method: str = "GET", query: str = "") -> Request:
    headers = Headers(b"\r\nAuthorization: Bearer x\r\n")
    return Request(RequestHead(method, path, query, headers, 0, True), b"")


async def answer_of(service: Service, request: Request) -> Response:
    coming = service.answer(request)
    return await coming if isawaitable(coming) else coming


class Crowd:
    """Workers that are all in one process, each with what it was told to reschedule."""

    def __init__(self, count: int) -> None:
        self.mailboxes = Mailboxes(count)
        self.told: list[tuple[int, Request]] = []
        self.services = [self._service(number) for number in range(count)]
        self.peers = [Peers(self.mailboxes, number, patience_s=0.2) for number in range(count)]
        for peers, service in zip(self.peers, self.services, strict=True):
            peers.attach(service)

    def _service(self, number: int) -> Service:
        def reschedule(request: Request) -> Response:
            self.told.append((number, request))
            return Response(b"[]", 202, "text/x-test", {"X-Worker": str(number)})

        service = Service(NOPAlgorithm())
        service.add_route("POST", "/reschedule", reschedule, is_open=True)
        service.add_route("GET", "/reschedule", reschedule)
        service.metrics.requests["filter"] = number + 10
        return service


@asynccontextmanager
async def crowd(count: int, *, absent: int | None = None) -> AsyncIterator[Crowd]:
    made = Crowd(count)
    leaving = [
        made.mailboxes.take_from(number, peers.take)
        for number, peers in enumerate(made.peers)
        if number != absent
    ]
    try:
        yield made
    finally:
        for leave in leaving:
            leave()
        made.mailboxes.close()


@pytest.mark.parametrize("at", [0, 1, 2])
async def test_each_tells_of_all(at: int) -> None:
    async with crowd(3) as made:
        page = (await answer_of(made.services[at], asked("/metrics"))).body.decode()
    for number in range(3):
        assert f'wca_scheduler_worker_up{{worker="{number}"}} 1\n' in page
        assert f'wca_scheduler_filter{{worker="{number}"}} {number + 10}\n' in page


async def test_one_that_does_not_answer_is_told() -> None:
    async with crowd(2, absent=1) as made:
        page = (await answer_of(made.services[0], asked("/metrics"))).body.decode()
    assert 'wca_scheduler_worker_up{worker="1"} 0\n' in page
    assert 'wca_scheduler_filter{worker="0"} 10\n' in page
    assert 'wca_scheduler_filter{worker="1"}' not in page


@pytest.mark.parametrize("method", ["POST", "GET", "HEAD"])
async def test_the_first_reschedules_whoever_is_asked(method: str) -> None:
    async with crowd(2) as made:
        for service in made.services:
            answer = await answer_of(service, asked("/reschedule", method, "dryRun=true"))
            assert answer == Response(b"[]", 202, "text/x-test", {"X-Worker": "0"})
    assert [number for number, _ in made.told] == [0, 0]
    for _, request in made.told:
        assert (request.head.method, request.head.query) == (method, "dryRun=true")
        assert request.head.headers.get("authorization") == "Bearer x"


async def test_routes_stay_as_open_as_they_were() -> None:
    async with crowd(2) as made:
        routes = made.services[1].routes
        assert routes["/reschedule"]["POST"].is_open
        assert not routes["/reschedule"]["GET"].is_open
        assert not routes["/metrics"]["GET"].is_open


async def test_nobody_reschedules_while_the_first_is_gone() -> None:
    async with crowd(2) as made:
        made.mailboxes.close()
        answer = await answer_of(made.services[1], asked("/reschedule", "POST"))
    assert (answer.status, answer.headers) == (503, {"Retry-After": "5"})
    assert made.told == []


async def test_a_question_that_is_none_is_survived() -> None:
    async with crowd(2) as made:
        service = made.services[1]
        service.add_route("GET", "/metrics", made.peers[1]._all_metrics)
        unknown = asked("/nothing")
        assert await made.peers[1]._ask(0, unknown, 0.2) is None
        page = (await answer_of(service, asked("/metrics"))).body.decode()
        assert 'wca_scheduler_worker_up{worker="0"} 1\n' in page


def test_only_the_first_reschedules_of_its_own_accord() -> None:
    algorithm = NOPAlgorithm()
    configured = Configured(
        algorithm, settings=Settings(reschedule_interval=5.0, reschedule_limit=3)
    )
    assert configured_for(0, configured) is configured
    for number in (1, 2):
        other = configured_for(number, configured)
        assert other.settings == Settings(reschedule_interval=0.0, reschedule_limit=3)
        assert other.algorithm is algorithm
