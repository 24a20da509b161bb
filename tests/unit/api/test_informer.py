"""The informer's store and handlers, whatever the server does to its lists and streams."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import msgspec
import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS
from stowplan.clock import VirtualClock
from tests.unit.api.api_kit import (
    bookmark,
    event_line,
    pod,
    pod_list,
    reply,
    scripted_server,
    status_body,
    until,
)
from tests.unit.api.informer_kit import (
    CUT,
    GONE,
    HOLD,
    QUICK,
    Refusal,
    Script,
    added,
    deleted,
    modified,
    running,
)

# List and watch


async def test_list_in_pages_then_follow() -> None:
    clock = VirtualClock(500.0)
    script = Script(
        lists=[
            pod_list(pod("a", version=1), pod("b", version=2), version=10, continue_token="x"),
            pod_list(pod("c", version=3), version=10),
        ],
        watches=[[added("d", 11), modified("a", 12), deleted("b", 13), bookmark(20), HOLD]],
    )
    async with running(
        script, options=replace(QUICK, page_size=2), clock=clock, field_selector="a=b"
    ) as it:
        await it.informer.synced.wait()
        await until(lambda: it.informer.resource_version == 20)
        assert it.log == ["+a@1", "+b@2", "+c@3", "+d@11", "~a@1>12", "-b@13"]
        assert sorted(it.informer.store) == ["ns/a", "ns/c", "ns/d"]
        assert it.informer.store["ns/a"].metadata.resource_version == "12"
        assert it.informer.list_started_at == 500.0
        assert script.watched_from == ["10"]
        assert all(seen.query["fieldSelector"] == "a=b" for seen in it.server.seen)
        watch = it.server.seen[-1].query
        assert 300 <= int(watch["timeoutSeconds"]) <= 600
        assert watch["allowWatchBookmarks"] == "true"


async def test_objects_without_namespace_are_known_by_name() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            await asyncio.sleep(10)
            return stream
        return reply(pod_list({"metadata": {"name": "n1", "uid": "u"}}, version=1))

    names: list[str] = []
    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        informer = Informer(
            client,
            NODES,
            on_add=lambda node: names.append(node.name),
            on_update=lambda old, new: None,
            on_delete=lambda node: None,
        )
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert list(informer.store) == ["n1"]
    assert names == ["n1"]


async def test_a_stream_that_ends_is_resumed_where_it_was() -> None:
    script = Script(
        lists=[pod_list(version=5)],
        watches=[
            [added("a", 6)],
            [bookmark(9), CUT],
            [added("b", 10), b'{"type":"ADD', CUT],
            [HOLD],
        ],
    )
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 4)
        assert script.watched_from == ["5", "6", "9", "10"]
        assert it.log == ["+a@6", "+b@10"]
        assert script.lists_served == 1


async def test_events_seen_twice_are_told_once() -> None:
    script = Script(
        lists=[pod_list(pod("a", version=5), version=5)],
        watches=[[added("a", 5), modified("a", 6), modified("a", 6), deleted("x", 7), HOLD]],
    )
    async with running(script) as it:
        await until(lambda: it.informer.resource_version == 7)
        assert it.log == ["+a@5", "~a@5>6"]


async def test_since_when_nothing_was_watched() -> None:
    clock, cut, gone = VirtualClock(500.0), asyncio.Event(), asyncio.Event()
    script = Script(
        lists=[pod_list(version=5), Refusal(500)],
        watches=[
            *([added("a", 6), cut, CUT], Refusal(503)),
            *([gone, event_line("ERROR", GONE)], [HOLD]),
        ],
    )
    async with running(script, clock=clock) as it:

        def since() -> float | None:
            return it.informer.unwatched_since

        assert since() is None  # nothing is known yet
        await until(lambda: it.informer.resource_version == 6)
        assert since() is None
        clock.advance(10.0)
        cut.set()
        await until(lambda: len(script.watched_from) == 3)
        clock.advance(10.0)
        await until(lambda: since() is None)
        assert not it.informer.must_list
        gone.set()  # the stream tells nothing, so it was never of use
        await until(lambda: script.lists_served > 1)
        assert since() == 510.0
        assert it.informer.must_list


# 410


async def test_gone_in_the_stream_lists_again_and_tells_only_differences() -> None:
    script = Script(
        lists=[
            pod_list(
                pod("same", version=1),
                pod("changed", version=2),
                pod("vanished", version=3),
                pod("reborn", version=4),
                version=5,
            ),
            pod_list(
                pod("new", version=9),
                pod("same", version=1),
                pod("changed", version=8),
                pod("reborn", version=7, uid="other"),
                version=10,
            ),
        ],
        watches=[[bookmark(6), event_line("ERROR", GONE)], [HOLD]],
    )
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 2)
        assert it.log[4:] == ["-vanished@3", "-reborn@4", "+new@9", "~changed@2>8", "+reborn@7"]
        assert script.watched_from == ["5", "10"]
        assert it.informer.resource_version == 10


async def test_gone_on_connect_lists_again() -> None:
    script = Script(
        lists=[pod_list(pod("a"), version=5), pod_list(version=8)],
        watches=[Refusal(410), [HOLD]],
    )
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 2)
        assert it.log == ["+a@1", "-a@1"]
        assert script.watched_from == ["5", "8"]


# Identity


async def test_a_new_uid_is_a_new_object() -> None:
    script = Script(
        lists=[pod_list(pod("a", version=1), pod("b", version=2), version=5)],
        watches=[
            [modified("a", 6, uid="new"), added("b", 7, uid="new"), deleted("b", 8, uid="x"), HOLD]
        ],
    )
    async with running(script) as it:
        await until(lambda: it.informer.resource_version == 8)
        assert it.log == ["+a@1", "+b@2", "-a@1", "+a@6", "-b@2", "+b@7", "-b@7"]
        assert it.informer.store["ns/a"].uid == "new"


# Junk


async def test_lines_cut_anywhere() -> None:
    data = added("a", 6) + b"\n\r\n" + added("ünïcode-päd", 7) + bookmark(8)
    for size in (1, 3, 7):
        chunks = [data[i : i + size] for i in range(0, len(data), size)]
        script = Script(lists=[pod_list(version=5)], watches=[[*chunks, HOLD]])
        async with running(script) as it:
            await until(lambda it=it: it.informer.resource_version == 8)  # type: ignore[misc]  # mypy: a lambda with a default
            assert it.log == ["+a@6", "+ünïcode-päd@7"]


async def test_a_huge_line() -> None:
    annotations = {"big": "x" * 3_000_000}
    big = pod("a", version=6)
    big["metadata"]["annotations"] = annotations
    script = Script(lists=[pod_list(version=5)], watches=[[event_line("ADDED", big), HOLD]])
    async with running(script) as it:
        await until(lambda: it.informer.resource_version == 6)
        assert it.informer.store["ns/a"].metadata.annotations == annotations


@pytest.mark.parametrize(
    "junk",
    [
        b"<html>\n",
        b"\xff\xfe\n",
        b"[1,2]\n",
        b'{"type":5,"object":{}}\n',
        b'{"type":"ADDED"}\n',
        b"[" * 50_000 + b"\n",
        event_line("ERROR", status_body(500, "InternalError", "oops")),
        event_line("ERROR", "not even a status"),
    ],
)
async def test_a_line_that_is_no_event_loses_nothing(junk: bytes) -> None:
    script = Script(
        lists=[pod_list(version=5)],
        watches=[[added("a", 6) + junk + added("lost", 7)], [added("b", 7), HOLD]],
    )
    async with running(script) as it:
        await until(lambda: it.informer.resource_version == 7)
        assert script.watched_from == ["5", "6"]
        assert it.log == ["+a@6", "+b@7"]


async def test_a_stream_of_nothing_but_junk_leads_to_a_new_list() -> None:
    script = Script(
        lists=[pod_list(version=5), pod_list(pod("a", version=7), version=8)],
        watches=[[b"junk\n"], [b"junk\n"], [b"junk\n"], [HOLD]],
    )
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 4)
        assert script.watched_from == ["5", "5", "5", "8"]
        assert it.log == ["+a@7"]


async def test_streams_that_end_at_once_are_not_asked_for_in_a_tight_loop() -> None:
    script = Script(lists=[pod_list(version=5), pod_list(version=6)], watches=[[], [], [], [HOLD]])
    async with running(script):
        await until(lambda: len(script.watched_from) == 4)
    assert script.watched_from == ["5", "5", "5", "6"]


async def test_bad_objects_are_skipped_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(
        lists=[pod_list(pod("bad", spec="text"), pod("ok", version=2), {}, 7, version=5)],
        watches=[
            [
                modified("bad", 6, spec=[]),
                modified("ok", 7, status="wrong"),
                event_line("MODIFIED", {"metadata": 5}),
                event_line("ADDED", {}),
                event_line("BOOKMARK", {"metadata": []}),
                event_line("STRANGE", pod("ok", version=8)),
                modified("bad", 9, spec=[]),
                added("good", 10),
                HOLD,
            ]
        ],
    )
    with caplog.at_level(logging.WARNING, "stowplan"):
        async with running(script) as it:
            await until(lambda: it.informer.resource_version == 10)
            assert it.log == ["+ok@2", "+good@10"]
            assert len(script.watched_from) == 1, "the stream went on"
    skipped = [record.kv["object"] for record in caplog.records if hasattr(record, "kv")]
    assert sorted(skipped) == [
        "a bookmark",
        "an object without a name",
        "an object without readable metadata",
        "event type STRANGE",
        "ns/bad",
        "ns/ok",
    ]


async def test_what_becomes_unreadable_stays_as_known_until_it_is_gone() -> None:
    script = Script(
        lists=[
            pod_list(pod("a", version=1), pod("b", version=2), pod("c", version=3), version=5),
            pod_list(
                pod("a", version=6, spec=0),
                pod("b", version=7, spec=0, uid="other"),
                version=8,
            ),
        ],
        watches=[[event_line("ERROR", GONE)], [deleted("a", 9, spec=0), HOLD]],
    )
    async with running(script) as it:
        await until(lambda: it.informer.resource_version == 9)
        assert it.log[3:] == ["-b@2", "-c@3", "-a@1"]
        assert it.informer.store == {}


# Handlers


async def test_a_handler_that_raises_does_not_stop_anything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(
        lists=[pod_list(pod("a"), pod("b"), version=5)], watches=[[added("c", 6), HOLD]]
    )
    calls: list[str] = []

    def broken(obj: Pod) -> None:
        calls.append(obj.metadata.name)
        raise RuntimeError("handler is broken")

    async with scripted_server(script.handle) as server, ApiClient(server.config) as client:
        informer = Informer(
            client, PODS, on_add=broken, on_update=lambda old, new: None, on_delete=broken
        )
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.resource_version == 6)
        script.over.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert calls == ["a", "b", "c"]
    assert sorted(informer.store) == ["ns/a", "ns/b", "ns/c"]
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 3


async def test_the_store_is_changed_before_its_handler_is_called() -> None:
    script = Script(
        lists=[pod_list(pod("a"), version=5)], watches=[[modified("a", 6), deleted("a", 7), HOLD]]
    )
    seen: list[str | None] = []

    async with scripted_server(script.handle) as server, ApiClient(server.config) as client:

        def look(*_: Pod) -> None:
            known = informer.store.get("ns/a")
            seen.append(known.metadata.resource_version if known else None)

        informer = Informer(client, PODS, on_add=look, on_update=look, on_delete=look)
        task = asyncio.create_task(informer.run())
        await until(lambda: informer.resource_version == 7)
        script.over.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert seen == ["1", "6", None]


async def test_raw_objects_are_told_until_they_are_gone() -> None:
    told: list[str] = []

    def on_raw(obj: Pod, raw: bytes | msgspec.Raw | None) -> None:
        if raw is None:
            told.append(f"-{obj.metadata.name}")
            return
        known = msgspec.json.decode(raw)["metadata"]
        told.append(f"{known['name']}@{known['resourceVersion']}")

    script = Script(
        lists=[pod_list(pod("a", version=1), pod("b", version=2), version=5)],
        watches=[[modified("a", 6), added("c", 7), deleted("b", 8), HOLD]],
    )
    async with running(script, on_raw=on_raw) as it:
        await until(lambda: it.informer.resource_version == 8)
    assert told == ["a@1", "b@2", "a@6", "c@7", "-b"]
