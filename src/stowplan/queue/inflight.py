"""Pods between `pop` and `done`, and the events that arrived meanwhile.

Called by the scheduling queue only. An attempt works on the cluster as it was when it began; a
later event may already have removed the reason of its failure. So events are recorded while any
attempt is in flight, and replayed for a pod that fails. Events older than the oldest attempt are
dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from stowplan.api.objects import Pod
from stowplan.queue.events import POD_POPPED, ClusterEvent
from stowplan.queue.pod import QueuedPod


class Happened(NamedTuple):
    event: ClusterEvent
    old: object | None
    new: object | None


@dataclass(slots=True, eq=False)
class Attempt:
    """One pod in flight. `latest` follows the API while the cycle keeps its own copy."""

    queued: QueuedPod
    first_event: int  # number of the first event that came after the pod was popped
    latest: Pod
    gone: bool = False  # deleted, bound elsewhere or replaced by a pod of the same name


class InFlight:
    """Attempts by UID, in the order in which they began."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}
        self._uids_by_key: dict[str, set[str]] = {}
        self._events: list[Happened] = []
        self._dropped = 0  # number of the event at the head of the list
        self._dead = 0  # events at the head of the list that no attempt needs
        self.by_label: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._attempts.values())

    def get(self, uid: str) -> Attempt | None:
        return self._attempts.get(uid)

    def begin(self, queued: QueuedPod) -> None:
        end = self._dropped + len(self._events)
        self._attempts[queued.uid] = Attempt(queued, end, queued.pod)
        self._uids_by_key.setdefault(queued.key, set()).add(queued.uid)
        self.by_label[POD_POPPED] += 1

    def supersede(self, key: str, uid: str) -> list[Pod]:
        """A pod of this name and UID exists: attempts for its predecessors lead nowhere."""
        uids = self._uids_by_key.get(key)
        if uids is None:
            return []
        others = uids - {uid}
        for other in others:
            self._attempts[other].gone = True
        return [self._attempts[other].latest for other in others]

    def record(self, event: ClusterEvent, old: object | None, new: object | None) -> None:
        if self._attempts:
            self._events.append(Happened(event, old, new))
            self.by_label[event.label] += 1

    def record_update(self, attempt: Attempt, new: Pod, events: Sequence[ClusterEvent]) -> None:
        """The pod itself changed; it is alive, whatever was said before."""
        for event in events:
            self.record(event, attempt.latest, new)
        attempt.latest = new
        attempt.gone = False

    def events_since(self, attempt: Attempt) -> Iterator[Happened]:
        return islice(self._events, attempt.first_event - self._dropped, None)

    def done(self, uid: str) -> None:
        attempt = self._attempts.pop(uid, None)
        if attempt is None:
            return
        self.by_label[POD_POPPED] -= 1
        siblings = self._uids_by_key[attempt.queued.key]
        siblings.discard(uid)
        if not siblings:
            del self._uids_by_key[attempt.queued.key]
        oldest = next(iter(self._attempts.values()), None)
        needed = oldest.first_event - self._dropped if oldest is not None else len(self._events)
        for happened in self._events[self._dead : needed]:
            self.by_label[happened.event.label] -= 1
        self._dead = needed
        # Cutting the head of a list moves its tail: do it only when there is more head than tail.
        if self._dead * 2 >= len(self._events):
            del self._events[: self._dead]
            self._dropped += self._dead
            self._dead = 0
