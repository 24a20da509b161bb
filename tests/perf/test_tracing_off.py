"""Attempts that are not traced call nothing of tracing; traced ones add few calls."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

from stowplan.cluster import compiled
from stowplan.framework.profile import Profile
from stowplan.lab.bench.decisions import DecisionCase, LoadedEngine
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.attempt_trace import AttemptTrace, Tracer
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Placement

PODS = 20
#: PreFilter, Filter, PreScore, Score, Reserve, Permit.
POINTS = 6


class _Kept(Tracer):
    def __init__(self, engine: Engine) -> None:
        self._clock = engine.clock
        self._ids = count(1)

    def begin(self, queued: QueuedPod, started: float) -> AttemptTrace:
        return AttemptTrace(1, True, self._clock, self._ids.__next__, None, 0)

    def end(self, trace: AttemptTrace, result: str, message: str) -> None:
        assert len(trace.points) == POINTS


def calls_by_file(*, is_traced: bool) -> Counter[str]:
    """Python functions that attempts call, by the file they are in."""
    compiled.clear()  # its ticks decide when it looks for idle values
    stage = LoadedEngine(DecisionCase("counted", "one shape", nodes=50, existing=0))
    engine, handlers = stage.engine, EventHandlers(stage.engine)
    if is_traced:
        engine.tracer = _Kept(engine)
    for each in stage.next_pods(PODS):
        handlers.add_pod(each)
    calls: Counter[str] = Counter()

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls[Path(frame.f_code.co_filename).stem] += 1

    for _ in range(PODS):
        gc.disable()  # what a collection calls depends on what else the process has seen
        sys.setprofile(on_event)
        try:
            outcome = engine.attempt()
        finally:
            sys.setprofile(None)
            gc.enable()
        assert isinstance(outcome, Placement)
        assert isinstance(outcome.profile, Profile)
        engine.permitted(outcome)
        engine.bound(outcome)
        if is_traced:
            engine.finished(outcome)
    return calls


def test_attempts_that_are_not_traced_call_nothing_of_tracing() -> None:
    calls_by_file(is_traced=False)  # fills caches of the process
    off, on = calls_by_file(is_traced=False), calls_by_file(is_traced=True)
    assert off["attempt_trace"] == 0
    assert not [file for file in off if "span" in file or "otel" in file]
    assert on["attempt_trace"] == PODS * (1 + 2 * POINTS), "decided(), and point() with _add()"
    assert on["<string>"] - off["<string>"] == PODS * (1 + POINTS), "the record and its steps"
    for added in ("attempt_trace", "test_tracing_off", "<string>"):
        del on[added], off[added]
    assert on == off, "nothing else changes"
