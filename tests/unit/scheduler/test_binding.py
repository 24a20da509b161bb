"""Binding cycles against a real API server: every placement ends bound once, or queued again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.errors import ServerError
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SKIP, error, unschedulable, wait
from stowplan.scheduler import binding
from stowplan.testing import node, pod
from tests.unit.scheduler.live_bench import Live, live
from tests.unit.scheduler.scheduler_kit import plugin, raises

BROKEN = "ValueError: broken on purpose"


async def refused(it: Live, web: Pod, message: str, *, place: str = "error_backoff") -> None:
    """The pod is where it was, its node is free, and the cluster was told."""
    assert await it.node_of(web) == ""
    assert it.cache.pod_count == 0
    assert it.where(web) == place
    await it.told()
    condition = await it.condition(web)
    assert condition is not None
    assert condition.status == "False"
    assert re.sub(r" \(\S+\.py:\d+\)$", "", condition.message) == message
    assert await it.events() == [("web", "FailedScheduling", condition.message)]


async def test_a_pod_is_bound_and_the_cluster_told() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        await it.bind_next()
        assert await it.node_of(web) == "n1"
        assert await it.events() == [
            ("web", "Scheduled", "Successfully assigned default/web to n1")
        ]
        assert it.where(web) == "nowhere"
        assert it.cache.is_assumed(web.uid)
        assert it.attempts("scheduled") == 1


def noting(log: list[str], *, use_async: bool) -> Plugin:
    """A plugin at all binding points; it binds by itself."""

    def note(point: str) -> Callable[..., Any]:
        async def slowly(cycle: Any, pod: Pod, node: str) -> None:
            await asyncio.sleep(0)
            log.append(f"{point} {pod.metadata.name} {node}")

        def at_once(cycle: Any, pod: Pod, node: str) -> None:
            log.append(f"{point} {pod.metadata.name} {node}")

        return slowly if use_async else at_once

    points = ("pre_bind", "bind", "post_bind")
    return plugin("Noting", **{point: note(point) for point in points})


@pytest.mark.parametrize("use_async", [True, False])
async def test_the_points_run_in_order_whether_or_not_they_wait(use_async: bool) -> None:
    log: list[str] = []
    skips = plugin("Skips", bind=SKIP, pre_bind=None)
    async with live(skips, noting(log, use_async=use_async)) as it:
        binders = it.engine.profiles["default-scheduler"].at("bind")
        binders.sort(key=lambda plugin: plugin.name == "DefaultBinder")
        web = it.post(pod("web"))
        await it.bind_next()
        assert log == ["pre_bind web n1", "bind web n1", "post_bind web n1"]
        assert await it.node_of(web) == "", "the first plugin that did not skip has bound it"
        assert it.attempts("scheduled") == 1


async def test_somebody_must_bind() -> None:
    async with live() as it:
        binders = it.engine.profiles["default-scheduler"].at("bind")
        binders[:] = [plugin("Skips", bind=SKIP)]
        web = it.post(pod("web"))
        await it.bind_next()
        await refused(it, web, "no Bind plugin took the pod")


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"pre_bind": raises}, f'running PreBind plugin "Bad": {BROKEN}'),
        ({"pre_bind": error("no volume")}, 'running PreBind plugin "Bad": no volume'),
        ({"pre_bind": unschedulable("no")}, 'running PreBind plugin "Bad": no'),
        (
            {"pre_bind": 7},
            'running PreBind plugin "Bad": answered 7; expected None or a Status',
        ),
        ({"bind": raises}, f'running Bind plugin "Bad": {BROKEN}'),
        ({"bind": error("no luck")}, 'running Bind plugin "Bad": no luck'),
        (
            {"bind": "bound"},
            "running Bind plugin \"Bad\": answered 'bound'; expected None or a Status",
        ),
    ],
)
async def test_a_plugin_that_fails_is_named_and_everything_undone(
    methods: dict[str, Any], message: str
) -> None:
    undone: list[str] = []
    undo = plugin("Undo", unreserve=lambda cycle, pod, node: undone.append(node))
    async with live(undo, plugin("Bad", **methods)) as it:
        binders = it.engine.profiles["default-scheduler"].at("bind")
        binders.sort(key=lambda plugin: plugin.name == "DefaultBinder")
        web = it.post(pod("web"))
        await it.bind_next()
        assert undone == ["n1"]
        await refused(it, web, message)


async def test_an_async_plugin_that_raises_is_named() -> None:
    async def slowly(*_: Any) -> None:
        await asyncio.sleep(0)
        raise KeyError("volume")

    async with live(plugin("Volumes", pre_bind=slowly)) as it:
        web = it.post(pod("web"))
        await it.bind_next()
        await refused(it, web, "running PreBind plugin \"Volumes\": KeyError: 'volume'")


async def test_after_permit_the_pod_is_not_in_flight_any_more() -> None:
    """Events need not be kept for it: a failure from here on is an error, whatever happened."""
    places: list[str] = []
    async with live(plugin("Look", pre_bind=lambda *_: places.append(it.where(web)))) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        assert it.where(web) == "in_flight"
        await it.binder.run(placement)
        assert places == ["nowhere"]


async def test_what_post_bind_does_is_its_own_affair() -> None:
    log: list[str] = []
    bad = plugin("Bad", post_bind=raises)
    nonsense = plugin("Nonsense", post_bind="done!")
    good = plugin("Good", post_bind=lambda cycle, pod, node: log.append(node))
    async with live(bad, nonsense, good) as it:
        web = it.post(pod("web"))
        await it.bind_next()
        assert await it.node_of(web) == "n1"
        assert log == ["n1"]
        assert it.attempts("scheduled") == 1
        assert it.cache.is_assumed(web.uid)


# Permit


@pytest.mark.parametrize("when", ["before", "while"])
async def test_a_held_pod_is_bound_when_all_allow_it(when: str) -> None:
    async with live(plugin("A", permit=wait()), plugin("B", permit=wait())) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        waiting = placement.waiting
        assert waiting is not None
        if when == "while":
            bound = asyncio.create_task(it.binder.run(placement))
            await asyncio.sleep(0.01)
            assert it.where(web) == "in_flight"
            waiting.allow("A")
            await asyncio.sleep(0.01)
            assert not bound.done()
            waiting.allow("B")
            await bound
        else:
            waiting.allow("A")
            waiting.allow("B")
            await it.binder.run(placement)
        assert await it.node_of(web) == "n1"
        assert it.handle.waiting.get(web.uid) is None
        assert it.engine.metrics.permit_wait_duration.at("Success").count == 1


async def test_a_held_pod_is_freed_when_one_refuses_it() -> None:
    async with live(plugin("A", permit=wait()), plugin("B", permit=wait())) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        waiting = placement.waiting
        assert waiting is not None
        asyncio.get_running_loop().call_later(0.01, waiting.reject, "B", "no quorum")
        await it.binder.run(placement)
        message = "0/1 nodes are available: 1 no quorum."
        await refused(it, web, message, place="unschedulable")
        assert it.handle.waiting.get(web.uid) is None
        queued = it.queue.get(web)
        assert queued is not None
        assert queued.unschedulable_plugins == {"B"}


async def test_patience_ends_with_the_least_patient_who_has_not_allowed() -> None:
    plugins = [
        plugin("Short", permit=(wait(), 0.02)),
        plugin("Middle", permit=(wait(), 0.05)),
        plugin("Long", permit=(wait(), 60.0)),
    ]
    async with live(*plugins) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        assert placement.waiting is not None
        placement.waiting.allow("Short")
        await it.binder.run(placement)
        timeout = "rejected due to timeout after waiting 50ms at plugin Middle"
        message = f"0/1 nodes are available: 1 {timeout}."
        await refused(it, web, message, place="unschedulable")
        assert it.engine.metrics.permit_wait_duration.at("Unschedulable").count == 1


async def test_a_pod_that_goes_while_it_is_held_is_not_bound() -> None:
    async with live(plugin("A", permit=wait())) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        bound = asyncio.create_task(it.binder.run(placement))
        await asyncio.sleep(0.01)
        it.delete(web)
        await bound
        assert await it.node_of(web) == ""
        assert it.cache.pod_count == 0
        assert await it.events() == [], "there is nobody to tell"


# While it takes time


async def test_it_is_told_where_a_held_pod_is_going() -> None:
    async with live(plugin("A", permit=wait())) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        bound = asyncio.create_task(it.binder.run(placement))
        for _ in range(500):
            if (await it.get(web)).status.nominated_node_name:
                break
            await asyncio.sleep(0.01)
        assert (await it.get(web)).status.nominated_node_name == "n1"
        assert await it.node_of(web) == ""
        assert placement.waiting is not None
        placement.waiting.allow("A")
        await bound
        assert await it.node_of(web) == "n1"


@pytest.mark.parametrize(
    ("is_quick", "after_s", "patched"), [(True, 0.0, 1), (True, 60.0, 0), (False, 60.0, 1)]
)
async def test_the_node_is_published_late_if_pre_bind_is_quick(
    monkeypatch: pytest.MonkeyPatch, is_quick: bool, after_s: float, patched: int
) -> None:
    monkeypatch.setattr(binding, "_PUBLISH_S", after_s)
    is_long = after_s == 0
    seen: list[str] = []

    async def works(cycle: object, pod: Pod, node: str) -> None:
        while is_long and seen[-1:] != ["n1"]:
            seen.append((await it.get(web)).status.nominated_node_name)
            await asyncio.sleep(0.01)

    busy = plugin("Works", pre_bind=works)
    monkeypatch.setattr(busy, "pre_bind_is_quick", is_quick)
    async with live(busy) as it:
        web = it.post(pod("web"))
        patches = it.fault("/web/status", method="PATCH", action="delay", times=None)
        await it.bind_next()
        assert await it.node_of(web) == "n1"
        assert patches.hits == patched


@pytest.mark.parametrize("skips", [True, False])
async def test_a_plugin_that_has_nothing_to_do_before_binding_says_so(skips: bool) -> None:
    asked: list[str] = []
    slow = plugin(
        "Slow",
        pre_bind_pre_flight=SKIP if skips else None,
        pre_bind=lambda cycle, pod, node: asked.append(node),
    )
    async with live(slow) as it:
        web = it.post(pod("web"))
        await it.bind_next()
        assert await it.node_of(web) == "n1"
        assert asked == ([] if skips else ["n1"])


async def test_a_pod_is_turned_back_as_long_as_pre_bind_takes() -> None:
    began = asyncio.Event()

    async def slowly(*_: Any) -> None:
        began.set()
        await asyncio.sleep(60)

    async with live(plugin("Slow", pre_bind=slowly)) as it:
        web = it.post(pod("web"))
        assert not it.engine.cancel_pre_bind(web.uid, "preempted by Somebody")
        bound = asyncio.create_task(it.binder.run(it.placed()))
        await began.wait()
        assert it.engine.cancel_pre_bind(web.uid, "preempted by Somebody")
        assert not it.engine.cancel_pre_bind(web.uid, "preempted by Somebody")
        await bound
        await refused(it, web, "preempted by Somebody")
        assert (await it.get(web)).status.nominated_node_name == ""


# What the API server answers


async def test_a_pod_that_is_gone() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        placement = it.placed()
        looks = it.fault("/default/pods", method="GET", action="delay", times=None)
        it.fault("/binding", status=404, reason="NotFound", message='pods "web" not found')
        await it.binder.run(placement)
        assert looks.hits == 0, "the answer was clear"
        message = 'running Bind plugin "DefaultBinder": pods "web" not found'
        await refused(it, web, message)


async def test_a_right_that_is_missing() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", status=403, reason="Forbidden", message="you may not")
        await it.bind_next()
        await refused(it, web, 'running Bind plugin "DefaultBinder": you may not')


async def test_a_pod_that_somebody_else_has_bound() -> None:
    async with live(nodes=[node("n1"), node("n2", cpu=0)]) as it:
        web = it.post(pod("web"))
        placement = it.placed()
        await it.client.bind("default", "web", web.uid, "n2")
        await it.binder.run(placement)
        assert await it.node_of(web) == "n2"
        assert it.cache.pod_count == 0
        condition = await it.condition(web)
        assert condition is not None
        assert condition.status == "True"


@pytest.mark.parametrize("place", ["", "n1"])
async def test_a_namesake_is_neither_bound_nor_taken_for_bound(place: str) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        placement = it.placed()
        await it.client.request("DELETE", "/api/v1/namespaces/default/pods/web")
        del it.store[web.key]
        twin = it.post(pod("web"))
        assert twin.uid != web.uid
        if place:
            await it.client.bind("default", "web", twin.uid, place)
        await it.binder.run(placement)
        assert await it.node_of(twin) == place
        assert it.attempts("scheduled") == 0
        assert it.where(twin) == "active"
        assert it.cache.pod_count == 0
        assert await it.events() == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"status": 409}, "Operation cannot be fulfilled: injected fault"),
        ({"status": 422, "message": "no such thing"}, "no such thing"),
    ],
)
async def test_an_error_that_was_one(fault: dict[str, Any], message: str) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", **fault)
        await it.bind_next()
        await refused(it, web, f'running Bind plugin "DefaultBinder": {message}')


async def test_a_pod_that_another_scheduler_put_on_the_same_node_is_told_of_once() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        await it.client.bind("default", "web", web.uid, "n1")
        await it.bind_next()
        assert it.cache.is_assumed(web.uid), "its room is taken, whoever put it there"
        assert it.where(web) == "nowhere"
        assert await it.events() == []


async def test_the_plugin_that_got_no_answer_is_named() -> None:
    async def bind(cycle: Any, pod: Pod, node: str) -> None:
        raise ServerError("the other side is on fire")

    async with live() as it:
        binders = it.engine.profiles["default-scheduler"].at("bind")
        binders[:] = [plugin("Mine", bind=bind)]
        web = it.post(pod("web"))
        await it.bind_next()
        await refused(it, web, 'running Bind plugin "Mine": the other side is on fire')


async def test_a_cancelled_bind_is_left_for_a_restart_to_find() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/binding", action="hang")
        placement = it.placed()
        task = asyncio.create_task(it.binder.run(placement))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert it.cache.is_assumed(web.uid)
        assert it.attempts("scheduled") == it.attempts("error") == 0
