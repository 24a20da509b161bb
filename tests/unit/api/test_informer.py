"""The informer's store and handlers, whatever the server does to its lists and streams."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS
from stowplan.clock import VirtualClock
from stowplan.errors import Forbidden, StowplanError, Unauthorized
from tests.unit.api.api_kit import (
    ScriptedServer,
    bookmark,
    event_line,
    pod,
    pod_list,
    reply,
    scripted_server,
    status_body,
    until,
)

GONE = status_body(410, "Expired", "too old resource version")
HOLD: Any = object()
CUT: Any = object()


@dataclass
class Refusal:
    """An answer with an error instead of a list or stream."""

    code: int
    message: str = ""
    retry_after: str = ""

    def answer(self) -> web.Response:
        headers = {"Retry-After": self.retry_after} if self.retry_after else None
        return reply(status_body(self.code, "", self.message), status=self.code, headers=headers)


@dataclass
class Script:
    """What the server does: lists and watches in turn, the last of each again and again.

    A watch is a list of chunks to write; `HOLD` keeps the stream open until the test ends,
    `CUT` breaks the connection, a Refusal answers with an error.
    """

    lists: list[Any]
    watches: list[Any] = field(default_factory=lambda: [[HOLD]])
    over: asyncio.Event = field(default_factory=asyncio.Event)
    lists_served: int = 0
    watched_from: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            number = len(self.watched_from)
            self.watched_from.append(request.query["resourceVersion"])
            return await self._watch(request, self.watches[min(number, len(self.watches) - 1)])
        answer = self.lists[min(self.lists_served, len(self.lists) - 1)]
        self.lists_served += 1
        return answer.answer() if isinstance(answer, Refusal) else reply(answer)

    async def _watch(self, request: web.Request, plan: Any) -> web.StreamResponse:
        if isinstance(plan, Refusal):
            return plan.answer()
        stream = web.StreamResponse()
        await stream.prepare(request)
        for step in plan:
            if step is HOLD:
                await self.over.wait()
            elif step is CUT:
                assert request.transport is not None
                request.transport.abort()
                break
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await stream.write(step)
                await asyncio.sleep(0)
        return stream


@dataclass
class Observed:
    """What the handlers were told, in order."""

    log: list[str] = field(default_factory=list)

    def add(self, obj: Pod) -> None:
        self.log.append(f"+{obj.metadata.name}@{obj.metadata.resource_version}")

    def update(self, old: Pod, new: Pod) -> None:
        versions = f"{old.metadata.resource_version}>{new.metadata.resource_version}"
        self.log.append(f"~{new.metadata.name}@{versions}")

    def delete(self, obj: Pod) -> None:
        self.log.append(f"-{obj.metadata.name}@{obj.metadata.resource_version}")


@dataclass
class Running:
    informer: Informer[Pod]
    observed: Observed
    server: ScriptedServer
    script: Script
    task: asyncio.Task[None]

    @property
    def log(self) -> list[str]:
        return self.observed.log


@asynccontextmanager
async def running(script: Script, **options: Any) -> AsyncIterator[Running]:
    options = {"retry_initial_s": 0.01, "retry_limit_s": 0.05} | options
    observed = Observed()
    async with scripted_server(script.handle) as server, ApiClient(server.config) as client:
        informer = Informer(
            client,
            PODS,
            on_add=observed.add,
            on_update=observed.update,
            on_delete=observed.delete,
            **options,
        )
        task = asyncio.create_task(informer.run())
        try:
            yield Running(informer, observed, server, script, task)
        finally:
            script.over.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def added(name: str, version: int, **changes: Any) -> bytes:
    return event_line("ADDED", pod(name, version=version, **changes))


def modified(name: str, version: int, **changes: Any) -> bytes:
    return event_line("MODIFIED", pod(name, version=version, **changes))


def deleted(name: str, version: int, **changes: Any) -> bytes:
    return event_line("DELETED", pod(name, version=version, **changes))


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
    async with running(script, page_size=2, clock=clock, field_selector="a=b") as it:
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
            await until(lambda it=it: it.informer.resource_version == 8)  # type: ignore[misc]
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


# Trouble


async def test_silence_reconnects_without_listing() -> None:
    script = Script(lists=[pod_list(version=5)], watches=[[bookmark(6), HOLD]])
    async with running(script, inactivity_s=0.05) as it:
        await until(lambda: len(script.watched_from) >= 6)
        assert script.watched_from[:2] == ["5", "6"]
        assert script.lists_served == 1
        assert it.log == []


@pytest.mark.parametrize(("code", "error"), [(401, Unauthorized), (403, Forbidden)])
async def test_a_first_list_that_is_refused_ends_it(code: int, error: type[Exception]) -> None:
    script = Script(lists=[Refusal(code, "not you")])
    async with running(script) as it:
        with pytest.raises(error, match="not you"):
            await it.task
        with pytest.raises(StowplanError, match="the informer of pods has stopped"):
            await it.informer.relist()


async def test_later_refusals_are_retried_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    refused = Refusal(403, "not any more")
    script = Script(
        lists=[pod_list(version=5)], watches=[refused, refused, refused, [added("a", 6), HOLD]]
    )
    with caplog.at_level(logging.INFO, "stowplan"):
        async with running(script) as it:
            await until(lambda: it.log == ["+a@6"])
    messages = [record.message for record in caplog.records]
    assert messages == ["Cannot read, trying again", "Reading works again"]


async def test_errors_of_the_server_are_retried(caplog: pytest.LogCaptureFixture) -> None:
    broken = Refusal(500, "oops")
    script = Script(
        lists=[broken, b"not json", pod_list(pod("a"), version=5)],
        watches=[broken, broken, broken, [HOLD]],
    )
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 4)
        assert it.log == ["+a@1"]
        assert script.lists_served == 4, "after three refused watches it lists again"


async def test_a_throttled_watch_waits_as_told() -> None:
    slow = Refusal(429, retry_after="1")
    script = Script(lists=[pod_list(version=5)], watches=[slow, [added("a", 6), HOLD]])
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 1)
        started = asyncio.get_running_loop().time()
        await until(lambda: it.log == ["+a@6"])
        assert asyncio.get_running_loop().time() - started > 0.5


async def test_a_server_that_goes_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """Told once when it is away and once when it is back, by all informers of a client together."""
    caplog.set_level(logging.INFO, "stowplan")
    observed = Observed()
    first = Script(lists=[pod_list(pod("a"), version=5)])
    async with scripted_server(first.handle) as server:
        port = int(server.url.rpartition(":")[2])
        client = ApiClient(ClusterConfig(server=server.url))
        informers = [
            Informer(
                client,
                PODS,
                namespace=namespace,
                on_add=observed.add,
                on_update=observed.update,
                on_delete=observed.delete,
                retry_initial_s=0.01,
                retry_limit_s=0.05,
            )
            for namespace in ("one", "two")
        ]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        await until(lambda: len(first.watched_from) == 2)
        first.over.set()
    await until(lambda: client.reachability.is_away)
    await asyncio.sleep(0.1)
    second = Script(lists=[pod_list(version=9)], watches=[[added("b", 8), HOLD]])
    async with scripted_server(second.handle, port=port):
        await until(lambda: observed.log.count("+b@8") == 2)
        assert not client.reachability.is_away
        second.over.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
    assert second.watched_from[-2:] == ["5", "5"]
    assert second.lists_served == 0, "it resumed"
    levels = [(record.levelname, record.message) for record in caplog.records]
    assert levels == [
        ("WARNING", "API server cannot be reached, trying again until it can"),
        ("INFO", "API server can be reached again"),
    ]


# Relist


async def test_relist_interrupts_the_watch_and_returns_when_applied() -> None:
    clock = VirtualClock(100.0)
    script = Script(lists=[pod_list(pod("a"), version=5), pod_list(pod("b", version=8), version=9)])
    async with running(script, clock=clock) as it:
        await until(lambda: len(script.watched_from) == 1)
        clock.advance(50)
        await it.informer.relist()
        assert it.log == ["+a@1", "-a@1", "+b@8"]
        assert it.informer.list_started_at == 150.0
        await until(lambda: len(script.watched_from) == 2)
        assert script.watched_from == ["5", "9"]


async def test_relist_wakes_an_informer_that_waits_to_retry() -> None:
    broken = Refusal(500)
    script = Script(lists=[pod_list(version=5)], watches=[broken, [HOLD]])
    async with running(script, retry_initial_s=60.0, retry_limit_s=60.0) as it:
        await until(lambda: len(script.watched_from) == 1)
        await asyncio.wait_for(it.informer.relist(), 10)
        assert script.lists_served == 2


async def test_relist_during_a_list_waits_for_one_begun_later() -> None:
    release = asyncio.Event()
    served: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            served.append("watch")
            await asyncio.sleep(10)
        served.append("list")
        if served == ["list"]:
            await release.wait()
        return reply(pod_list(version=len(served)))

    async with scripted_server(handler) as server, ApiClient(server.config) as client:
        informer = Informer(
            client,
            PODS,
            on_add=lambda obj: None,
            on_update=lambda old, new: None,
            on_delete=lambda obj: None,
        )
        task = asyncio.create_task(informer.run())
        await until(lambda: served == ["list"])
        waiting = [asyncio.create_task(informer.relist()) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert not any(waiter.done() for waiter in waiting)
        release.set()
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert served[:2] == ["list", "list"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_relist_survives_a_list_that_fails() -> None:
    broken = Refusal(500)
    script = Script(lists=[pod_list(version=5), broken, broken, pod_list(version=9)])
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 1)
        await it.informer.relist()
        assert it.informer.resource_version == 9


async def test_cancelling_run_ends_waiting_relists() -> None:
    script = Script(lists=[pod_list(version=5), Refusal(500)])
    async with running(script) as it:
        await until(lambda: len(script.watched_from) == 1)
        waiting = asyncio.create_task(it.informer.relist())
        await until(lambda: script.lists_served >= 2)
        it.task.cancel()
        with pytest.raises(StowplanError, match="has stopped"):
            await waiting
