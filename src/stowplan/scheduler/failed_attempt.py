"""Attempts that end without a node: counted, traced, in the ledger, and their pods queued again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stowplan.framework.status import Code, Status, error, fit_error
from stowplan.logs import V3, get_logger, kv
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.outcome import Failure

if TYPE_CHECKING:
    from stowplan.scheduler.engine import Engine

#: The logger of all messages about attempts.
log = get_logger("stowplan.scheduler.engine")


def skip(engine: Engine, queued: QueuedPod) -> Failure | None:
    """The outcome of an attempt that is not needed: its pod is being deleted, or has a node."""
    pod = queued.pod
    if pod.is_terminating:
        engine.queue.done(queued.uid)
        log.log(V3, "Skip schedule deleting pod", extra=kv(pod=pod.key))
        message = f"skip schedule deleting pod: {pod.key}"
        return Failure(pod, queued.scheduler_name, error(message), message, None, is_pending=False)
    if engine.cache.node_of(queued.uid) is not None:
        engine.queue.done(queued.uid)
        return over(queued, "already placed")
    return None


def over(queued: QueuedPod, why: str) -> Failure:
    """The outcome of an attempt with nothing left to do, and nothing to report."""
    return Failure(queued.pod, queued.scheduler_name, error(why), "", None, is_pending=False)


def attempt_failed(
    engine: Engine,
    queued: QueuedPod,
    status: Status,
    profile: str,
    started: float,
    *,
    message: str = "",
    nominated_node: str | None = "",
    decision: Decision | None = None,
    is_over: bool = False,
) -> Failure:
    """Count and record a failed attempt, and queue its pod again unless `is_over`."""
    result = "unschedulable" if status.is_rejected else "error"
    took = engine.clock.monotonic() - started
    engine.metrics.attempt_ended(result, profile, took)
    if queued.trace is not None:
        engine.end_trace(queued, result, message or status.message)
    is_pending = not is_over and _requeue(engine, queued)
    if is_pending:
        engine.queue.nominator.add(queued.pod, nominated_node)
    if engine.ledger is not None:
        again = engine.queue.retry_times(queued) if is_pending else (None, None)
        text = message or status.message
        engine.ledger.ended(queued, result, took, text, backoff_until=again[0], retry_by=again[1])
    return Failure(
        queued.pod,
        profile,
        status,
        message or status.message,
        nominated_node,
        is_pending=is_pending,
        decision=decision,
    )


def rejected_late(
    engine: Engine, queued: QueuedPod, status: Status, profile: str, started: float
) -> Failure:
    """Fail an attempt that a Reserve, Permit or binding plugin rejected or broke."""
    if not status.is_rejected:
        return attempt_failed(engine, queued, status, profile, started)
    names = queued.pending_plugins if status.code is Code.PENDING else queued.unschedulable_plugins
    names.add(status.plugin)
    message = fit_error(1, Counter(status.reasons))
    return attempt_failed(engine, queued, status, profile, started, message=message)


def _requeue(engine: Engine, queued: QueuedPod) -> bool:
    """Put a pod back, unless the newest version of it needs no scheduling."""
    if engine.lookup is None:
        return engine.queue.add_unschedulable(queued)
    current = engine.lookup(queued.key)
    if current is None or current.uid != queued.uid or current.spec.node_name:
        engine.queue.done(queued.uid)
        return False
    return engine.queue.add_unschedulable(queued, current)
