"""Whether a missing event is a defect, judged by the order of binds, events and ends of pods.

Follows etcd's history beside the audit. Events are written in the order of binds, the missed ones
of a killed leader first. So a pod that existed while pods bound clearly later had their events
already should have had its own. Others fall under the documented bound (docs/events.md): they were
gone before any leader came to them, or their namespace was being deleted and took no events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, NamedTuple

from stowplan.audit import Revision, decode_item
from stowplan.audit.items import bound_at

#: Binds so far apart have an order; a binding whose answer got lost is confirmed within this time.
CLEARLY_LATER_S: Final = 10.0
_NEVER: Final = 1 << 62


class _Bind(NamedTuple):
    namespace: str
    #: Of the API server's clock, in whole seconds.
    at: float
    revision: int


class Announcements:
    """Feed it with `follow`, then ask `is_overdue` about pods without an event."""

    def __init__(self) -> None:
        self._uids: dict[tuple[str, str], str] = {}
        self._binds: dict[str, _Bind] = {}
        self._gone: dict[str, int] = {}
        #: Revisions at which namespaces began to be deleted and were gone, by name.
        self._endings: defaultdict[str, list[list[int]]] = defaultdict(list)
        self._events: list[tuple[int, str]] = []
        self._revisions: list[int] = []
        self._newest: list[float] = []

    def follow(self, history: Iterable[Revision]) -> Iterator[Revision]:
        """Pass revisions on, and note those that matter here."""
        for revision in history:
            if revision.kind in ("Pod", "Namespace", "Event"):
                self._note(revision)
            yield revision
        binds = [
            (number, self._binds[uid].at) for number, uid in self._events if uid in self._binds
        ]
        self._revisions = [number for number, _ in binds]
        self._newest = list(accumulate((at for _, at in binds), max))

    def is_overdue(self, uid: str) -> bool:
        """True if the event of this bound pod should have been written."""
        bind = self._binds.get(uid)
        if bind is None:
            return True
        end = self._end(uid, bind)
        if end == _NEVER:
            return True
        before = bisect_left(self._revisions, end)
        return before > 0 and self._newest[before - 1] >= bind.at + CLEARLY_LATER_S

    def _end(self, uid: str, bind: _Bind) -> int:
        """The revision since which no event could be written."""
        end = self._gone.get(uid, _NEVER)
        for began, ended in self._endings[bind.namespace]:
            if ended > bind.revision:
                end = min(end, began)
        return end

    def _note(self, revision: Revision) -> None:
        place = (revision.namespace, revision.name)
        if revision.object is None:
            if revision.kind == "Pod" and place in self._uids:
                self._gone[self._uids.pop(place)] = revision.number
            elif revision.kind == "Namespace" and self._endings[revision.name]:
                self._endings[revision.name][-1][1] = revision.number
            return
        found = decode_item(revision.kind, revision.object).object
        if revision.kind == "Event":
            if found.reason == "Scheduled":
                self._events.append((revision.number, found.uid))
        elif revision.kind == "Namespace":
            endings = self._endings[revision.name]
            if found.metadata.deletion_timestamp and not (endings and endings[-1][1] == _NEVER):
                endings.append([revision.number, _NEVER])
        else:
            uid = found.metadata.uid
            self._uids[place] = uid
            if found.spec.node_name and uid not in self._binds:
                bind = _Bind(revision.namespace, bound_at(found), revision.number)
                self._binds[uid] = bind
