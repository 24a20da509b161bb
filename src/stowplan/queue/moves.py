"""What the log says when a pod moves from one part of the queue to another; upstream's messages.

The queue checks the verbosity before it calls these, because every pod passes there.
"""

from __future__ import annotations

from stowplan.logs import V3, V5, get_logger, kv
from stowplan.queue.events import SCHEDULE_ATTEMPT_FAILURE
from stowplan.queue.hints import Strategy
from stowplan.queue.pod import QueuedPod

log = get_logger(__name__)

_MOVED = "Pod moved to an internal scheduling queue"
_GATED = "Pod moved to an internal scheduling queue, because the pod is gated"
#: kube-scheduler's numbers for what the events during an attempt are worth.
_HINTS = {Strategy.SKIP: 0, Strategy.AFTER_BACKOFF: 1, Strategy.IMMEDIATELY: 2}


def log_move(queued: QueuedPod, event: str, queue: str) -> None:
    log.log(V5, _MOVED, extra=kv(pod=queued.key, event=event, queue=queue))


def log_gated(queued: QueuedPod, event: str) -> None:
    log.log(
        V5,
        _GATED,
        extra=kv(pod=queued.key, event=event, queue="Unschedulable"),
    )


def log_failed(queued: QueuedPod, queue: str, cycle: int, strategy: Strategy) -> None:
    """After a failed attempt."""
    fields: dict[str, object] = {
        "pod": queued.key,
        "event": SCHEDULE_ATTEMPT_FAILURE,
        "queue": queue,
        "schedulingCycle": cycle,
        "hint": _HINTS[strategy],
        "unschedulable plugins": {plugin: {} for plugin in sorted(queued.rejectors)},
    }
    log.log(V3, _MOVED, extra=kv(**fields))
