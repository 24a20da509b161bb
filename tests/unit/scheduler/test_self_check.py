"""Every N-th decision is made again on a rebuilt cluster; a stale cache costs one decision."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import NodeView
from stowplan.config.load import parse_config
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import unschedulable
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Deferral, Placement
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.scheduler_kit import SCHEDULER


def _bench(*plugins: Plugin, every: int = 1) -> Bench:
    bench = Bench(*plugins, nodes=[node(f"n{number}", cpu=4) for number in range(3)])
    bench.engine.verify_decisions(every)
    return bench


def _decide(bench: Bench, *names: str, **more: Any) -> list[str]:
    """Where pods go that come one after the other."""
    placed = []
    for name in names:
        bench.create(pod(name, **more))
        outcome = bench.engine.attempt()
        placed.append(outcome.node if isinstance(outcome, Placement) else "")
    return placed


def _counted(bench: Bench) -> tuple[int, int]:
    """Checks and mismatches."""
    metrics = bench.engine.metrics
    checks = metrics.decision_checks.at(SCHEDULER).value
    return int(checks), int(metrics.decision_mismatches.at(SCHEDULER).value)


def test_every_nth_decision_is_checked() -> None:
    bench = _bench(every=3)
    _decide(bench, *(f"p{number}" for number in range(7)))
    assert _counted(bench) == (2, 0)


def test_zero_checks_nothing() -> None:
    bench = _bench(every=0)
    _decide(bench, "a", "b")
    assert _counted(bench) == (0, 0)


def test_a_large_cluster_is_checked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.scheduler.self_check._OBJECTS_PER_DECISION", 1)
    monkeypatch.setattr("stowplan.scheduler.self_check._ALWAYS_REBUILT", 0)
    bench = _bench()
    _decide(bench, *(f"p{number}" for number in range(12)))
    # Three nodes and no pod after the first decision, then ever more pods.
    assert _counted(bench) == (3, 0)


def test_a_check_changes_nothing() -> None:
    """Not even where chance decides: both see the same random numbers."""

    def play(every: int) -> tuple[list[str], object, int]:
        bench = _bench(every=every)
        bench.handle.rng.seed(7)
        placed = _decide(bench, *"abcdef", cpu=3)
        placed += _decide(bench, *"uvwxyz", cpu=3, priority=5)
        return placed, bench.handle.rng.getstate(), bench.handle.preempting.attempts

    assert play(1) == play(0)


def test_a_stale_cache_is_logged_counted_and_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = _bench()
    assert sorted(_decide(bench, "a", "b", "c", cpu=3)) == ["n0", "n1", "n2"]
    monkeypatch.setattr(NodeTable, "_mark_pods", lambda self, row: None)
    table = bench.cache.table
    bench.delete(bench.store["default/b"])
    monkeypatch.undo()
    freed = next(table.names[row] for row in range(3) if not table.pods[row])
    with caplog.at_level(logging.ERROR, "stowplan"):
        # The pod that is decided wrongly at first goes where it should.
        assert _decide(bench, "d", cpu=3) == [freed]
    assert _counted(bench) == (4, 1)
    (record,) = [each for each in caplog.records if "rebuilt cluster" in each.message]
    shown = str(vars(record))
    assert "default/d" in shown
    assert f"node: nothing, should be {freed}" in shown
    assert "feasible nodes: 0, should be 1" in shown
    bench.delete(bench.store["default/a"])
    _decide(bench, "e", "f", cpu=3)
    assert _counted(bench) == (6, 1)


class Forgetful(Plugin):
    """Says that it reads nodes only, and refuses those that hold two pods."""

    name = "Forgetful"
    reads = Reads.NODE
    verdicts = (unschedulable("two are enough"),)

    def sign(self, info: PodInfo) -> str:
        return ""

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        out[rows] = cycle.table.pod_count[rows] >= 2

    def filter(self, asking: Pod, on: NodeView) -> bool:
        return on.pod_count < 2


def test_a_plugin_that_reads_more_than_it_declares_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = _bench(Forgetful())
    with caplog.at_level(logging.ERROR, "stowplan"):
        placed = _decide(bench, *(f"p{number}" for number in range(7)))
    assert [placed.count(name) for name in ("n0", "n1", "n2", "")] == [2, 2, 2, 1]
    assert _counted(bench)[1] > 0
    shown = "".join(str(vars(record)) for record in caplog.records)
    assert "two are enough (Forgetful)" in shown
    assert "on node n" in shown


class Counting(Plugin):
    """A user's plugin with state of its own: prefers the node after the last one it reserved."""

    name = "Counting"

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[str] = []
        self.draws = Random(3)

    def score(self, asking: Pod, on: NodeView) -> int:
        return 100 if on.name == f"n{len(self.reserved) % 3}" else self.draws.randrange(50)

    def reserve(self, cycle: Cycle, asking: Pod, on: str) -> None:
        self.reserved.append(on)


def test_plugins_keep_their_own_state() -> None:
    bench = _bench(Counting())
    _decide(bench, *(f"p{number}" for number in range(6)))
    assert _counted(bench) == (6, 0)


class Connected(Counting):
    """Holds something that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = iter(lambda: None, 1)

    def score(self, asking: Pod, on: NodeView) -> int:
        return len(self.reserved) % 3


def test_plugins_that_cannot_be_copied_are_shared() -> None:
    bench = _bench(Connected())
    _decide(bench, *"abc")
    assert _counted(bench) == (3, 0)


def test_a_check_that_breaks_costs_nothing_but_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory left")

    monkeypatch.setattr("stowplan.scheduler.self_check.fill", fail)
    bench = _bench()
    with caplog.at_level(logging.ERROR, "stowplan"):
        assert _decide(bench, "a") != [""]
    assert _counted(bench) == (0, 0)
    assert bench.engine.metrics.decision_checks_skipped.at("error").value == 1
    assert "The self-check failed" in caplog.text


class Expensive(Plugin):
    name = "Expensive"

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.spend(100)


def test_what_takes_too_much_work_is_not_checked() -> None:
    bench = _bench(Expensive())
    bench.engine.decision_work = 20
    bench.create(pod("a"))
    assert isinstance(bench.engine.advance(), Deferral)
    assert bench.engine.metrics.decision_checks_skipped.at("expensive").value == 1
    bench.engine.decision_work = 200
    assert isinstance(bench.engine.advance(), Placement)
    # The attempt that was deferred is not checked when it goes on.
    assert _counted(bench) == (0, 0)


def test_what_asks_an_extender_is_not_checked() -> None:
    config = parse_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: 'http://127.0.0.1:1', filterVerb: filter}]\n"
    )
    engine = build_engine(config, registry=in_tree_registry())
    engine.verify_decisions(1)
    handlers = EventHandlers(engine)
    handlers.add_node(node("n"))
    handlers.add_pod(pod("a"))
    steps = engine.attempt_steps()
    next(steps)  # the one request of the decision itself
    steps.close()
    assert engine.metrics.decision_checks_skipped.at("extender").value == 1
