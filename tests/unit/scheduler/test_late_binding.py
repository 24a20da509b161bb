"""Bindings without a definite answer: sent again, their place kept, until there is one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from stowplan.api.guarded import WriteGuard
from stowplan.api.objects import Pod
from stowplan.errors import ApiUnavailable, LeadershipLost, ServerError
from stowplan.framework.plugin import Plugin
from stowplan.scheduler import binding_retries
from stowplan.testing import node, pod
from tests.unit.scheduler.live_bench import Live, live


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding_retries, "_AGAIN_S", (0.001, 0.001, 0.001, 0.001, 0.01))


class Mine(Plugin):
    """Binds as the test tells it."""

    name = "Mine"

    def __init__(self, bind: Callable[[Pod, str, int], Awaitable[None]]) -> None:
        super().__init__()
        self._bind = bind
        self.calls = 0

    async def bind(self, cycle: Any, pod: Pod, node: str) -> None:
        self.calls += 1
        await self._bind(pod, node, self.calls)


class MineAgain(Mine):
    bind_is_idempotent = True


def bind_by(it: Live, mine: Mine) -> None:
    it.engine.profiles["default-scheduler"].at("bind")[:] = [mine]


async def scheduled(it: Live, web: Pod) -> None:
    assert await it.node_of(web) == "n1"
    assert it.cache.is_assumed(web.uid)
    assert it.attempts("scheduled") == 1
    assert [reason for _, reason, _ in await it.events()] == ["Scheduled"]


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"status": 503},
        {"status": 504},
        {"status": 429, "retry_after_s": 0, "times": 11},
        {"action": "drop"},
        {"action": "lose-answer"},
        {"action": "arrive-late", "delay_s": 0.0},
        {"action": "arrive-late", "delay_s": 30.0},
    ],
)
async def test_it_is_sent_again_until_the_pod_is_bound(fault: dict[str, Any]) -> None:
    """By the first request or by another: the event tells of it once, and as ours."""
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", **fault)
        await it.bind_next()
        await scheduled(it, web)


async def test_the_place_is_kept_until_then() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        fault = it.fault("/binding", status=500, times=None)
        binding_it = asyncio.create_task(it.bind_next())
        while fault.hits < 8:
            await asyncio.sleep(0.001)
            assert it.cache.is_assumed(web.uid)
        # Whoever looks at the pod learns why it is not bound yet.
        assert [reason for _, reason, _ in await it.events()] == ["FailedScheduling"]
        it.server.faults.clear()
        await binding_it
        assert await it.node_of(web) == "n1"


async def test_a_watch_that_shows_the_pod_bound_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event follows at once, before those of pods that are bound later."""
    monkeypatch.setattr(binding_retries, "_AGAIN_S", (3600.0,))
    async with live() as it:
        web = it.post(pod("web"))
        lost = it.fault("/binding", action="lose-answer")
        binding_it = asyncio.create_task(it.bind_next())
        while not lost.hits:  # noqa: ASYNC110 - a server without news
            await asyncio.sleep(0.001)
        spec = msgspec.structs.replace(web.spec, node_name="n1")
        it.cache.add_pod(msgspec.structs.replace(web, spec=spec))
        await binding_it
        assert [reason for _, reason, _ in await it.events()] == ["Scheduled"]
        assert it.attempts("scheduled") == 1


async def test_a_conflict_with_our_own_request_is_not_anothers() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="lose-answer")
        placement = await it.bind_next()
        assert not placement.is_bound_by_other
        await scheduled(it, web)


async def test_a_conflict_with_anothers_is() -> None:
    async with live(nodes=[node("n1"), node("n2", cpu=0)]) as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="drop")
        placement = it.placed()
        await_bind = asyncio.create_task(it.binder.run(placement))
        while not it.server.faults[0].hits:  # noqa: ASYNC110 - a server without news
            await asyncio.sleep(0)
        await it.client.bind("default", "web", web.uid, "n2")
        await await_bind
        assert placement.is_lost
        assert it.cache.pod_count == 0
        assert await it.node_of(web) == "n2"


async def test_a_look_that_fails_proves_nothing() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="lose-answer")
        looks = it.fault("/default/pods", method="GET", status=500, times=3)
        await it.bind_next()
        assert looks.hits == 3
        await scheduled(it, web)


@pytest.mark.parametrize("status", [404, 403, 422])
async def test_a_definite_refusal_of_the_second_ends_it(status: int) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="drop")
        it.fault("/binding", status=status)
        await it.bind_next()
        assert await it.node_of(web) == ""
        assert it.cache.pod_count == 0
        assert it.where(web) == "error_backoff"


@pytest.mark.parametrize("status", [403, 409])
async def test_a_refusal_is_no_proof_that_the_first_did_nothing(status: int) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="lose-answer")
        it.fault("/binding", status=status)
        await it.bind_next()
        await scheduled(it, web)


async def test_a_second_scheduler_of_the_same_pods_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with live(nodes=[node("n1"), node("n2", cpu=0)]) as it:
        told = []
        for number in range(7):
            web = it.post(pod(f"web-{number}", requests={"cpu": "1m"}))
            placement = it.placed()
            await it.client.bind("default", f"web-{number}", web.uid, "n2")
            await it.binder.run(placement)
            told.append(sum("Another scheduler" in line for line in caplog.messages))
    assert told == [0, 0, 0, 0, 0, 1, 2]


async def test_a_conflict_about_an_unbound_pod_is_no_proof_either() -> None:
    """The first request may still be on its way."""
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="drop")
        it.fault("/binding", status=409, times=3)
        await it.bind_next()
        await scheduled(it, web)


@pytest.mark.parametrize("is_bound", [True, False])
async def test_a_node_that_is_gone_gets_no_second_request(is_bound: bool) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="lose-answer" if is_bound else "drop")
        again = it.fault("/binding", status=500, times=None)
        placement = it.placed()
        it.cache.remove_node("n1")
        await it.binder.run(placement)
        assert again.hits == 0
        if is_bound:
            await scheduled(it, web)
        else:
            assert it.where(web) == "error_backoff"


async def test_who_does_not_lead_any_more_sends_nothing_again() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        fault = it.fault("/binding", action="drop")

        def check() -> None:
            if fault.hits:
                raise LeadershipLost("gone")

        it.handle.client = it.client.guarded_by(WriteGuard(check, 5.0))
        await it.bind_next()
        assert await it.node_of(web) == ""
        assert it.cache.is_assumed(web.uid), "another may have taken the place: nothing is undone"
        assert it.where(web) == "nowhere"
        assert it.attempts("scheduled") == it.attempts("error") == 0
        assert await it.events() == []


@pytest.mark.parametrize("is_refused", [True, False])
async def test_others_do_not_wait_for_a_pod_that_is_refused(is_refused: bool) -> None:
    """Where there is no answer they do: nobody's binding would get one."""
    seen: list[int] = []

    async def bind(pod: Pod, node: str, call: int) -> None:
        if call > 1:
            return
        raise ServerError("no") if is_refused else ApiUnavailable("no", maybe_done=True)

    async with live() as it:
        bind_by(it, MineAgain(bind))
        it.binder.retries.on_refused = lambda: seen.append(it.binder.retries.refused)
        it.post(pod("web"))
        await it.bind_next()
        assert seen == ([1] if is_refused else [])
        assert it.binder.retries.refused == 0


@pytest.mark.parametrize("again", [True, False])
async def test_a_plugin_is_called_again_only_if_it_says_that_it_may_be(again: bool) -> None:
    async with live() as it:

        async def bind(pod: Pod, node: str, call: int) -> None:
            if call == 1:
                raise ApiUnavailable("connection reset", maybe_done=True)
            await it.client.bind("default", pod.metadata.name, pod.uid, node)

        mine = (MineAgain if again else Mine)(bind)
        bind_by(it, mine)
        web = it.post(pod("web"))
        await it.bind_next()
        assert mine.calls == (2 if again else 1)
        assert await it.node_of(web) == ("n1" if again else "")
        assert it.where(web) == ("nowhere" if again else "error_backoff")
