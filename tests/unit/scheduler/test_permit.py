"""Reserve and Permit: in order, undone in reverse, held for as long as they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import Profile
from stowplan.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
    wait,
)
from stowplan.framework.waiting import MAX_WAIT_S, WaitingPod
from stowplan.scheduler.permit import run_permit, run_reserve, run_unreserve
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.scheduler_kit import cluster, plugin, profile_of, raises, without_place

POD = pod("web", node="n1")


def cycle() -> Cycle:
    return Cycle(cluster([node("n1")]).table, compile_pod(POD))


def logging_plugin(name: str, log: list[str], answer: Any = None) -> Plugin:
    def reserve(cycle: Cycle, pod: object, node: str) -> Any:
        log.append(f"reserve {name} {node}")
        return answer

    def unreserve(cycle: Cycle, pod: object, node: str) -> None:
        log.append(f"unreserve {name} {node}")

    return plugin(name, reserve=reserve, unreserve=unreserve)


def reserve(profile: Profile) -> Status:
    return run_reserve(profile, cycle(), POD, "n1")


def test_reserve_runs_in_order_and_unreserve_in_reverse() -> None:
    log: list[str] = []
    profile = profile_of(*(logging_plugin(name, log) for name in "abc"))
    assert reserve(profile) is SUCCESS
    run_unreserve(profile, cycle(), POD, "n1")
    assert log == [
        *(f"reserve {name} n1" for name in "abc"),
        *(f"unreserve {name} n1" for name in "cba"),
    ]


def test_the_first_failure_ends_reserve() -> None:
    log: list[str] = []
    no = logging_plugin("b", log, unschedulable("sold out"))
    status = reserve(profile_of(logging_plugin("a", log), no, logging_plugin("c", log)))
    assert status == unschedulable("sold out").by("b")
    assert log == ["reserve a n1", "reserve b n1"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (raises, "ValueError: broken on purpose"),
        (error("no database"), "no database"),
        (SKIP, ""),
        (True, "answered True; expected None or a Status"),
    ],
)
@pytest.mark.parametrize("point", ["Reserve", "Permit"])
def test_what_is_no_rejection_is_an_error_with_a_name(
    point: str, answer: Any, message: str
) -> None:
    profile = profile_of(plugin("Bad", **{point.lower(): answer}))
    if point == "Reserve":
        status = reserve(profile)
    else:
        status, waiting = permit(profile)
        assert waiting is None
    assert status.code is Code.ERROR
    is_words = isinstance(answer, Status)
    told = status.message if is_words else without_place(status.message)
    assert told == f'running {point} plugin "Bad": {message}'


def test_a_broken_unreserve_does_not_keep_the_others_from_it() -> None:
    log: list[str] = []
    profile = profile_of(
        logging_plugin("a", log), plugin("Bad", unreserve=raises), logging_plugin("c", log)
    )
    assert reserve(profile) is SUCCESS, "a plugin may have only one of the two"
    run_unreserve(profile, cycle(), POD, "n1")
    assert log[-2:] == ["unreserve c n1", "unreserve a n1"]


# Permit


def permit(profile: Profile, now: float = 100.0) -> tuple[Status, WaitingPod | None]:
    return run_permit(profile, cycle(), POD, "n1", now=now)


def test_without_objections_the_pod_may_go() -> None:
    assert permit(profile_of(plugin("A", permit=None), plugin("B", permit=SUCCESS))) == (
        SUCCESS,
        None,
    )


@pytest.mark.parametrize("rejection", [unschedulable("no"), unresolvable("no"), pending("no")])
def test_a_rejection_wins_over_those_who_would_wait(rejection: Status) -> None:
    asked: list[str] = []
    late = plugin("Late", permit=lambda *_: asked.append("late"))
    profile = profile_of(
        plugin("Waits", permit=wait("for others")), plugin("No", permit=rejection), late
    )
    assert permit(profile) == (rejection.by("No"), None)
    assert asked == []


def test_those_who_wait_hold_the_pod_together() -> None:
    profile = profile_of(
        plugin("A", permit=(wait("quorum"), 30.0)),
        plugin("B", permit=(SUCCESS, 5.0)),
        plugin("C", permit=(wait(), 20.0)),
    )
    status, waiting = permit(profile)
    assert status == wait("quorum", "one or more plugins asked to wait and no plugin rejected pod")
    assert waiting is not None
    assert (waiting.pod, waiting.node, waiting.started) == (POD, "n1", 100.0)
    assert waiting.pending_plugins == ["A", "C"]
    assert waiting.next_deadline == 120.0
    waiting.allow("C")
    assert waiting.status is None
    assert waiting.next_deadline == 130.0
    waiting.allow("A")
    assert waiting.status is SUCCESS


@pytest.mark.parametrize("answer", [wait(), (wait(), 3600.0), (wait(), MAX_WAIT_S)])
def test_nobody_holds_a_pod_longer_than_fifteen_minutes(answer: Any) -> None:
    _, waiting = permit(profile_of(plugin("Slow", permit=answer)), now=7.0)
    assert waiting is not None
    waiting.expire(7.0 + 899.9)
    assert waiting.status is None
    waiting.expire(7.0 + 900.0)
    assert waiting.status == unschedulable(
        "rejected due to timeout after waiting 15m0s at plugin Slow"
    ).by("Slow")


@pytest.mark.parametrize(
    ("timeout_s", "text"),
    [
        (10.0, "10s"),
        (0.3, "300ms"),
        (1.1, "1.1s"),
        (90.0, "1m30s"),
        (0.0, "0s"),
        (899.7, "14m59.7s"),
    ],
)
@pytest.mark.parametrize("now", [0.0, 100.0, 12_345.678_901_234, 1_000_000.1])
def test_the_timeouts_text_is_gos(now: float, timeout_s: float, text: str) -> None:
    """Whatever the clock shows: a deadline minus a start is rarely what was added."""
    _, waiting = permit(profile_of(plugin("Slow", permit=(wait(), timeout_s))), now=now)
    assert waiting is not None
    waiting.expire(waiting.next_deadline)
    assert waiting.status is not None
    assert waiting.status.message == (
        f"rejected due to timeout after waiting {text} at plugin Slow"
    )


def test_what_is_decided_stays_decided() -> None:
    decided: list[str] = []
    _, waiting = permit(profile_of(plugin("A", permit=wait())))
    assert waiting is not None
    waiting.on_decided = lambda: decided.append("once")
    waiting.reject("Other", "changed my mind")
    waiting.allow("A")
    waiting.reject("A", "too late")
    waiting.expire(1e9)
    assert waiting.status == unschedulable("changed my mind").by("Other")
    assert decided == ["once"]


# What the engine makes of it


def bench(log: list[str], **last: Any) -> Bench:
    return Bench(logging_plugin("First", log), plugin("Last", **last), nodes=[node("n1", pods=1)])


@pytest.mark.parametrize(
    ("point", "answer", "message", "place"),
    [
        ("reserve", unschedulable("sold out"), "0/1 nodes are available: 1 sold out.", "un"),
        (
            "permit",
            unschedulable("b", "a", "b"),
            "0/1 nodes are available: 1 a, 2 b.",
            "un",
        ),
        ("permit", unresolvable(), "0/1 nodes are available:", "un"),
        ("permit", pending("soon"), "0/1 nodes are available: 1 soon.", "un"),
        ("reserve", error("oops"), 'running Reserve plugin "Last": oops', "error"),
        ("permit", raises, 'running Permit plugin "Last": ValueError: broken on purpose', "error"),
    ],
)
def test_a_pod_that_is_refused_gives_its_node_back(
    point: str, answer: Any, message: str, place: str
) -> None:
    log: list[str] = []
    it = bench(log, **{point: answer})
    web = it.create(pod("web"))
    failure = it.failed()
    told = without_place(failure.message) if answer is raises else failure.message
    assert told == message
    assert failure.reason == ("SchedulerError" if place == "error" else "Unschedulable")
    assert failure.nominated_node == ""
    assert log == ["reserve First n1", "unreserve First n1"]
    assert it.cache.pod_count == 0
    assert it.where(web) == ("error_backoff" if place == "error" else "unschedulable")
    queued = it.queue.get(web)
    assert queued is not None
    rejectors = (queued.unschedulable_plugins, queued.pending_plugins)
    expected: tuple[set[str], set[str]] = ({"Last"}, set())
    if place == "error":
        expected = (set(), set())
    elif isinstance(answer, Status) and answer.code is Code.PENDING:
        expected = (set(), {"Last"})
    assert rejectors == expected


def test_a_held_pod_keeps_its_node() -> None:
    log: list[str] = []
    it = bench(log, permit=(wait(), 60.0))
    web = it.create(pod("web"))
    placement = it.placed()
    assert placement.waiting is not None
    assert it.handle.waiting.get(web.uid) is placement.waiting
    assert it.cache.node_of(web.uid) == "n1"
    assert log == ["reserve First n1"]
    it.create(pod("next"))
    assert it.failed().message == "0/1 nodes are available: 1 Too many pods."


def expire(it: Bench, waiting: WaitingPod) -> None:
    it.clock.advance(60.0)
    waiting.expire(it.clock.monotonic())


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (
            expire,
            "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin Last.",
        ),
        (
            lambda it, waiting: waiting.reject("Last", "no quorum"),
            "0/1 nodes are available: 1 no quorum.",
        ),
    ],
)
def test_a_held_pod_that_is_refused_waits_for_an_event(
    end: Callable[[Bench, WaitingPod], None], message: str
) -> None:
    """Its own leaving of the node is no event that helps it."""
    log: list[str] = []
    it = bench(log, permit=(wait(), 60.0))
    web = it.create(pod("web"))
    placement = it.placed()
    other = it.create(pod("other"))
    it.failed()
    assert placement.waiting is not None
    end(it, placement.waiting)
    assert placement.waiting.status is not None
    failure = it.engine.bind_failed(placement, placement.waiting.status)
    assert (failure.message, failure.reason) == (message, "Unschedulable")
    assert log[-1] == "unreserve First n1"
    assert it.where(web) == "unschedulable"
    assert it.where(other) in ("active", "backoff"), "there is room for it now"
    it.handlers.add_node(node("n2"))
    assert it.where(web) != "unschedulable", "a plugin that names no events hears of all"
