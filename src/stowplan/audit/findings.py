"""What an audit reports: findings of a few kinds, what was checked, and what could not be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.clock import rfc3339

#: Every kind of finding, with what it means; `--only` and `--ignore` take these names.
KINDS: Final = {
    "double-bind": "a pod was bound twice, or its node changed",
    "overcommit": "a node holds more than it has, in any resource or number of pods",
    "missing-node": "a pod was bound to a node that does not exist",
    "unschedulable": "a pod was bound to a cordoned node",
    "taint": "a pod does not tolerate a NoSchedule or NoExecute taint of its node",
    "node-affinity": "a node does not match its pod's nodeSelector or required node affinity",
    "host-port": "two pods on one node use the same host port",
    "anti-affinity": "a pod stands where required anti-affinity, its own or another's, forbids it",
    "affinity": "a pod stands where its required pod affinity is not met",
    "spread": "a DoNotSchedule spread constraint is exceeded",
    "volume-affinity": "a node does not match the node affinity of its pod's volume",
    "volume-zone": "a node is not in the zone or region of its pod's volume",
    "volume-unbound": "a pod was bound while a claim of it was missing or unbound",
    "rwop": "two pods use one ReadWriteOncePod claim",
    "device": "a device is allocated to two claims, or twice to one",
    "device-capacity": "claims hold more of a device or of a pool's counters than there is",
    "device-claim": "a pod was bound while a resource claim of it was not allocated or reserved",
    "reservation": "a resource claim stays reserved for a pod that is gone or has ended",
    "pending": "a pod is pending although a node has a place for it",
    "no-event": "a pod was bound, and no Scheduled event says so",
}


#: Names in a note at most; a pod may name any scheduler.
_NAMED: Final = 10


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One fault. A field that does not apply is empty."""

    kind: str
    pod: str = ""
    uid: str = ""
    node: str = ""
    #: The pod's schedulerName.
    scheduler: str = ""
    message: str
    #: True where the pod may have been placed correctly: its surroundings changed afterwards.
    maybe_later: bool = False
    #: When the pod was bound, or since when it waits; RFC 3339.
    time: str = ""
    #: Of etcd, in an audit of history.
    revision: int = 0


def shown_time(seconds: float) -> str:
    """RFC 3339; empty for an unknown time."""
    return rfc3339(seconds) if seconds else ""


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The outcome of an audit."""

    findings: list[Finding]
    nodes: int
    pods: int
    #: Bindings by the chosen schedulers; in an audit of a cluster as it is, their bound pods.
    judged: int
    #: Revisions of etcd that were read; 0 in an audit of a cluster as it is.
    revisions: int = 0
    #: What was not checked, and why.
    notes: list[str] = []


class Unread:
    """Counts objects that are not what they should be, and keeps the first for the report."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def add(self, name: str, problem: Exception) -> None:
        self._count += 1
        self._first = self._first or f"{name.replace(' /', ' ')}: {problem}"

    def notes(self) -> list[str]:
        if not self._count:
            return []
        return [f"{self._count} unreadable objects passed over, such as {self._first}"]


@dataclass(frozen=True)
class Options:
    """What to look for. Times are in seconds."""

    only: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    #: Report pods of these schedulers; empty means all.
    schedulers: frozenset[str] = frozenset()
    #: Leave out findings that may have arisen after the binding.
    certain: bool = False
    #: Only pods that were bound, or wait, since so long before the end. 0 means all.
    since_s: float = 0.0
    #: How long a pod may be pending although it fits, and a Scheduled event may be on its way.
    grace_s: float = 60.0
    #: How long events are kept: kube-apiserver's --event-ttl.
    event_ttl_s: float = 3600.0
    #: How long the way from a scheduler's decision to etcd can take. Changes by others in that
    #: time are not the scheduler's fault.
    in_flight_s: float = 5.0

    def wants(self, kind: str) -> bool:
        return kind not in self.ignore and (not self.only or kind in self.only)

    def wants_pod(self, scheduler: str) -> bool:
        return not self.schedulers or scheduler in self.schedulers

    def unknown_schedulers(self, known: Collection[str]) -> list[str]:
        """A note, if no pod has a scheduler that was asked for. `known` are those of all pods."""
        unknown = sorted(self.schedulers.difference(known))
        if not unknown:
            return []
        text = f"no pod has schedulerName {' or '.join(unknown)}"
        return [f"{text}; pods have {_listed(sorted(known))}" if known else text]

    def chosen(self, findings: Iterable[Finding]) -> list[Finding]:
        return [
            each
            for each in findings
            if self.wants(each.kind)
            and self.wants_pod(each.scheduler)
            and not (self.certain and each.maybe_later)
        ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


DEFAULTS: Final = Options()
