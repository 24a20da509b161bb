"""Events when things go wrong or are many: reporting never waits, and forgets what it can."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.event_series import RecordedEvent
from stowplan.errors import Throttled
from tests.unit.api.api_kit import reply, until
from tests.unit.api.recorder_kit import Stage, pod, stage


@pytest.mark.parametrize("code", [500, 503])
async def test_an_api_server_in_trouble_is_tried_again(code: int) -> None:
    async with stage() as it:
        it.events.fails_with = (code, "later")
        it.report(pod())
        await until(lambda: len(it.server.seen) >= 3)
        it.events.fails_with = None
        await it.settled()
        assert it.recorder.written == 1
        assert it.recorder.dropped == 0


async def test_newer_events_do_not_overtake_one_that_is_tried_again() -> None:
    """A successor finds missing events by their order."""
    async with stage(retry_limit_s=0.02) as it:
        it.events.fails_with, it.events.fails_for = (503, "later"), "first"
        it.report(pod("first"))
        await until(lambda: len(it.server.seen) >= 2)
        for number in range(20):
            it.report(pod(f"newer-{number}"))
        await until(lambda: len(it.server.seen) >= 6)
        assert it.events.events == {}
        it.events.fails_with = None
        await it.settled()
        assert it.recorder.written == 21


async def test_one_that_stays_in_trouble_does_not_hold_up_others_for_ever() -> None:
    async with stage(retry_initial_s=30.0) as it:
        it.events.fails_with, it.events.fails_for = (503, "never"), "first"
        it.report(pod("first"))
        await until(lambda: it.recorder._retrying == 1)  # the answer has arrived
        it.report(pod("newer"))
        await asyncio.sleep(0.1)
        assert it.events.events == {}
        it.clock.advance(31)
        await until(lambda: len(it.events.events) == 1)


async def test_an_api_server_that_is_busy_is_tried_again() -> None:
    """429, after the client itself has waited as long as it does."""
    async with stage() as it:
        it.recorder._client = Busy(it.recorder._client, times=2)  # type: ignore[assignment]  # a stand-in
        it.report(pod())
        await it.settled()
        assert (it.recorder.written, it.recorder.dropped) == (1, 0)


class Busy:
    """A client whose first requests end with 429."""

    def __init__(self, client: ApiClient, times: int) -> None:
        self._client = client
        self._left = times

    async def request(self, *arguments: Any, **options: Any) -> bytes:
        if self._left:
            self._left -= 1
            raise Throttled("busy", status=429)
        return await self._client.request(*arguments, **options)


async def test_after_twelve_tries_an_event_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(retry_limit_s=0.01) as it:
        it.events.fails_with = (500, "never")
        it.report(pod())
        it.report(pod("other"))
        assert len(await it.settled()) == 24
        assert it.recorder.dropped == 2
        assert it.recorder.written == 0
        lost = [record.message for record in caplog.records]
        assert lost == ["Events were lost"], "told once a minute"
        it.clock.advance(61)
        it.report(pod("third"))
        await it.settled()
    told = [record.__dict__["kv"]["events"] for record in caplog.records]
    assert told == [1, 2]


@pytest.mark.parametrize("code", [400, 403, 422])
async def test_refused_events_are_dropped_at_once(code: int) -> None:
    async with stage() as it:
        it.events.fails_with = (code, "not allowed")
        it.report(pod())
        assert len(await it.settled()) == 1
        assert it.recorder.dropped == 1


async def test_events_of_a_namespace_that_ends_are_dropped_silently(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = (
        'events.events.k8s.io "x" is forbidden: unable to create new content in namespace team '
        "because it is being terminated"
    )
    caplog.set_level(logging.INFO)
    async with stage() as it:
        it.events.fails_with = (403, message)
        it.report(pod())
        await it.settled()
        it.events.fails_with = (404, 'namespaces "team" not found')
        it.report(pod("other"))
        await it.settled()
        assert it.recorder.dropped == 0
        assert it.recorder.written == 0
    assert not [record for record in caplog.records if record.name.startswith("stowplan")]


def lose_the_first_answer(it: Stage, meanwhile: Callable[[], object] = lambda: None) -> None:
    inner = it.server.handler
    is_first = True

    async def lose_the_answer(request: web.Request) -> web.StreamResponse:
        nonlocal is_first
        answer = await inner(request)
        if is_first:
            is_first = False
            meanwhile()
            assert request.transport is not None
            request.transport.abort()
        return answer

    it.server.handler = lose_the_answer


async def test_a_write_whose_answer_was_lost_is_not_written_twice() -> None:
    """The first try arrives, its answer does not: the second finds it there and is content."""
    async with stage() as it:
        lose_the_first_answer(it)
        it.report(pod())
        assert [seen.method for seen in await it.settled()] == ["POST", "POST"]
        assert len(it.events.events) == 1
        assert (it.recorder.written, it.recorder.dropped) == (1, 0)


async def test_a_series_that_begins_before_its_event_is_known_to_be_written() -> None:
    async with stage() as it:
        lose_the_first_answer(it, lambda: it.report(pod()))
        it.report(pod())
        await it.settled()
        (event,) = it.events.events.values()
        assert event["series"]["count"] == 2


async def test_a_full_queue_drops_and_never_waits() -> None:
    async with stage(queue_size=5) as it:
        it.events.hold = asyncio.Event()
        for number in range(100):
            it.report(pod(f"p{number}"))
        assert it.recorder.dropped == 95
        it.events.hold.set()
        await it.settled()
        assert it.recorder.written == 5
        it.report(pod("p99"))
        (seen,) = await it.settled()
        assert seen.method == "POST", "a dropped event is not remembered as written"


async def test_only_so_many_events_are_remembered() -> None:
    async with stage(remembered=3) as it:
        it.report(pod("p0"))
        it.report(pod("p0"))
        for number in range(1, 4):
            it.report(pod(f"p{number}"))
        await it.settled()
        it.report(pod("p3"))
        it.report(pod("p0"))
        methods = [seen.method for seen in await it.settled()]
        assert sorted(methods) == ["PATCH", "POST"]


async def test_what_happens_only_once_is_not_remembered() -> None:
    async with stage() as it:
        for number in range(50):
            it.report(pod(f"p{number}"), "Scheduled", once=True)
        assert len(await it.settled()) == 50
        gc.collect()
        # Failures that other tests logged may keep events of theirs.
        left = [
            each
            for each in gc.get_objects()
            if isinstance(each, RecordedEvent) and each.key.reason == "Scheduled"
        ]
        assert len(left) <= 8, "each worker may have its last one in its hand"
        it.report(pod("p0"), "Scheduled", once=True)
        assert [seen.method for seen in await it.settled()] == ["POST"]


async def test_of_pods_that_failed_again_and_again_and_were_bound_nothing_is_remembered() -> None:
    def known(of: str) -> int:
        gc.collect()
        return sum(
            isinstance(each, RecordedEvent) and each.key.regarding.name.startswith(of)
            for each in gc.get_objects()
        )

    async with stage() as it:
        for version in range(20):
            for number in range(5):
                it.report(pod(f"waits-{number}", version=str(version)))
                it.report(pod(f"gets-a-place-{number}", version=str(version)))
        for number in range(5):
            it.report(pod(f"gets-a-place-{number}", version="19"))
            it.report(pod(f"gets-a-place-{number}", version="20"), "Scheduled", once=True)
        seen = await it.settled()
        assert sum(each.method == "POST" for each in seen) == 205
        # Those who write may have their last one in their hand, which is of the pods with a place.
        assert known("waits") == 5
        assert known("gets-a-place") <= 8
        places = [each for each in it.events.events.values() if "series" in each]
        assert [each["series"]["count"] for each in places] == [2] * 5, "what is forgotten is told"


async def test_writes_are_few_at_a_time() -> None:
    now, most = 0, 0
    async with stage() as it:

        async def handler(request: web.Request) -> web.Response:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.005)
            now -= 1
            return reply({}, status=201)

        it.server.handler = handler
        for number in range(50):
            it.report(pod(f"p{number}"))
        await it.settled()
    assert most == 8


@pytest.mark.parametrize(("age_s", "at_a_time"), [(0, 0), (60, 64)])
async def test_while_others_are_busy_events_wait_until_they_are_old(
    age_s: float, at_a_time: int
) -> None:
    under_way = 0
    enough = asyncio.Event()
    is_busy = False
    async with stage(is_busy=lambda: is_busy) as it:
        for number in range(100):  # the lane itself begins with few, and lets in more as it goes
            it.report(pod(f"earlier{number}"))
        await it.settled()
        is_busy = True

        async def handler(request: web.Request) -> web.Response:
            nonlocal under_way
            under_way += 1
            await enough.wait()
            return reply({}, status=201)

        it.server.handler = handler
        for number in range(80):
            it.report(pod(f"p{number}"))
        it.clock.advance(age_s)
        await until(lambda: under_way == at_a_time)
        await asyncio.sleep(0.05)
        assert under_way == at_a_time
        is_busy = False
        enough.set()
        await it.settled()
    assert under_way == 80


async def test_drain_gives_up_in_time() -> None:
    async with stage() as it:
        it.events.hold = asyncio.Event()
        it.report(pod())
        assert not await it.recorder.drain(0.05)
        it.events.hold.set()
        assert await it.recorder.drain(10)
