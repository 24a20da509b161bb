"""Watch streams: each a reader of the store's changes, batching what is ready into one piece.

Over HTTP an event is the cached encoding of its object between two constants, so a hundred watchers
of the same change cost one encoding. In this process it is the object itself. Only selectors,
Tables and metadata views look into objects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from stowplan.api.watch import ObjectEvent, PushedEvents
from stowplan.apiserver import events
from stowplan.apiserver.conforming import conform
from stowplan.apiserver.history import Change, Json, Record, Subscription
from stowplan.apiserver.kinds import Kind
from stowplan.apiserver.negotiation import Wanted
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.reading import (
    Reader,
    parse_version,
    partial_metadata,
    selector_of,
    version_match_error,
)
from stowplan.apiserver.selection import Predicate
from stowplan.apiserver.statuses import Failure, status_of, unexplained
from stowplan.apiserver.store import Store
from stowplan.loader.numbers import whole_number

MIN_REQUEST_TIMEOUT_S = 1800.0
BACKLOG_LIMIT = 100_000  # changes that a client may be behind before its watch is ended
_MOMENT_S = 1e-6  # a timer may be early by so much
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_ERROR: Final = "ERROR"
#: The type of an event, the version of the object, or the status, that it shows, and the version
#: that the stream showed before.
_Event: TypeAlias = tuple[str, Record, Record | None]
T = TypeVar("T")


class Watches:
    """Opens watches; `drop_all` ends the open ones as a restart would."""

    def __init__(self, store: Store, reader: Reader, *, bookmark_interval_s: float) -> None:
        self._store = store
        self._reader = reader
        self.bookmark_interval_s = bookmark_interval_s
        self._open: dict[Subscription, None] = {}

    def drop_all(self) -> int:
        dropped = list(self._open)
        for subscription in dropped:
            subscription.drop()
        return len(dropped)

    def open(self, target: ResourcePath, query: Mapping[str, str], want: Wanted) -> Watch:
        """Open a stream; the caller must `close` it."""
        stream = _Stream(self._reader, target, query, want)
        # Subscribe before reading the state: nothing awaits in between, so nothing is missed.
        subscription = self._store.subscribe(target.kind, limit=BACKLOG_LIMIT)
        try:
            first = self._first(stream, target, query)
        except BaseException:
            subscription.close()
            raise
        self._open[subscription] = None
        return Watch(self, stream, subscription, first)

    def closed(self, subscription: Subscription) -> None:
        self._open.pop(subscription, None)
        subscription.close()

    def bookmark(self, stream: _Stream) -> _Event:
        return stream.bookmark(self._store.version)

    def _first(
        self, stream: _Stream, target: ResourcePath, query: Mapping[str, str]
    ) -> list[_Event]:
        """What a new watch is sent at once: the state, or the changes since its version."""
        text = query.get("resourceVersion", "")
        try:
            version = parse_version(text)
        except ValueError as error:
            raise unexplained(str(error)) from error
        send_initial = query.get("sendInitialEvents", "")
        if stream.with_initial_events(send_initial, text, version):
            state: list[_Event] = [
                ("ADDED", events.view(target.kind, record), None)
                for record in self._store.records(target.kind, target.namespace)
                if stream.selects(events.view(target.kind, record))
            ]
            if send_initial and stream.bookmarks:
                state.append(stream.bookmark(self._store.version, initial_events_end=True))
            stream.version = self._store.version
            return state
        stream.version = version if text else self._store.version
        try:
            changes = self._store.changes_since(target.kind, stream.version)
        except Failure as error:
            stream.failed = True
            return [(_ERROR, Record(status_of(error), stream.version), None)]
        return stream.selected(changes)


class Watch(PushedEvents):
    """One open stream. Read it once, in one of the three ways."""

    # Since reading began.
    _loop: asyncio.AbstractEventLoop
    _timer: asyncio.TimerHandle
    _end: float
    _next_bookmark: float

    def __init__(
        self, watches: Watches, stream: _Stream, subscription: Subscription, first: list[_Event]
    ) -> None:
        self._watches = watches
        self._stream = stream
        self._subscription = subscription
        self._first = first

    def close(self) -> None:
        self._watches.closed(self._subscription)

    def pieces(self) -> AsyncIterator[bytes]:
        """Whole lines as they come, until the timeout or until the stream is dropped."""
        return self._run(self._stream.lines)

    def __aiter__(self) -> AsyncIterator[list[ObjectEvent]]:
        """The same as events, for a reader in this process."""
        return self._run(_as_objects)

    async def push(self, receive: Callable[[list[ObjectEvent]], None]) -> None:
        """The same, for a reader that is called."""
        if self._first:
            receive(_as_objects(self._first))
            self._first = []
        if self._stream.failed:
            return

        def look() -> None:
            found = self._found()
            if found:
                receive(_as_objects(found))

        self._start_timer()
        try:
            await self._subscription.follow(look)
        finally:
            self._timer.cancel()

    async def _run(self, render: Callable[[list[_Event]], T]) -> AsyncIterator[T]:
        if self._first:
            yield render(self._first)
            self._first = []
        if self._stream.failed:
            return
        self._start_timer()
        try:
            while not self._subscription.dropped:
                await self._subscription.wait()
                found = self._found()
                if found:
                    yield render(found)
        finally:
            self._timer.cancel()

    def _found(self) -> list[_Event]:
        """What is new, and a bookmark if one is due. At the end of its time the stream drops."""
        found = self._stream.selected(self._subscription.take())
        now = self._loop.time() + _MOMENT_S
        if now >= self._timer.when():
            if self._stream.bookmarks and now >= self._next_bookmark:
                found.append(self._watches.bookmark(self._stream))
                self._next_bookmark = now + self._watches.bookmark_interval_s
            if now >= self._end:
                self._subscription.drop()
            else:
                self._set_timer()
        return found

    def _start_timer(self) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._end = now + self._stream.timeout_s
        interval_s = self._watches.bookmark_interval_s
        self._next_bookmark = now + interval_s if self._stream.bookmarks else self._end
        self._set_timer()

    def _set_timer(self) -> None:
        """One timer for many waits: most end because something has changed."""
        when = min(self._end, self._next_bookmark)
        self._timer = self._loop.call_at(when, self._subscription.wake)


class _Stream:
    """One watch: what it selects, how far it is, and how it writes an event."""

    def __init__(
        self, reader: Reader, target: ResourcePath, query: Mapping[str, str], want: Wanted
    ) -> None:
        self._reader = reader
        self._kind: Kind = target.kind
        self._namespace = target.namespace
        self._query = query
        self._want = want
        self._predicate: Predicate | None = selector_of(target, query)
        self._columns_sent = False
        self.version = 0
        self.failed = False
        self.bookmarks = query.get("allowWatchBookmarks", "") in ("1", "true")
        asked = whole_number(query.get("timeoutSeconds", ""))
        self.timeout_s = float(asked or MIN_REQUEST_TIMEOUT_S * (1 + random.random()))

    def with_initial_events(self, send_initial: str, text: str, version: int) -> bool:
        match = self._query.get("resourceVersionMatch", "")
        if send_initial and match != "NotOlderThan":
            raise version_match_error(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        if match and not send_initial:
            raise version_match_error(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        if send_initial:
            return send_initial in ("1", "true")
        return not text or version == 0

    def selects(self, record: Record) -> bool:
        if self._namespace and record.key[0] != self._namespace:
            return False
        return self._predicate is None or self._predicate(record.object)

    def selected(self, changes: Iterable[Change]) -> list[_Event]:
        """What the changes are to this watch."""
        return [event for change in changes if (event := self._event_of(change)) is not None]

    def _event_of(self, change: Change) -> _Event | None:
        if change.version <= self.version:
            return None
        self.version = change.version
        if self._namespace and change.record.key[0] != self._namespace:
            return None
        record = events.view(self._kind, change.record)
        previous = None
        if change.previous is not None:
            previous = events.view(self._kind, change.previous)
        if self._predicate is None:
            return change.type, record, previous
        now = self._predicate(record.object)
        if change.type == "DELETED":
            return ("DELETED", record, previous) if now else None
        if previous is None or not self._predicate(previous.object):
            return ("ADDED", record, None) if now else None
        if now:
            return "MODIFIED", record, previous
        return "DELETED", events.view(self._kind, change.left), previous

    def lines(self, found: Iterable[_Event]) -> bytes:
        return b"".join([self._line(type_, record) for type_, record, _ in found])

    def _line(self, type_: str, record: Record) -> bytes:
        form = self._want.form
        if form == "table" and type_ != _ERROR:
            body = msgspec.json.encode(self._table(record.object))
        elif form == "metadata" and type_ != _ERROR:
            body = msgspec.json.encode(partial_metadata(record.object))
        else:
            body = record.encoded
        return b'{"type":"%s","object":%s}\n' % (type_.encode(), body)

    def _table(self, obj: Json) -> Json:
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._reader.table(self._kind, [obj], meta, self._query)
        if self._columns_sent:  # columns are sent once per stream
            table["columnDefinitions"] = None
        self._columns_sent = True
        return table

    def bookmark(self, version: int, *, initial_events_end: bool = False) -> _Event:
        """An object with nothing but a version, in the form that the stream has."""
        metadata: Json = {"resourceVersion": str(version)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        obj, _ = conform(self._kind, {"metadata": metadata})
        return "BOOKMARK", Record(obj, version), None


def _as_objects(found: Iterable[_Event]) -> list[ObjectEvent]:
    return [
        ObjectEvent(type_, record.object, None if previous is None else previous.object)
        for type_, record, previous in found
    ]
