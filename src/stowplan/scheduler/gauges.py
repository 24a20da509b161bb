"""Gauges of a running scheduler: values read from their owners when metrics are scraped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stowplan.api.informer import Informer
from stowplan.api.recorder import EventRecorder
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.loop import SchedulingLoop


def expose_gauges(
    engine: Engine,
    loop: SchedulingLoop,
    recorder: EventRecorder,
    informers: Mapping[str, Informer[Any]],
) -> None:
    """Connect the engine's metrics to the objects that hold their values."""
    metrics, queue, cache = engine.metrics, engine.queue, engine.cache

    def pending() -> dict[tuple[str, ...], float]:
        counts = queue.counts
        return {
            ("active",): counts.active,
            ("backoff",): counts.backoff,
            ("unschedulable",): counts.unschedulable,
            ("gated",): counts.gated,
        }

    metrics.pending_pods.read = pending
    metrics.queue_incoming_pods.read = lambda: dict(queue.incoming.items())
    metrics.inflight_events.read = lambda: {(k,): v for k, v in queue.inflight_events.items()}
    metrics.cache_size.read = lambda: {
        ("nodes",): len(cache.table),
        ("pods",): cache.pod_count,
        ("assumed_pods",): cache.assumed_count,
    }
    metrics.goroutines.read = lambda: {("binding",): loop.binds_in_flight}
    metrics.binds_in_flight.read = lambda: {(): loop.binds_in_flight}
    metrics.events_written.read = lambda: {(): recorder.written}
    metrics.events_dropped.read = lambda: {(): recorder.dropped}
    metrics.unschedulable_pods.read = lambda: dict(queue.unschedulable_by.items())
    metrics.preemption_attempts.read = lambda: {
        (): sum(handle.preempting.attempts for handle in engine.handles.values())
    }
    metrics.lists.read = lambda: {
        (name,): informer.lists_applied for name, informer in informers.items()
    }
