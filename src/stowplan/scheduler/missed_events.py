"""Write the `Scheduled` events that a killed predecessor could not.

Events trail binds by seconds while the API server is busy (`api.event_throttle`), so a scheduler
that is killed takes the newest of them with it. The next one, when it begins to lead, writes them.
It needs no right to read events: their names follow from the pod's UID, so creating one that exists
is refused, also as a dry run. Invariant: events are written in the order of binds, and missed ones
before new ones, except that several are written at a time, that the API server tells the time of
a bind in whole seconds, and that a bind whose answer got lost is learnt of later. So a binary
search finds about where the missing ones begin, however many predecessors were killed one after the
other, and as many before that as may be out of order are written again without asking.

DIVERGES: kube-scheduler writes an event at once and never makes up for one that it lost.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from stowplan.api.event_throttle import AT_MOST
from stowplan.api.objects import Pod
from stowplan.api.recorder import EventRecorder
from stowplan.clock import parse_rfc3339, rfc3339
from stowplan.errors import ApiUnavailable, ServerError, StowplanError, Throttled
from stowplan.logs import V2, get_logger, kv
from stowplan.scheduler.reporter import scheduled

log = get_logger(__name__)

#: How far to go back from the last bind. Older events are lost for good, which keeps the work small
#: where the predecessor was another program, whose events have other names.
_AT_MOST_S: Final = 300.0
#: By so much the order of events may differ from that of binds. An answer that got lost delays an
#: event until the binding is confirmed: requests time out after 30 s.
_DISORDER_S: Final = 30.0
#: In a rush that is too many to try. Then it is so many, and all that answers may have overtaken:
#: binds of one second have no order.
_DISORDERED: Final = 2000
_OVERTAKEN_S: Final = 3.0
_TIMEOUT_S: Final = 5.0
_RETRY_S: Final = 0.2
#: So many of the newest are written again where the API server did not say which are missing.
_UNKNOWN: Final = 1000


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
            missing = await _first_missing(bound, recorder)
    except TimeoutError as problem:
        log.log(V2, "Cannot count missed events", extra=kv(err=problem))
        missing = max(len(bound) - _UNKNOWN, 0)
    except StowplanError as problem:
        log.log(V2, "Cannot look for missed events", extra=kv(err=problem))
        return
    first = _with_disorder(bound, min(missing, len(bound) - 1))
    log.log(V2, "Writing events that may have been missed", extra=kv(pods=len(bound) - first))
    for at, pod in bound[first:]:
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


async def _first_missing(bound: list[Bound], recorder: EventRecorder) -> int:
    """Return where the missing ones begin; the number of all if there are none."""
    low, high = 0, len(bound)
    while low < high:
        # The last one first: as a rule nothing is missing here.
        middle = high - 1 if high == len(bound) else (low + high) // 2
        pod = bound[middle].pod
        if await _exists(pod, recorder):
            low = middle + 1
        else:
            high = middle
    return low


async def _exists(pod: Pod, recorder: EventRecorder) -> bool:
    """Ask until there is an answer: a leader often begins when the API server is in trouble."""
    while True:
        try:
            return await recorder.exists(pod, **scheduled(pod, pod.spec.node_name))
        except (ApiUnavailable, ServerError, Throttled) as problem:
            log.log(V2, "Asking for a missed event again", extra=kv(err=problem))
            await asyncio.sleep(_RETRY_S)


def _with_disorder(bound: list[Bound], index: int) -> int:
    """Return the first whose event may be missing if that of `index` is."""
    at = bound[max(index - AT_MOST, 0)].at
    in_doubt, overtaken = (
        bisect_left(bound, at - seconds, key=lambda one: one.at)
        for seconds in (_DISORDER_S, _OVERTAKEN_S)
    )
    return min(max(in_doubt, index - _DISORDERED), overtaken)


def _moment(text: str | None) -> float:
    try:
        return parse_rfc3339(text or "")
    except ValueError:
        return 0.0


def _is_mirror(pod: Pod) -> bool:
    """A static pod of a kubelet, which is bound to its node from the beginning."""
    return any(owner.kind == "Node" for owner in pod.metadata.owner_references or ())
