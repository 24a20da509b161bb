"""The ledger adds few calls to a pod, and costly details stay within their share of the time."""

from __future__ import annotations

import gc
from math import inf

import pytest

from stowplan.clock import VirtualClock
from stowplan.cluster import compiled
from stowplan.lab.bench.decisions import DecisionCase, LoadedEngine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.ledger import DETAIL_SHARE, Ledger
from stowplan.scheduler.outcome import Placement
from tests.perf.counting import Work

PODS = 40
WARM_UP = 20
#: About 2 % of the calls that a pod of one shape takes.
MOST_CALLS = 12


def calls(ledger: Ledger | None) -> float:
    compiled.clear()  # its ticks decide when it looks for idle values
    stage = LoadedEngine(DecisionCase("counted", "one shape", nodes=50, existing=0))
    engine, work = stage.engine, Work()
    engine.ledger = ledger
    handlers = EventHandlers(engine)
    for each in stage.next_pods(PODS + WARM_UP):
        handlers.add_pod(each)
    for number in range(PODS + WARM_UP):
        if number == WARM_UP:
            work.calls = 0
        gc.disable()  # what a collection calls depends on what else the process has seen
        try:
            with work.counted():
                outcome = engine.attempt()
                assert isinstance(outcome, Placement)
                engine.permitted(outcome)
                engine.bound(outcome)
        finally:
            gc.enable()
    return work.calls / PODS


def test_a_placed_pod_costs_few_calls_more_in_a_rush() -> None:
    calls(None)  # fills caches of the process
    busy = Ledger(VirtualClock())
    busy._details_from = inf
    assert calls(busy) - calls(None) <= MOST_CALLS
    assert len(busy) == PODS + WARM_UP


def test_in_a_rush_few_attempts_have_details(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much time passes: a process that waits for a CPU sees more than it gets."""
    stage = LoadedEngine(DecisionCase("counted", "one shape", nodes=10, existing=0))
    monkeypatch.setattr("stowplan.scheduler.ledger.DETAIL_SHARE", inf)
    ledger = stage.engine.ledger = Ledger(stage.engine.clock)
    stage.enqueue(200)
    for _ in range(200):
        assert stage.engine.attempt() is not None
    detailed = [entry.durations is not None for entry in ledger]
    rush = 200 - 21  # until 20 wait
    assert sum(detailed[:rush]) == rush // 64
    assert all(detailed[-20:])


class _Ticking(VirtualClock):
    """A clock on which time passes by being read."""

    def monotonic(self) -> float:
        self.advance(0.001)
        return super().monotonic()


def test_costly_details_take_no_more_than_their_share() -> None:
    clock = _Ticking()
    ledger = Ledger(clock)
    began = clock._now
    for _ in range(20_000):
        now = clock.monotonic()
        if now >= ledger._details_from:
            ledger._spent(now)
    took = clock._now - began
    # A detail takes one tick here, and a second of quiet is saved up.
    details = took - 20_000 * 0.001
    assert 0.5 * DETAIL_SHARE * took < details <= DETAIL_SHARE * (took + 1.0) + 0.002
