"""Waiting pods by state, and within a state by cause.

With a scheduler in the process its queue says where a pod is. Without one, the pod's own gates,
nomination and condition say it. The cause is read from the condition that the scheduler has
written, ours or another, so that listing 50,000 pending pods decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stowplan.api.objects import Pod
from stowplan.console.mirror import ClusterMirror
from stowplan.explain.reasoning import last_message
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.engine import Engine

STATES: Final = ("active", "backoff", "unschedulable", "gated", "permit")
#: Pods that are listed for each cause; the count is of all.
_LISTED: Final = 50
_FIT_ERROR: Final = re.compile(r"\d+/\d+ nodes are available: (.*)", re.DOTALL)
_COUNTED: Final = re.compile(r"(\d+) ([^,]+?)(?:, (?=\d+ )|\. |\.$|$)")


class Waiting(NamedTuple):
    """One pod that waits."""

    pod: Pod
    state: str
    attempts: int | None = None
    #: Seconds since it was queued, or since its last attempt.
    since_s: float | None = None
    plugins: tuple[str, ...] = ()
    cause: str = ""


def waiting_pods(mirror: ClusterMirror, engine: Engine | None) -> dict[str, Any]:
    """The queue, as the page shows it."""
    found = list(_of_engine(engine) if engine is not None else _of_objects(mirror))
    states = {state: [each for each in found if each.state == state] for state in STATES}
    return {
        "live": engine is not None,
        "states": [
            {"state": state, "pods": len(members), "groups": _groups(members)}
            for state, members in states.items()
        ],
    }


def _of_engine(engine: Engine) -> Iterator[Waiting]:
    now, pending = engine.clock.monotonic(), engine.queue.pending()
    places: tuple[tuple[str, Iterable[QueuedPod]], ...] = (
        ("active", [*pending.active, *pending.in_flight]),
        ("backoff", [*pending.backoff, *pending.error_backoff]),
        ("unschedulable", pending.unschedulable),
        ("gated", pending.gated),
    )
    held = {
        waiting.pod.uid: waiting for handle in engine.handles.values() for waiting in handle.waiting
    }
    for state, members in places:
        for queued in members:
            if queued.uid in held:
                continue
            plugins = tuple(sorted(queued.rejectors)) or (queued.gating_plugin,)
            yield Waiting(
                queued.pod,
                state,
                queued.attempts,
                max(now - queued.timestamp, 0.0),
                tuple(filter(None, plugins)),
                _cause(queued.pod, state, queued.gating_message),
            )
    for waiting in held.values():
        cause = f"held by {', '.join(waiting.pending_plugins)}, for {waiting.node}"
        since = max(now - waiting.started, 0.0)
        plugins = tuple(waiting.pending_plugins)
        yield Waiting(waiting.pod, "permit", None, since, plugins, cause)


def _of_objects(mirror: ClusterMirror) -> Iterator[Waiting]:
    for thing in mirror.pending.values():
        pod: Pod = thing.struct
        state = "unschedulable" if last_message(pod) else "active"
        if pod.spec.scheduling_gates:
            state = "gated"
        yield Waiting(pod, state, cause=_cause(pod, state))


def _cause(pod: Pod, state: str, gating_message: str = "") -> str:
    if pod.spec.scheduling_gates:
        return "scheduling gates: " + ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if state == "gated":
        return gating_message
    if pod.status.nominated_node_name:
        return "waiting for victims to go"
    return dominant_reason(last_message(pod)) or "not tried yet"


@lru_cache(maxsize=4096)  # thousands of pods share a message
def dominant_reason(message: str) -> str:
    """The reason that most nodes give, of a condition's message; other messages as they are."""
    matched = _FIT_ERROR.match(message)
    if matched is None:
        return message
    reasons = matched[1].partition(" preemption: ")[0]
    counted = [(int(count), reason) for count, reason in _COUNTED.findall(reasons)]
    return max(counted, key=lambda each: each[0])[1] if counted else reasons.rstrip(". ")


def _groups(members: list[Waiting]) -> list[dict[str, Any]]:
    by_cause: dict[str, list[Waiting]] = {}
    for each in members:
        by_cause.setdefault(each.cause, []).append(each)
    return [
        {
            "cause": cause,
            "pods": len(some),
            "plugins": sorted({name for each in some for name in each.plugins}),
            "listed": [_listed(each) for each in some[:_LISTED]],
        }
        for cause, some in sorted(by_cause.items(), key=lambda item: -len(item[1]))
    ]


def _listed(waiting: Waiting) -> dict[str, Any]:
    since = None if waiting.since_s is None else round(waiting.since_s, 1)
    return {
        "pod": waiting.pod.key,
        "priority": waiting.pod.priority,
        "attempts": waiting.attempts,
        "since": since,
        "created": waiting.pod.metadata.creation_timestamp,
    }
