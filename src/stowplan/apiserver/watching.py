"""Watch streams: each a reader of the store's changes, batching what is ready into one piece.

An event is the cached encoding of its object between two constants, so a hundred watchers of the
same change cost one encoding. Only selectors, Tables and metadata views look into objects.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping

import msgspec

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

    def bookmark(self, stream: _Stream) -> bytes:
        return stream.bookmark(self._store.version)

    def _first(self, stream: _Stream, target: ResourcePath, query: Mapping[str, str]) -> bytes:
        """What a new watch is sent at once: the state, or the changes since its version."""
        text = query.get("resourceVersion", "")
        try:
            version = parse_version(text)
        except ValueError as error:
            raise unexplained(str(error)) from error
        send_initial = query.get("sendInitialEvents", "")
        if stream.with_initial_events(send_initial, text, version):
            lines = [
                stream.line("ADDED", events.view(target.kind, record))
                for record in self._store.records(target.kind, target.namespace)
                if stream.selects(events.view(target.kind, record))
            ]
            if send_initial and stream.bookmarks:
                lines.append(stream.bookmark(self._store.version, initial_events_end=True))
            stream.version = self._store.version
            return b"".join(lines)
        stream.version = version if text else self._store.version
        try:
            changes = self._store.changes_since(target.kind, stream.version)
        except Failure as error:
            stream.failed = True
            return stream.error(error)
        return stream.lines(changes)


class Watch:
    """One open stream."""

    def __init__(
        self, watches: Watches, stream: _Stream, subscription: Subscription, first: bytes
    ) -> None:
        self._watches = watches
        self._stream = stream
        self._subscription = subscription
        self._first = first

    def close(self) -> None:
        self._watches.closed(self._subscription)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield whole lines as they come, until the timeout or until the stream is dropped."""
        stream, subscription = self._stream, self._subscription
        if self._first:
            yield self._first
        if stream.failed:
            return
        loop = asyncio.get_running_loop()
        interval_s = self._watches.bookmark_interval_s
        end = loop.time() + stream.timeout_s
        next_bookmark = loop.time() + interval_s if stream.bookmarks else end
        # One timer for many waits: most end because something has changed.
        timer = loop.call_at(min(end, next_bookmark), subscription.wake)
        try:
            while not subscription.dropped:
                await subscription.wait()
                lines = stream.lines(subscription.take())
                now = loop.time() + _MOMENT_S
                if stream.bookmarks and now >= next_bookmark:
                    lines += self._watches.bookmark(stream)
                    next_bookmark = now + interval_s
                    timer = loop.call_at(min(end, next_bookmark), subscription.wake)
                if lines:
                    yield lines
                if now >= end:
                    return
        finally:
            timer.cancel()


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

    def lines(self, changes: Iterable[Change]) -> bytes:
        return b"".join([self._change(change) for change in changes])

    def _change(self, change: Change) -> bytes:
        if change.version <= self.version:
            return b""
        self.version = change.version
        record = events.view(self._kind, change.record)
        if self._namespace and record.key[0] != self._namespace:
            return b""
        if self._predicate is None:
            return self.line(change.type, record)
        if change.type == "DELETED":
            return self.line("DELETED", record) if self._predicate(record.object) else b""
        now = self._predicate(record.object)
        before = change.previous is not None and self._predicate(
            events.view(self._kind, change.previous).object
        )
        if now:
            return self.line("MODIFIED" if before else "ADDED", record)
        if before:
            return self.line("DELETED", events.view(self._kind, change.left))
        return b""

    def line(self, type_: str, record: Record) -> bytes:
        match self._want.form:
            case "table":
                body = msgspec.json.encode(self._table(record.object))
            case "metadata":
                body = msgspec.json.encode(partial_metadata(record.object))
            case _:
                body = record.encoded
        return b'{"type":"%s","object":%s}\n' % (type_.encode(), body)

    def _table(self, obj: Json) -> Json:
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        table = self._reader.table(self._kind, [obj], meta, self._query)
        if self._columns_sent:  # columns are sent once per stream
            table["columnDefinitions"] = None
        self._columns_sent = True
        return table

    def bookmark(self, version: int, *, initial_events_end: bool = False) -> bytes:
        """An object with nothing but a version, in the form that the stream has."""
        metadata: Json = {"resourceVersion": str(version)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        obj, _ = conform(self._kind, {"metadata": metadata})
        return self.line("BOOKMARK", Record(obj, version))

    def error(self, failure: Failure) -> bytes:
        return b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(status_of(failure))
