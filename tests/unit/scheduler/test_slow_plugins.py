"""Plugins that take long are reported by name; nothing interrupts them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.clock import VirtualClock
from stowplan.cluster.views import NodeView
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import unschedulable
from stowplan.framework.stopwatch import Stopwatch
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import MemoryCluster, node, pod
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.scheduler_kit import SCHEDULER, plugin

SLOW_LINE = "A plugin is slow, and every pod waits for it"


def slow(method: str, answer: Any = None, seconds: float = 0.04) -> tuple[Bench, Plugin]:
    """An engine with a quick plugin and one that takes this long in each call of a method."""
    holder: list[Bench] = []

    def late(*_: object) -> Any:
        holder[0].clock.advance(seconds)
        return answer

    made = plugin("Slow", **{method: late})
    it = Bench(made, plugin("Quick", filter=True), nodes=[node(f"n{index}") for index in range(4)])
    holder.append(it)
    return it, made


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.__dict__["kv"] for record in caplog.records if record.msg == SLOW_LINE]


@pytest.mark.parametrize(
    ("method", "answer", "seconds"),
    [
        ("pre_filter", None, 0.16),
        ("filter", True, 0.04),  # on each of four nodes
        ("filter_columns", None, 0.16),
        ("pre_score", None, 0.16),
        ("score", 1, 0.04),
        ("score_columns", None, 0.16),
        ("post_filter", unschedulable("no room"), 0.16),
        ("reserve", None, 0.16),
        ("permit", None, 0.16),
    ],
)
def test_a_slow_plugin_is_named_with_the_pod(
    method: str, answer: Any, seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    it, _ = slow(method, answer, seconds)
    it.create(pod("web", cpu="1000" if method == "post_filter" else "1"))
    outcome = it.engine.attempt()
    assert isinstance(outcome, Failure if method == "post_filter" else Placement)
    assert lines(caplog) == [
        {
            "plugin": "Slow",
            "pod": "default/web",
            "profile": SCHEDULER,
            "seconds": 0.16,
            "othersSinceLast": 0,
        }
    ]
    assert it.engine.metrics.slow_plugins.at("Slow", SCHEDULER).value == 1


def test_repeats_are_counted_and_logged_seldom(caplog: pytest.LogCaptureFixture) -> None:
    it, _ = slow("pre_filter", seconds=0.25)
    for number in range(60):
        it.create(pod(f"p{number}", cpu=0))
        it.placed()
    assert it.engine.metrics.slow_plugins.at("Slow", SCHEDULER).value == 60
    assert [line["othersSinceLast"] for line in lines(caplog)] == [0, 39]


def test_many_plugins_that_are_slow_only_together_are_not_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it, _ = slow("pre_filter", seconds=0.09)
    it.create(pod("web"))
    it.placed()
    assert lines(caplog) == []


def test_in_virtual_time_plugins_are_timed_on_the_real_clock(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Sleepy(Plugin):
        name = "Sleepy"

        def filter(self, pod: Pod, node: NodeView) -> bool:
            time.sleep(0.11)
            return True

    with MemoryCluster(Sleepy) as cluster:
        cluster.add_node("n1")
        cluster.add_pod("web")
        assert cluster.node_of("web") == "n1"
    assert [line["plugin"] for line in lines(caplog)] == ["Sleepy"]


def test_a_timed_call_reads_the_clock_twice() -> None:
    class Counted(VirtualClock):
        reads = 0

        def monotonic(self) -> float:
            self.reads += 1
            return super().monotonic()

    clock = Counted()
    watch = Stopwatch(clock)
    assert watch.run("Any", "Filter", max, 1, 2) == 2
    assert clock.reads == 2


def test_calls_are_timed_only_where_a_plugin_is_not_ours_or_the_decision_is_sampled() -> None:
    def watch(it: Bench) -> object:
        it.create(pod("sampled"))
        assert it.placed().decision.cycle.watch is not None
        it.create(pod("web"))
        return it.placed().decision.cycle.watch

    assert watch(Bench(nodes=[node()])) is None
    assert watch(Bench(plugin("Theirs", filter=True), nodes=[node()])) is not None
