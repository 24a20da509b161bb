"""Write the `Scheduled` events that a killed predecessor could not.

Events trail binds by seconds while the API server is busy (`api.event_throttle`), so a scheduler
that is killed takes the newest of them with it. The next one, when it begins to lead, writes them.
It needs no right to read events: their names follow from the pod's UID, so creating one that exists
is refused, also as a dry run. Invariant: events are written in the order of binds, and missed ones
before new ones. Then those that are missing are the newest, and a binary search finds the first,
however many predecessors were killed one after the other.

DIVERGES: kube-scheduler writes an event at once and never makes up for one that it lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from stowplan.api.objects import Pod
from stowplan.api.recorder import EventRecorder
from stowplan.clock import parse_rfc3339, rfc3339
from stowplan.errors import StowplanError
from stowplan.logs import V2, get_logger, kv
from stowplan.scheduler.reporter import scheduled

log = get_logger(__name__)

#: How far to go back from the last bind. Older events are lost for good, which keeps the work small
#: where the predecessor was another program, whose events have other names.
_AT_MOST_S: Final = 300.0
#: Binds are answered, and events written, several at a time: by so much the order may be wrong.
_DISORDER_S: Final = 3.0
#: If so many of the newest events exist none is missing.
_PROBES: Final = 8
_TIMEOUT_S: Final = 5.0


class Bound(NamedTuple):
    """A pod that was bound, and when (seconds since the epoch, by the API server's clock)."""

    at: float
    pod: Pod


async def write_missed_events(
    pods: Iterable[Pod], recorder: EventRecorder, *, serves: Callable[[Pod], bool]
) -> None:
    """Report the binds whose events are missing; to be called before pods are bound."""
    bound = last_bound(pods, serves=serves)
    if not bound:
        return
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            first = await _first_missing(bound, recorder)
    except (StowplanError, TimeoutError) as problem:
        log.log(V2, "Cannot look for missed events", extra=kv(err=problem))
        return
    if first is None:
        return
    missed = [one for one in bound if one.at >= bound[first].at - _DISORDER_S]
    log.info("Writing events that a predecessor may have missed", extra=kv(pods=len(missed)))
    for at, pod in missed:
        recorder.event(pod, **scheduled(pod, pod.spec.node_name), occurred_at=at)


def last_bound(pods: Iterable[Pod], *, serves: Callable[[Pod], bool]) -> list[Bound]:
    """Our pods that were bound last, oldest first. Only times of the API server are compared."""
    bound: list[tuple[str, Pod]] = []
    for pod in pods:
        if pod.spec.node_name and serves(pod) and not _is_mirror(pod):
            for condition in pod.status.conditions or ():
                if condition.type == "PodScheduled" and condition.status == "True":
                    bound.append((condition.last_transition_time or "", pod))
                    break
    last_at = _moment(max((at for at, _ in bound), default=""))
    # Times in UTC of one form, as the API server writes them, compare as texts do; all pods of a
    # large cluster are looked at, and few of them were bound lately.
    first = rfc3339(max(last_at - _AT_MOST_S, 0.0))
    last = [Bound(_moment(at), pod) for at, pod in bound if at >= first]
    return sorted(last, key=lambda one: (one.at, one.pod.uid))


async def _first_missing(bound: list[Bound], recorder: EventRecorder) -> int | None:
    async def is_written(one: Bound) -> bool:
        return await recorder.exists(one.pod, **scheduled(one.pod, one.pod.spec.node_name))

    if all(await asyncio.gather(*map(is_written, bound[-_PROBES:]))):
        return None
    low, high = 0, len(bound) - 1
    while low < high:
        middle = (low + high) // 2
        if await is_written(bound[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def _moment(text: str | None) -> float:
    try:
        return parse_rfc3339(text or "")
    except ValueError:
        return 0.0


def _is_mirror(pod: Pod) -> bool:
    """A static pod of a kubelet, which is bound to its node from the beginning."""
    return any(owner.kind == "Node" for owner in pod.metadata.owner_references or ())
