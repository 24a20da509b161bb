"""Events and conditions: what is written, when nothing is, and what survives a bad answer."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.objects import Condition, Pod, PodStatus
from stowplan.api.recorder import EventRecorder
from stowplan.api.resources import PODS
from stowplan.clock import SystemClock, VirtualClock, rfc3339
from stowplan.framework.status import error, unschedulable
from stowplan.scheduler import reporter
from stowplan.scheduler.outcome import Failure
from stowplan.scheduler.reporter import Reporter, status_patch
from stowplan.testing import node, pod
from tests.unit.api.api_kit import reply, scripted_server, until
from tests.unit.scheduler.engine_bench import changed
from tests.unit.scheduler.live_bench import Live, live

NOW = 1_700_000_000.0
EARLIER = "2023-01-01T00:00:00Z"


def told(
    old: Condition | None, *, nominated: str = "", new_node: str | None = None, generation: int = 3
) -> dict[str, Any] | None:
    """The patch for a pod that has this condition."""
    status = PodStatus(
        conditions=(old,) if old is not None else None, nominated_node_name=nominated
    )
    asking = changed(pod("web", uid="u1", status=status), generation=generation)
    return status_patch(
        asking, reason="Unschedulable", message="no room", nominated_node=new_node, now=NOW
    )


def condition(**fields: Any) -> Condition:
    """What the API server has after the same patch was written before."""
    same = Condition(
        type="PodScheduled",
        status="False",
        reason="Unschedulable",
        message="no room",
        last_transition_time=EARLIER,
        observed_generation=3,
    )
    return msgspec.structs.replace(same, **fields)


def written(**fields: Any) -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastProbeTime": None,
        "lastTransitionTime": EARLIER,
        "observedGeneration": 3,
        **fields,
    }


# The patch


@pytest.mark.parametrize(
    "old",
    [
        None,
        condition(status="True"),
        condition(status="Unknown"),
        condition(last_transition_time=None),
    ],
)
def test_a_new_condition_begins_now(old: Condition | None) -> None:
    assert told(old) == {
        "metadata": {"uid": "u1"},
        "status": {"conditions": [written(lastTransitionTime=rfc3339(NOW))]},
    }


def test_a_new_condition_comes_after_those_of_others() -> None:
    assert told(Condition(type="Ready", status="False", last_transition_time=EARLIER)) == {
        "metadata": {"uid": "u1"},
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
            "conditions": [written(lastTransitionTime=rfc3339(NOW))],
        },
    }


@pytest.mark.parametrize(
    "change",
    [{"message": "other"}, {"reason": "SchedulerError"}, {"observed_generation": 2}],
)
def test_a_condition_that_was_false_keeps_its_time(change: dict[str, Any]) -> None:
    assert told(condition(**change)) == {
        "metadata": {"uid": "u1"},
        "status": {"conditions": [written()]},
    }


def test_nothing_is_written_when_nothing_changes() -> None:
    assert told(condition()) is None
    assert told(condition(), nominated="n1", new_node="n1") is None
    assert told(condition(), nominated="n1", new_node=None) is None
    assert told(condition(), nominated="", new_node="") is None


def test_the_generation_that_was_looked_at_is_told() -> None:
    patch = told(condition(), generation=4)
    assert patch is not None
    assert patch["status"]["conditions"] == [written(observedGeneration=4)]


@pytest.mark.parametrize(
    ("nominated", "new_node", "value"), [("", "n1", "n1"), ("n1", "n2", "n2"), ("n1", "", None)]
)
def test_the_nomination_goes_with_it(nominated: str, new_node: str, value: str | None) -> None:
    assert told(condition(), nominated=nominated, new_node=new_node) == {
        "metadata": {"uid": "u1"},
        "status": {"nominatedNodeName": value},
    }


# On an API server


def no_room(failed: Pod, message: str = "no room", **fields: Any) -> Failure:
    return Failure(failed, "default-scheduler", unschedulable(message), message, **fields)


async def test_a_failure_is_told_by_event_and_condition() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.reporter.failed(no_room(web))
        await it.told()
        written = await it.condition(web)
        assert written is not None
        assert (written.status, written.reason, written.message) == (
            "False",
            "Unschedulable",
            "no room",
        )
        assert written.observed_generation == web.metadata.generation == 1
        assert await it.events() == [("web", "FailedScheduling", "no room")]


async def test_an_error_is_the_schedulers() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.reporter.failed(Failure(web, "default-scheduler", error("oops"), "oops"))
        await it.told()
        written = await it.condition(web)
        assert written is not None
        assert written.reason == "SchedulerError"


async def test_the_api_server_keeps_time_and_nomination() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.reporter.failed(no_room(web, nominated_node="n1"))
        await it.told()
        first = it.store[web.key] = await it.get(web)
        assert first.status.nominated_node_name == "n1"
        await asyncio.sleep(1.01)  # times are whole seconds
        it.reporter.failed(no_room(first, "still no room", nominated_node=None))
        await it.told()
        second = it.store[web.key] = await it.get(web)
        before, after = (condition_in(each) for each in (first, second))
        assert after.message == "still no room"
        assert after.last_transition_time == before.last_transition_time
        assert second.status.nominated_node_name == "n1"
        it.reporter.failed(no_room(second, "still no room", nominated_node=""))
        await it.told()
        assert (await it.get(web)).status.nominated_node_name == ""


def condition_in(it: Pod) -> Condition:
    return next(each for each in it.status.conditions or () if each.type == "PodScheduled")


async def test_what_the_pod_says_already_is_not_written_again() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        it.reporter.failed(no_room(web))
        await it.told()
        it.store[web.key] = await it.get(web)
        version = it.store[web.key].metadata.resource_version
        it.reporter.failed(no_room(web))
        assert it.reporter.unwritten == 0
        await it.told()
        assert (await it.get(web)).metadata.resource_version == version


async def test_the_condition_is_whole_and_the_event_is_cut() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        long = "no room at the inn, " * 100
        it.reporter.failed(no_room(web, long))
        await it.told()
        written = await it.condition(web)
        assert written is not None
        assert written.message == long
        [(_, _, note)] = await it.events()
        assert len(note) == 1024
        assert note.endswith(" ...")


@pytest.mark.parametrize(
    ("fields", "terminating", "message", "is_event"),
    [
        ({"is_pending": False}, False, "no room", False),
        ({"is_pending": False}, True, "skip schedule deleting pod: default/web", True),
        ({"is_pending": False}, False, "", False),
    ],
)
async def test_nobody_is_told_of_a_pod_that_needs_no_scheduling(
    fields: dict[str, Any], terminating: bool, message: str, is_event: bool
) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        failed = pod("web", uid=web.uid, terminating=terminating)
        it.reporter.failed(no_room(failed, message, **fields))
        await it.told()
        assert await it.condition(web) is None
        assert await it.events() == ([("web", "FailedScheduling", message)] if is_event else [])


@pytest.mark.parametrize("fate", ["gone", "bound", "replaced"])
async def test_a_pod_that_has_moved_on_is_not_patched(fate: str) -> None:
    async with live() as it:
        web = it.post(pod("web"))
        if fate == "gone":
            del it.store[web.key]
        elif fate == "bound":
            it.store[web.key] = changed(web, node_name="n1")
        else:
            it.store[web.key] = pod("web")
        it.reporter.failed(no_room(web))
        await it.told()
        assert await it.condition(web) is None


async def test_a_namesake_is_not_patched_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch lags behind: the lookup still has the pod that was deleted."""
    monkeypatch.setattr(reporter, "_TRIES", 1)
    async with live() as it:
        web = it.post(pod("web"))
        await it.client.request("DELETE", "/api/v1/namespaces/default/pods/web")
        it.server.create(
            "",
            "v1",
            "pods",
            {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "c"}]}},
            namespace="default",
        )
        it.reporter.failed(no_room(web))
        await it.told()
        assert await it.condition(web) is None


async def tell(it: Live, name: str) -> Condition | None:
    failed = it.post(pod(name))
    it.reporter.failed(no_room(failed))
    await it.told()
    return await it.condition(failed)


@pytest.mark.parametrize("status", [500, 503, 409])
async def test_a_bad_answer_is_tried_again(status: int) -> None:
    async with live() as it:
        fault = it.fault("/status", status=status)
        assert await tell(it, "web") is not None
        assert fault.hits == 1


@pytest.mark.parametrize("status", [403, 404, 422])
async def test_a_no_is_a_no_and_the_next_is_told_all_the_same(status: int) -> None:
    async with live() as it:
        fault = it.fault("/status", status=status, times=None)
        assert await tell(it, "web") is None
        assert fault.hits == 1
        it.server.faults.clear()
        assert await tell(it, "next") is not None


async def test_an_engine_that_fails_and_a_cluster_that_reads_of_it() -> None:
    """The whole way, from the decision to the condition."""
    async with live(nodes=[node("n1", cpu=0), node("n2", unschedulable=True)]) as it:
        web = it.post(pod("web"))
        it.reporter.failed(it.failed())
        await it.told()
        written = await it.condition(web)
        assert written is not None
        assert written.message == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
        )


# The newest word only


async def test_only_the_newest_word_on_a_pod_is_written() -> None:
    """While a patch of other pods keeps all workers busy, a pod fails again and again."""
    release = asyncio.Event()
    patched: list[tuple[str, str]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        name = request.path.split("/")[-2]
        if name == "earlier":
            return reply({"metadata": {"name": name}})
        patched.append((name, body["status"]["conditions"][0]["message"]))
        await release.wait()
        return reply({"metadata": {"name": name}})

    async with scripted_server(answer) as server, ApiClient(server.config) as client:
        pods = {f"default/p{i}": pod(f"p{i}") for i in range(9)}
        recorder = EventRecorder(client)
        telling = Reporter(client, recorder, VirtualClock(), pods.get)
        work = asyncio.create_task(telling.run())
        for number in range(8):  # the lane begins with few, and lets in more as it goes
            pods["default/earlier"] = pod("earlier")
            telling.failed(no_room(pods["default/earlier"], f"try {number}"))
            await telling.drain(10)
        busy = [pods[f"default/p{i}"] for i in range(8)]
        for each in busy:
            telling.failed(no_room(each))
        await until(lambda: len(patched) == 8)
        last = pods["default/p8"]
        for number in range(5):
            telling.failed(no_room(last, f"try {number}"))
        telling.failed(no_room(busy[0], "again"))
        release.set()
        await telling.drain(10)
        work.cancel()
        await asyncio.wait([work])
    assert sorted(patched[8:]) == [("p0", "again"), ("p8", "try 4")]


async def test_words_on_one_pod_are_written_one_after_the_other() -> None:
    """There are idle workers, but two patches under way might arrive in the wrong order."""
    release = asyncio.Event()
    patched: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        patched.append((await request.json())["status"]["conditions"][0]["message"])
        await release.wait()
        return reply({"metadata": {"name": "one"}})

    async with scripted_server(answer) as server, ApiClient(server.config) as client:
        one = pod("one")
        telling = Reporter(client, EventRecorder(client), VirtualClock(), {one.key: one}.get)
        work = asyncio.create_task(telling.run())
        telling.failed(no_room(one, "first"))
        await until(lambda: patched == ["first"])
        telling.failed(no_room(one, "second"))
        await asyncio.sleep(0.02)
        assert patched == ["first"]
        release.set()
        await telling.drain(10)
        work.cancel()
        await asyncio.wait([work])
    assert patched == ["first", "second"]


@pytest.mark.parametrize("seen_by", ["the binder", "the watch"])
async def test_a_late_retry_does_not_call_a_bound_pod_unschedulable(seen_by: str) -> None:
    async with live() as it:
        failed = it.post(pod("web"))
        fault = it.fault("/status", status=500)
        it.reporter.failed(no_room(failed))
        await until(lambda: fault.hits == 1)
        if seen_by == "the binder":
            await it.bind_next()
        else:
            await it.client.bind("default", "web", failed.uid, "n1")
            it.store[failed.key] = await it.get(failed)
        await it.told()
        condition = await it.condition(failed)
        assert condition is not None
        assert condition.status == "True"


async def test_a_pod_is_not_bound_while_it_is_called_unschedulable() -> None:
    """The API server might take the older word last."""
    async with live() as it:
        failed = it.post(pod("web"))
        fault = it.fault("/status", action="delay", delay_s=0.3)
        it.reporter.failed(no_room(failed))
        await until(lambda: fault.hits == 1)
        it.reporter.failed(no_room(failed, "not sent yet"))
        await it.bind_next()
        await it.told()
        condition = await it.condition(failed)
        assert condition is not None
        assert condition.status == "True"
        assert fault.hits == 1


_LABELLED = {"metadata": {"labels": {"x": "y"}}}


async def test_an_expected_node_that_arrives_late_is_refused() -> None:
    """The pod has changed since: it may be promised another node by then."""
    async with live() as it:
        web = it.post(pod("web"))
        it.fault("/status", action="arrive-late", delay_s=0.2)
        await it.reporter.expected(it.placed())
        await it.client.patch(
            PODS, "web", {"metadata": {"labels": {"x": "y"}}}, namespace="default"
        )
        await asyncio.sleep(0.3)
        assert (await it.get(web)).status.nominated_node_name == ""


async def test_an_expected_node_is_written_once_the_newest_version_is_known() -> None:
    async with live() as it:
        web = it.post(pod("web"))
        placement = it.placed()
        await it.client.patch(
            PODS, "web", {"metadata": {"labels": {"x": "y"}}}, namespace="default"
        )
        writing = asyncio.create_task(it.reporter.expected(placement))
        it.store[web.key] = await it.get(web)
        await writing
        assert (await it.get(web)).status.nominated_node_name == placement.node


async def test_waiting_for_the_last_words_ends() -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with scripted_server(never) as server, ApiClient(server.config) as client:
        one = pod("one")
        telling = Reporter(client, EventRecorder(client), SystemClock(), {one.key: one}.get)
        work = asyncio.create_task(telling.run())
        telling.failed(no_room(one))
        await telling.drain(0.05)
        assert not work.done()
        work.cancel()
        await asyncio.wait([work])
