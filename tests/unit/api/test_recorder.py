"""Events: what is written, how repeats are folded, and that reporting never waits."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.event_series import RecordedEvent, event_name, truncate_note
from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.recorder import EventRecorder
from stowplan.clock import VirtualClock, rfc3339_micro
from tests.unit.api.api_kit import ScriptedServer, Seen, reply, scripted_server, status_body, until

EVENTS = "/apis/events.k8s.io/v1/namespaces"


@dataclass
class EventServer:
    """Keeps events by name; may be told to fail."""

    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails_with: tuple[int, str] | None = None
    hold: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.Response:
        if self.hold is not None:
            await self.hold.wait()
        if self.fails_with:
            code, message = self.fails_with
            return reply(status_body(code, "", message), status=code)
        body = await request.json()
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.events:
                return reply(status_body(409, "AlreadyExists", "it is there"), status=409)
            self.events[name] = body
            return reply(body, status=201)
        name = request.path.rpartition("/")[2]
        if name not in self.events:
            return reply(status_body(404, "NotFound", f'events "{name}" not found'), status=404)
        self.events[name].update(body)
        return reply(self.events[name])


@dataclass
class Stage:
    server: ScriptedServer
    events: EventServer
    recorder: EventRecorder
    clock: VirtualClock

    def report(self, pod: Pod, reason: str = "FailedScheduling", **changes: Any) -> None:
        defaults: dict[str, Any] = {
            "type": "Warning",
            "reason": reason,
            "action": "Scheduling",
            "note": "0/3 nodes are available",
            "reporting_controller": "my-scheduler",
        }
        self.recorder.event(pod, **(defaults | changes))

    async def settled(self) -> list[Seen]:
        """The requests made since the last call."""
        assert await self.recorder.drain(20)
        seen = list(self.server.seen)
        self.server.seen.clear()
        return seen


@asynccontextmanager
async def stage(**options: Any) -> AsyncIterator[Stage]:
    events = EventServer()
    clock = VirtualClock()
    async with scripted_server(events.handle) as server, ApiClient(server.config) as client:
        recorder = EventRecorder(client, clock=clock, retry_initial_s=0.01, **options)
        task = asyncio.create_task(recorder.run())
        try:
            yield Stage(server, events, recorder, clock)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def pod(name: str = "web-0", *, namespace: str = "team", version: str = "7") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=f"uid-{name}", resource_version=version
        )
    )


async def test_the_event_object() -> None:
    async with stage() as it:
        it.report(pod(), related=pod("preemptor"))
        (seen,) = await it.settled()
        now = it.clock.time()
    assert (seen.method, seen.path) == ("POST", f"{EVENTS}/team/events")
    assert seen.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"web-0.{int(now * 1e9):x}", "namespace": "team"},
        "eventTime": rfc3339_micro(now),
        "reportingController": "my-scheduler",
        "reportingInstance": f"my-scheduler-{socket.gethostname()}",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "kind": "Pod",
            "namespace": "team",
            "name": "web-0",
            "uid": "uid-web-0",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "related": {
            "kind": "Pod",
            "namespace": "team",
            "name": "preemptor",
            "uid": "uid-preemptor",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "0/3 nodes are available",
        "type": "Warning",
    }


async def test_the_instance_may_be_given_and_the_namespace_may_be_missing() -> None:
    async with stage(reporting_instance="me-1") as it:
        it.report(pod(namespace=""))
        (seen,) = await it.settled()
    assert seen.path == f"{EVENTS}/default/events"
    assert seen.body["reportingInstance"] == "me-1"
    assert "namespace" not in seen.body["regarding"]


async def test_repeats_become_one_series_whatever_their_note() -> None:
    async with stage() as it:
        it.report(pod(), note="first")
        (created,) = await it.settled()
        name = created.body["metadata"]["name"]
        it.clock.advance(5)
        it.report(pod(), note="second")
        (patched,) = await it.settled()
        assert (patched.method, patched.path) == ("PATCH", f"{EVENTS}/team/events/{name}")
        assert patched.headers["Content-Type"] == "application/strategic-merge-patch+json"
        assert patched.body == {
            "series": {"count": 2, "lastObservedTime": rfc3339_micro(it.clock.time())}
        }
        for _ in range(10):
            it.report(pod(), note="more")
        assert await it.settled() == [], "later ones are only counted"
        assert it.events.events[name]["note"] == "first"
        assert it.recorder.written == 2


@pytest.mark.parametrize(
    "change",
    [
        {"type": "Normal"},
        {"reason": "Scheduled"},
        {"action": "Binding"},
        {"reporting_controller": "other"},
        {"related": pod("other")},
    ],
)
async def test_any_other_difference_makes_another_event(change: dict[str, Any]) -> None:
    async with stage() as it:
        it.report(pod())
        it.report(pod(), **change)
        it.report(pod("web-1"))
        it.report(pod(version="8"))
        seen = await it.settled()
    assert [one.method for one in seen] == ["POST"] * 4
    assert len(it.events.events) == 4, "names differ even at the same moment"


async def test_a_series_at_rest_is_finished_with_its_final_count() -> None:
    async with stage() as it:
        for _ in range(5):
            it.report(pod())
        it.report(pod("single"))
        await it.settled()
        it.clock.advance(6 * 60 - 1)
        it.recorder.sweep()
        assert await it.settled() == []
        it.clock.advance(2)
        it.recorder.sweep()
        (final,) = await it.settled()
        assert final.body["series"]["count"] == 5
        it.recorder.sweep()
        assert await it.settled() == []
        it.report(pod())
        it.report(pod("single"))
        assert [seen.method for seen in await it.settled()] == ["POST", "POST"], "it begins anew"
        assert len(it.events.events) == 4


async def test_a_series_that_goes_on_is_refreshed() -> None:
    async with stage() as it:
        it.report(pod())
        it.report(pod())
        it.report(pod("single"))
        await it.settled()
        for minute in range(1, 31):
            it.clock.advance(60)
            it.report(pod())
            it.recorder.sweep()
            seen = await it.settled()
            if minute < 30:
                assert seen == []
            else:
                assert [one.body["series"]["count"] for one in seen] == [32]


async def test_a_series_whose_event_is_gone_is_created_anew() -> None:
    async with stage() as it:
        it.report(pod())
        await it.settled()
        it.events.events.clear()
        it.report(pod())
        patch, create = await it.settled()
        assert (patch.method, create.method) == ("PATCH", "POST")
        assert create.body["series"]["count"] == 2
        assert it.recorder.dropped == 0


async def test_who_may_only_create_writes_a_repeat_after_half_an_hour_as_a_new_event() -> None:
    async with stage(creates_only=True) as it:
        for _ in range(3):
            it.report(pod())
        (first,) = await it.settled()
        for _ in range(6):
            it.clock.advance(5 * 60)
            it.recorder.sweep()
            it.report(pod())
        (again,) = await it.settled()
    assert (first.method, again.method) == ("POST", "POST")
    assert first.body["metadata"]["name"] != again.body["metadata"]["name"]
    assert "series" not in again.body


async def test_who_may_only_create_tells_news_after_a_minute() -> None:
    async with stage(creates_only=True) as it:
        it.report(pod(), note="no node is labelled")
        it.clock.advance(59)
        it.report(pod(), note="forbidden")
        assert len(await it.settled()) == 1
        it.clock.advance(1)
        it.report(pod(), note="forbidden")
        (news,) = await it.settled()
        assert (news.method, news.body["note"]) == ("POST", "forbidden")


async def test_who_may_only_create_tells_a_lost_event_with_its_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stowplan.api.recorder._TRIES", 1)
    async with stage(creates_only=True) as it:
        it.events.fails_with = (500, "not now")
        it.report(pod())
        await it.settled()
        it.events.fails_with = None
        it.report(pod())
        await it.settled()
        assert (it.recorder.dropped, it.recorder.written) == (1, 1)


async def test_who_may_not_even_create_falls_silent(caplog: pytest.LogCaptureFixture) -> None:
    refusals: list[str] = []
    async with stage(creates_only=True, on_refused=lambda e: refusals.append(str(e))) as it:
        it.events.fails_with = (403, "events are not for you")
        for number in range(3):
            it.report(pod(f"web-{number}"))
        await it.settled()
        it.report(pod("late"))
        assert await it.settled() == []
    assert refusals == ["events are not for you"]
    assert caplog.records == []


async def test_what_is_observed_during_a_write_is_written_after_it() -> None:
    async with stage() as it:
        it.events.hold = asyncio.Event()
        it.report(pod())
        await until(lambda: len(it.server.seen) == 1)
        it.report(pod())
        it.report(pod())
        await asyncio.sleep(0.02)
        assert len(it.server.seen) == 1
        it.events.hold.set()
        create, patch = await it.settled()
        assert "series" not in create.body
        assert patch.body["series"]["count"] == 3


async def test_a_series_on_an_event_that_was_given_up_but_had_arrived() -> None:
    async with stage(retry_limit_s=0.01) as it:
        inner = it.server.handler

        async def lose_every_answer(request: web.Request) -> web.StreamResponse:
            answer = await inner(request)
            assert request.transport is not None
            request.transport.abort()
            return answer

        it.server.handler = lose_every_answer
        it.report(pod())
        await it.settled()
        assert it.recorder.dropped == 1
        it.server.handler = inner
        it.report(pod())
        assert [seen.method for seen in await it.settled()] == ["POST", "PATCH"]
        (event,) = it.events.events.values()
        assert event["series"]["count"] == 2


# When things go wrong


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
    told = [getattr(record, "kv")["events"] for record in caplog.records]  # noqa: B009
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


async def test_a_write_whose_answer_was_lost_is_not_written_twice() -> None:
    """The first try arrives, its answer does not: the second finds it there and is content."""
    async with stage() as it:
        inner = it.server.handler
        is_first = True

        async def lose_the_answer(request: web.Request) -> web.StreamResponse:
            nonlocal is_first
            answer = await inner(request)
            if is_first:
                is_first = False
                assert request.transport is not None
                request.transport.abort()
            return answer

        it.server.handler = lose_the_answer
        it.report(pod())
        assert [seen.method for seen in await it.settled()] == ["POST", "POST"]
        assert len(it.events.events) == 1
        assert (it.recorder.written, it.recorder.dropped) == (1, 0)


async def test_a_series_that_begins_before_its_event_is_known_to_be_written() -> None:
    async with stage() as it:
        inner = it.server.handler
        is_first = True

        async def lose_the_answer(request: web.Request) -> web.StreamResponse:
            nonlocal is_first
            answer = await inner(request)
            if is_first:
                is_first = False
                it.report(pod())
                assert request.transport is not None
                request.transport.abort()
            return answer

        it.server.handler = lose_the_answer
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
        left = [each for each in gc.get_objects() if isinstance(each, RecordedEvent)]
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


@pytest.mark.parametrize(("age_s", "at_a_time"), [(0, 1), (60, 64)])
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


# Names and notes


def test_notes_are_cut_by_bytes() -> None:
    assert truncate_note("x" * 1024) == "x" * 1024
    assert truncate_note("x" * 1025) == "x" * 1020 + " ..."
    cut = truncate_note("é" * 600)
    assert cut == "é" * 510 + " ..."
    assert truncate_note("a" + "é" * 600) == "a" + "é" * 509 + " ..."
    assert truncate_note("lone \udc80 surrogate") == "lone ? surrogate"


def test_event_names() -> None:
    assert event_name("web-0", 0x17) == "web-0.17"
    assert event_name("a.b", 255) == "a.b.ff"
    for impossible in ("Upper", "x" * 252, "", "a_b"):
        assert len(event_name(impossible, 1)) == 36
