"""Which attempts become traces, and with which steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from stowplan.clock import Clock, VirtualClock
from stowplan.framework.status import SUCCESS, error, wait
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.attempt_trace import MAX_STEPS, AttemptTrace, Tracer
from stowplan.scheduler.outcome import Deferral
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench
from tests.unit.scheduler.live_bench import live
from tests.unit.scheduler.scheduler_kit import plugin
from tests.unit.scheduler.test_deferral import LIMIT, Pieces


@dataclass
class Recording(Tracer):
    clock: Clock
    begun: int = 0
    ended: list[tuple[AttemptTrace, str, str]] = field(default_factory=list)

    def begin(self, queued: QueuedPod, started: float) -> AttemptTrace:
        self.begun += 1
        return AttemptTrace(self.begun, True, self.clock, count(1).__next__, None, 0)

    def end(self, trace: AttemptTrace, result: str, message: str) -> None:
        self.ended.append((trace, result, message))

    @property
    def only(self) -> tuple[list[str], list[str], str, str]:
        """Points, calls, result and message of the only trace."""
        ((trace, result, message),) = self.ended
        return (
            [f"{step.name} {step.status}" for step in trace.points],
            [f"{step.name} {step.status}" for step in trace.calls],
            result,
            message,
        )


def record(bench: Any) -> Recording:
    tracer = bench.engine.tracer = Recording(bench.engine.clock)
    return tracer


async def test_a_binding_that_fails_ends_the_trace_with_unreserve() -> None:
    async with live(plugin("Broken", pre_bind=lambda *_: error("no volume"))) as it:
        tracer = record(it)
        it.post(pod("web"))
        await it.bind_next()
        points, calls, result, message = tracer.only
    assert points[-3:] == ["PreBindPreFlight Success", "PreBind Error", "Unreserve Success"]
    assert calls == ["Broken Error"]
    assert (result, message) == ("error", 'running PreBind plugin "Broken": no volume')


async def test_waiting_on_permit_is_a_step() -> None:
    holding = plugin("Holding", permit=lambda *_: (wait(), 0.01))
    async with live(holding) as it:
        tracer = record(it)
        it.post(pod("web"))
        await it.bind_next()
        points, _, result, message = tracer.only
    assert [name for name in points if "Permit" in name] == [
        "Permit Wait",
        "WaitOnPermit Unschedulable",
    ]
    assert result == "unschedulable"
    assert "Holding" in message or "timeout" in message


def test_a_deferred_attempt_is_one_trace() -> None:
    bench = Bench(Pieces(), nodes=[node("n1")])
    bench.engine.decision_work = LIMIT
    tracer = record(bench)
    bench.create(pod("web", labels={"pieces": "5"}))
    outcomes = []
    while isinstance(outcome := bench.engine.advance(), Deferral):
        outcomes.append(outcome)
    assert outcomes
    assert outcome is not None
    assert tracer.begun == 1
    assert not tracer.ended, "it is on its way to its node"


def test_pods_that_need_no_attempt_have_no_trace() -> None:
    bench = Bench(nodes=[node("n1")])
    tracer = record(bench)
    web = bench.create(pod("web"))
    bench.update(web, deletion_timestamp="2026-01-01T00:00:00Z")
    bench.engine.attempt()
    assert tracer.begun == 0


def trace(*, is_sampled: bool = True) -> AttemptTrace:
    return AttemptTrace(0xABC, is_sampled, VirtualClock(), count(0x11).__next__, None, 0)


def test_more_steps_than_a_trace_may_hold_are_counted() -> None:
    kept = trace()
    for _ in range(MAX_STEPS + 3):
        kept.plugin("DefaultBinder", "Error", 0.0, 1.0)
    assert len(kept.calls) == MAX_STEPS
    assert kept.left_out == 3


@pytest.mark.parametrize(("is_sampled", "flags"), [(True, "01"), (False, "00")])
def test_the_header_says_whether_the_trace_is_sampled(is_sampled: bool, flags: str) -> None:
    kept = trace(is_sampled=is_sampled)
    with kept.request("filter", "http://e/filter") as traceparent:
        kept.point("Filter", SUCCESS.code.label, 0.0, 1.0)
    assert traceparent == f"00-{'abc':0>32}-{'11':0>16}-{flags}"
    assert [step.span_id for step in kept.calls] == ([0x11] if is_sampled else [])
    assert len(kept.points) == is_sampled


def test_a_request_that_fails_says_why() -> None:
    kept = trace()
    with pytest.raises(ValueError, match="odd"), kept.request("filter", "http://e/filter"):
        raise ValueError("odd answer")
    (step,) = kept.calls
    assert (step.name, step.status, step.problem) == ("extender filter", "Error", "odd answer")
