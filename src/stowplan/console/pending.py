"""Waiting pods by state, and within a state by cause.

With a scheduler in the process its queue says where a pod is. Without one, the pod's own gates,
nomination and condition say it. The cause is read from the condition that the scheduler has
written, ours or another, so that listing 50,000 pending pods decides nothing. The pods are grouped
in pieces. One that moves meanwhile is where it was at the beginning; the next listing corrects it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from heapq import nlargest, nsmallest
from typing import Any, Final, NamedTuple

from stowplan.api.objects import Pod
from stowplan.console.mirror import ClusterMirror
from stowplan.console.pieces import in_pieces
from stowplan.explain.reasoning import last_message
from stowplan.framework.waiting import WaitingPod
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
    attempts: int | None = None
    #: Seconds since it was queued, or since its last attempt.
    since_s: float | None = None
    plugins: tuple[str, ...] = ()


class _Place(NamedTuple):
    """Pods of one kind, and how to read them."""

    members: Sequence[Any]
    #: The state and the cause of a member.
    reason: Callable[[Any], tuple[str, str]]
    waiting: Callable[[Any], Waiting]


class _Group:
    """The pods of one cause: how many, and the first of them."""

    def __init__(self, pods: int) -> None:
        self.pods = pods
        self._plugins: set[str] = set()
        self._first: list[Waiting] = []

    def add(self, some: Sequence[Waiting]) -> None:
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
    """The queue, as the page shows it.

    Causes are counted first, and pods read only of those that are shown: every pod may have a cause
    of its own.
    """
    places = _of_engine(engine) if engine is not None else [_of_objects(mirror)]
    counts: dict[str, dict[str, int]] = {state: {} for state in STATES}
    reasons: list[list[tuple[str, str]]] = []
    for place in places:
        async for piece in in_pieces(place.members):
            found = [place.reason(each) for each in piece]
            reasons.append(found)
            for state, cause in found:
                counts[state][cause] = counts[state].get(cause, 0) + 1
    groups = {state: await _largest(causes) for state, causes in counts.items()}
    known = iter(reasons)
    for place in places:
        async for piece in in_pieces(place.members):
            _add(groups, place.waiting, piece, next(known))
    return {
        "live": engine is not None,
        "states": [
            {
                "state": state,
                "pods": sum(causes.values()),
                "causes": len(causes),
                "groups": [group.shown(cause) for cause, group in groups[state].items()],
            }
            for state, causes in counts.items()
        ],
    }


async def _largest(causes: dict[str, int]) -> dict[str, _Group]:
    largest: list[tuple[str, int]] = []
    async for piece in in_pieces(list(causes.items())):
        largest = nlargest(MOST_CAUSES, [*largest, *piece], key=lambda item: item[1])
    return {cause: _Group(pods) for cause, pods in largest}


def _add(
    groups: dict[str, dict[str, _Group]],
    waiting: Callable[[Any], Waiting],
    members: Sequence[Any],
    reasons: Sequence[tuple[str, str]],
) -> None:
    shown: dict[tuple[str, str], list[Waiting]] = {}
    for member, (state, cause) in zip(members, reasons, strict=True):
        if cause in groups[state]:
            shown.setdefault((state, cause), []).append(waiting(member))
    for (state, cause), some in shown.items():
        groups[state][cause].add(some)


def _of_engine(engine: Engine) -> list[_Place]:
    now, pending = engine.clock.monotonic(), engine.queue.pending(in_order=False)
    held = [each for handle in engine.handles.values() for each in handle.waiting]
    elsewhere = {each.pod.uid for each in held}

    def place(state: str, members: list[QueuedPod]) -> _Place:
        if elsewhere:
            members = [each for each in members if each.uid not in elsewhere]
        return _Place(members, partial(_queued_reason, state), partial(_of_queue, now))

    return [
        place("active", [*pending.active, *pending.in_flight]),
        place("backoff", [*pending.backoff, *pending.error_backoff]),
        place("unschedulable", pending.unschedulable),
        place("gated", pending.gated),
        _Place(held, _permit_reason, partial(_of_permit, now)),
    ]


def _of_objects(mirror: ClusterMirror) -> _Place:
    pods = [thing.struct for thing in mirror.pending.values()]
    return _Place(pods, _object_reason, Waiting)


def _queued_reason(state: str, queued: QueuedPod) -> tuple[str, str]:
    return state, _cause(queued.pod, state, queued.gating_message)


def _of_queue(now: float, queued: QueuedPod) -> Waiting:
    plugins = tuple(queued.rejectors) or (queued.gating_plugin,)
    since = max(now - queued.timestamp, 0.0)
    return Waiting(queued.pod, queued.attempts, since, tuple(filter(None, plugins)))


def _permit_reason(waiting: WaitingPod) -> tuple[str, str]:
    cause = f"held by {', '.join(waiting.pending_plugins)}, for {waiting.node}"
    return "permit", cause[:_SHOWN]


def _of_permit(now: float, waiting: WaitingPod) -> Waiting:
    since = max(now - waiting.started, 0.0)
    return Waiting(waiting.pod, None, since, tuple(waiting.pending_plugins))


def _object_reason(pod: Pod) -> tuple[str, str]:
    state = "unschedulable" if last_message(pod) else "active"
    if pod.spec.scheduling_gates:
        state = "gated"
    return state, _cause(pod, state)


def _cause(pod: Pod, state: str, gating_message: str = "") -> str:
    return _whole_cause(pod, state, gating_message)[:_SHOWN]


def _whole_cause(pod: Pod, state: str, gating_message: str) -> str:
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
