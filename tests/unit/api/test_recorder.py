"""Events: what is written, and how repeats are folded."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.event_series import event_name, truncate_note
from stowplan.clock import rfc3339_micro
from tests.unit.api.api_kit import until
from tests.unit.api.recorder_kit import EVENTS, pod, stage


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
