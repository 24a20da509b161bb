"""What an Event says, and when two of them are one.

`recorder` writes what this module decides. It follows client-go's tools/events: events that agree
in everything but their note are one series, kept on the first event's object. The second one turns
it into a series with count 2; later ones only count, until the series is refreshed or finished.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import Any, NamedTuple

from stowplan.api.objects import Pod
from stowplan.clock import rfc3339, rfc3339_micro

FINISH_AFTER_S = 6 * 60.0
REFRESH_AFTER_S = 30 * 60.0
NOTE_LIMIT_BYTES = 1024
_ELLIPSIS = " ..."
_MAX_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Reference(NamedTuple):
    """The object an event is about; its resourceVersion is part of its identity, as upstream."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    resource_version: str

    @classmethod
    def to_pod(cls, pod: Pod) -> Reference:
        meta = pod.metadata
        return cls("Pod", meta.namespace, meta.name, meta.uid, "v1", meta.resource_version)

    def wire(self) -> dict[str, str]:
        fields = {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "apiVersion": self.api_version,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in fields.items() if value}


class EventKey(NamedTuple):
    """Equal keys: the same event again. The note is not part of it."""

    type: str
    action: str
    reason: str
    reporting_controller: str
    reporting_instance: str
    regarding: Reference
    related: Reference | None


@dataclass(slots=True, eq=False)
class RecordedEvent:
    """One Event object: what is known here, and how much of it has been written."""

    key: EventKey
    name: str
    note: str
    event_time: float
    count: int = 1
    last_observed: float = 0.0
    is_created: bool = False
    is_queued: bool = False
    is_dirty: bool = False
    #: Written as core/v1, as kube-scheduler writes what is about its lease.
    is_core: bool = False

    @property
    def namespace(self) -> str:
        return self.key.regarding.namespace or "default"

    @property
    def is_series(self) -> bool:
        return self.count > 1

    def observe_again(self, now: float) -> None:
        self.count += 1
        self.last_observed = now

    def is_idle(self, now: float) -> bool:
        return max(self.event_time, self.last_observed) < now - FINISH_AFTER_S

    def series(self) -> dict[str, Any]:
        return {"count": self.count, "lastObservedTime": rfc3339_micro(self.last_observed)}

    def wire(self) -> dict[str, Any]:
        """The whole object, for creating it."""
        return self._core() if self.is_core else self._modern()

    def _core(self) -> dict[str, Any]:
        when = rfc3339(self.event_time)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "involvedObject": self.key.regarding.wire(),
            "reason": self.key.reason,
            "message": self.note,
            "source": {"component": self.key.reporting_controller},
            "firstTimestamp": when,
            "lastTimestamp": when,
            "count": 1,
            "type": self.key.type,
            "eventTime": None,
            "reportingComponent": self.key.reporting_controller,
            "reportingInstance": "",
        }

    def _modern(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "eventTime": rfc3339_micro(self.event_time),
            "reportingController": self.key.reporting_controller,
            "reportingInstance": self.key.reporting_instance,
            "action": self.key.action,
            "reason": self.key.reason,
            "regarding": self.key.regarding.wire(),
            "note": self.note,
            "type": self.key.type,
        }
        if self.key.related is not None:
            body["related"] = self.key.related.wire()
        if self.is_series:
            body["series"] = self.series()
        return body


def event_name(object_name: str, nanos: int) -> str:
    """`pod.17a2b3c4d5e6f708`; a UUID where that would not be a valid name."""
    name = f"{object_name}.{nanos:x}"
    is_valid = len(name) <= _MAX_NAME and _SUBDOMAIN.fullmatch(name) is not None
    return name if is_valid else str(uuid.uuid4())


_FIRST_DIGITS = {"Scheduled": 0xE, "Preempted": 0xF}


def only_event_name(object_name: str, uid: str, reason: str) -> str:
    """The name of an event that an object has at most once: always the same, so that the API
    server refuses to store it twice. It has the form of all others."""
    digest = hashlib.blake2b(f"{uid}/{reason}".encode(), digest_size=8).digest()
    return event_name(object_name, in_place(reason, int.from_bytes(digest)))


def in_place(reason: str, number: int) -> int:
    """The number in an event's name, so that names sort as kube-scheduler's do: by time.

    `kubectl describe` shows the events of a pod by name. Most numbers are nanoseconds since the
    epoch, which begin with the digit 1. That of `Scheduled` is none, so its first digit says that
    it comes after those of failed attempts, and that of `Preempted` that it comes later still.
    """
    digit = _FIRST_DIGITS.get(reason)
    return number if digit is None else number & (1 << 60) - 1 | digit << 60


def truncate_note(note: str) -> str:
    """At most what the API takes, in bytes, without cutting a character in two."""
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_LIMIT_BYTES:
        return encoded.decode()
    kept = encoded[: NOTE_LIMIT_BYTES - len(_ELLIPSIS)]
    return kept.decode(errors="ignore") + _ELLIPSIS
