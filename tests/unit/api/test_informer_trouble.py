"""The informer when the server refuses, throttles or goes away, and when a new list is wanted."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer, InformerOptions
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import PODS
from stowplan.clock import VirtualClock
from stowplan.errors import Forbidden, StowplanError, Unauthorized
from tests.unit.api.api_kit import (
    bookmark,
    event_line,
    pod,
    pod_list,
    reply,
    scripted_server,
    until,
)
from tests.unit.api.informer_kit import (
    GONE,
    HOLD,
    QUICK,
    Observed,
    Refusal,
    Script,
    added,
    running,
)

# Trouble


async def test_silence_reconnects_without_listing() -> None:
    script = Script(lists=[pod_list(version=5)], watches=[[bookmark(6), HOLD]])
    async with running(script, options=replace(QUICK, inactivity_s=0.05)) as it:
        await until(lambda: len(script.watched_from) >= 6)
        assert script.watched_from[:2] == ["5", "6"]
        assert script.lists_served == 1
        assert it.log == []


async def test_an_older_list_is_refused_until_the_server_insists() -> None:
    clock = VirtualClock()
    script = Script(
        lists=[pod_list(pod("a", version=9), version=9), pod_list(pod("b", version=2), version=3)],
        watches=[[event_line("ERROR", GONE)], [HOLD]],
    )
    async with running(script, options=QUICK, clock=clock) as it:
        await until(lambda: script.lists_served >= 4)
        assert it.log == ["+a@9"]
        clock.advance(20.0)  # etcd was restored from a backup
        await until(lambda: "+b@2" in it.log)
        assert it.log == ["+a@9", "-a@9", "+b@2"]


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


async def test_who_may_not_watch_may_list_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(
        lists=[
            pod_list(pod("a", version=1), version=5),
            Refusal(500, "not now"),
            pod_list(pod("a", version=1), pod("b", version=7), version=7),
            Refusal(403, "not even that"),
            pod_list(pod("b", version=8), version=9),
        ],
        watches=[Refusal(403, "no watching")],
    )
    refusals: list[str] = []
    polling = replace(
        QUICK, poll_s=0.01, on_watch_refused=lambda error: refusals.append(str(error))
    )
    async with running(script, options=polling) as it:
        await until(lambda: script.lists_served >= 7)
        assert it.log == ["+a@1", "+b@7", "-a@1", "~b@7>8"]
        assert refusals == ["no watching"]
        assert script.watched_from == ["5"]
    told = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert told == ["Cannot read, trying again"] * 2, "only of lists that failed"


async def test_a_list_without_the_rest() -> None:
    script = Script(lists=[pod_list(pod("a", version=1), version=5), Refusal(403, "not you")])
    observed = Observed()
    async with scripted_server(script.handle) as server, ApiClient(server.config) as client:
        informer = Informer(
            client,
            PODS,
            on_add=observed.add,
            on_update=observed.update,
            on_delete=observed.delete,
        )
        await informer.list_once()
        with pytest.raises(Forbidden, match="not you"):
            await informer.list_once()
    assert observed.log == ["+a@1"]
    assert script.watched_from == []


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
                options=QUICK,
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
    async with running(
        script, options=InformerOptions(retry_initial_s=60.0, retry_limit_s=60.0)
    ) as it:
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
