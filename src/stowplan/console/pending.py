"""Waiting pods by state, and within a state by cause.

With a scheduler in the process its queue says where a pod is. Without one, the pod's own gates,
nomination and condition say it. The cause is read from the condition that the scheduler has
written, ours or another, so that listing 50,000 pending pods decides nothing. The pods are grouped
in pieces. One that moves meanwhile is where it was at the beginning; the next listing corrects it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from heapq import nsmallest
from typing import Any, Final, NamedTuple

from stowplan.api.objects import Pod
from stowplan.console.mirror import ClusterMirror
from stowplan.console.pieces import in_pieces
from stowplan.explain.reasoning import last_message
from stowplan.framework.waiting import WaitingPod
from stowplan.judge.objects import Thing
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.engine import Engine

STATES: Final = ("active", "backoff", "unschedulable", "gated", "permit")
#: Causes that are listed for each state, and pods for each cause; the counts are of all.
MOST_CAUSES: Final = 50
MOST_LISTED: Final = 50
#: So much of a message is read, and of a cause shown.
_READ: Final = 4000
_SHOWN: Final = 300
_FIT_ERROR: Final = re.compile(r"\d+/\d+ nodes are available: (.*)", re.DOTALL)
_NEXT_REASON: Final = re.compile(r", (?=\d{1,9} )")
_COUNTED: Final = re.compile(r"(\d{1,9}) (.+)", re.DOTALL)


class Waiting(NamedTuple):
    """One pod that waits."""

    pod: Pod
    state: str
    cause: str
    attempts: int | None = None
    #: Seconds since it was queued, or since its last attempt.
    since_s: float | None = None
    plugins: tuple[str, ...] = ()


class _Group:
    """The pods of one cause: how many, and the first of them."""

    def __init__(self) -> None:
        self.pods = 0
        self._plugins: set[str] = set()
        self._first: list[Waiting] = []

    def add(self, some: Sequence[Waiting]) -> None:
        self.pods += len(some)
        self._plugins.update(*(each.plugins for each in some))
        self._first = nsmallest(MOST_LISTED, [*self._first, *some], key=_order)

    def shown(self, cause: str) -> dict[str, Any]:
        return {
            "cause": cause,
            "pods": self.pods,
            "plugins": sorted(self._plugins),
            "listed": [_listed(each) for each in self._first],
        }


async def waiting_pods(mirror: ClusterMirror, engine: Engine | None) -> dict[str, Any]:
    """The queue, as the page shows it."""
    groups: dict[str, dict[str, _Group]] = {state: {} for state in STATES}
    if engine is None:
        async for things in in_pieces(list(mirror.pending.values())):
            _add(groups, [_of_object(each) for each in things])
    else:
        now = engine.clock.monotonic()
        held = [each for handle in engine.handles.values() for each in handle.waiting]
        async for some in in_pieces(held):
            _add(groups, [_of_permit(each, now) for each in some])
        skipped = {each.pod.uid for each in held}
        for state, members in _places(engine):
            async for piece in in_pieces(members):
                found = (_of_queue(each, state, now) for each in piece if each.uid not in skipped)
                _add(groups, list(found))
    return {
        "live": engine is not None,
        "states": [{"state": state, **_shown(found)} for state, found in groups.items()],
    }


def _places(engine: Engine) -> tuple[tuple[str, list[QueuedPod]], ...]:
    pending = engine.queue.pending(in_order=False)
    return (
        ("active", [*pending.active, *pending.in_flight]),
        ("backoff", [*pending.backoff, *pending.error_backoff]),
        ("unschedulable", pending.unschedulable),
        ("gated", pending.gated),
    )


def _of_queue(queued: QueuedPod, state: str, now: float) -> Waiting:
    plugins = tuple(queued.rejectors) or (queued.gating_plugin,)
    cause = _cause(queued.pod, state, queued.gating_message)
    since = max(now - queued.timestamp, 0.0)
    return Waiting(queued.pod, state, cause, queued.attempts, since, tuple(filter(None, plugins)))


def _of_permit(waiting: WaitingPod, now: float) -> Waiting:
    plugins = tuple(waiting.pending_plugins)
    cause = f"held by {', '.join(plugins)}, for {waiting.node}"
    return Waiting(waiting.pod, "permit", cause, None, max(now - waiting.started, 0.0), plugins)


def _of_object(thing: Thing) -> Waiting:
    pod: Pod = thing.struct
    state = "unschedulable" if last_message(pod) else "active"
    if pod.spec.scheduling_gates:
        state = "gated"
    return Waiting(pod, state, _cause(pod, state))


def _cause(pod: Pod, state: str, gating_message: str = "") -> str:
    if pod.spec.scheduling_gates:
        return "scheduling gates: " + ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if state == "gated":
        return gating_message
    if pod.status.nominated_node_name:
        return "waiting for victims to go"
    return dominant_reason(last_message(pod)[:_READ]) or "not tried yet"


@lru_cache(maxsize=4096)  # thousands of pods share a message
def dominant_reason(message: str) -> str:
    """The reason that most nodes give, of a condition's message; other messages as they are."""
    matched = _FIT_ERROR.match(message)
    if matched is None:
        return message
    reasons = matched[1].partition(" preemption: ")[0]
    parts = (_COUNTED.match(part) for part in _NEXT_REASON.split(reasons))
    counted = [(int(part[1]), part[2]) for part in parts if part is not None]
    most = max(counted, key=lambda each: each[0])[1] if counted else reasons
    return most.partition(". ")[0].rstrip(". ")


def _add(groups: dict[str, dict[str, _Group]], found: Sequence[Waiting]) -> None:
    by_cause: dict[tuple[str, str], list[Waiting]] = {}
    for each in found:
        by_cause.setdefault((each.state, each.cause[:_SHOWN]), []).append(each)
    for (state, cause), some in by_cause.items():
        groups[state].setdefault(cause, _Group()).add(some)


def _shown(groups: dict[str, _Group]) -> dict[str, Any]:
    largest = nsmallest(MOST_CAUSES, groups.items(), key=lambda item: -item[1].pods)
    return {
        "pods": sum(group.pods for group in groups.values()),
        "causes": len(groups),
        "groups": [group.shown(cause) for cause, group in largest],
    }


def _order(waiting: Waiting) -> tuple[int, float]:
    """The default order of the queue; a QueueSort plugin's own is not computed for a listing."""
    return -waiting.pod.priority, -(waiting.since_s or 0.0)


def _listed(waiting: Waiting) -> dict[str, Any]:
    since = None if waiting.since_s is None else round(waiting.since_s, 1)
    return {
        "pod": waiting.pod.key,
        "priority": waiting.pod.priority,
        "attempts": waiting.attempts,
        "since": since,
        "created": waiting.pod.metadata.creation_timestamp,
    }
