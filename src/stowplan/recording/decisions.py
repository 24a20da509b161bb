"""Attempts of schedulers: from events for any scheduler, and from the ledger for ours.

A pod shows its binding, but neither failed attempts nor the scheduler that decided. Event notes and
messages can quote anything, so they are not recorded.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from stowplan.api.objects import Int32, Int64, ObjectMeta, Wire
from stowplan.api.resources import Resource

EVENT: Final = "event"
LEDGER: Final = "ledger"
SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
#: Results of attempts, by the reason of the event.
RESULTS: Final = {"Scheduled": SCHEDULED, "FailedScheduling": UNSCHEDULABLE}


#: Readers keep and print these.
_Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=40)]


class Regarding(Wire, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Series(Wire, frozen=True):
    count: Int32 = 0


class SchedulingEvent(Wire, frozen=True):
    """An event of events.k8s.io/v1, with the fields that `of_event` reads."""

    metadata: ObjectMeta = ObjectMeta()
    reason: str = ""
    note: str = ""
    reporting_controller: str = ""
    regarding: Regarding = Regarding()
    series: Series | None = None


#: kube-scheduler's note. Other controllers can write any text in a `Scheduled` event.
_ASSIGNED: Final = re.compile(r"Successfully assigned \S+ to (\S+)")

EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", True, SchedulingEvent)


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True):
    """One attempt to schedule a pod."""

    #: Namespace and name.
    pod: str
    uid: str = ""
    #: "scheduled", "unschedulable" or "error".
    result: _Word
    node: str = ""
    scheduler: str = ""
    #: "event" or "ledger".
    source: _Word
    #: The number of the attempt; from an event, its number of repetitions.
    attempt: Int64 = 0
    # Only from the ledger
    #: Seconds that the pod was queued, and that the attempt took.
    waited: float = 0.0
    seconds: float = 0.0
    evaluated_nodes: Int64 = 0
    feasible_nodes: Int64 = 0
    #: Number of nodes that each plugin rejected.
    refused: dict[str, Int64] = {}
    #: Name, total and scores by plugin of each node, best first.
    scores: list[Any] = []


def of_event(event: SchedulingEvent) -> Decision | None:
    """The attempt that an event reports; None if it reports none."""
    result = RESULTS.get(event.reason)
    pod = event.regarding
    if result is None or pod.kind != "Pod" or not pod.name:
        return None
    node = ""
    if result == SCHEDULED:
        found = _ASSIGNED.fullmatch(event.note)
        node = "" if found is None else found[1]
    return Decision(
        pod=f"{pod.namespace}/{pod.name}",
        uid=pod.uid,
        result=result,
        node=node,
        scheduler=event.reporting_controller,
        source=EVENT,
        attempt=event.series.count if event.series is not None else 0,
    )
