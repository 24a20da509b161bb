"""The watch stream: bytes into lines, lines into events whose object is still raw JSON.

`client.ApiClient.open_watch` opens it, the informer reads it. Objects stay raw at first so that
one that cannot be decoded spoils neither its neighbours nor the stream; a line that is not an event
at all ends the stream, because resuming from the last known resourceVersion loses nothing while
skipping the line might.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from stowplan.api.objects import ObjectMeta
from stowplan.api.status_errors import error_from_status
from stowplan.errors import ApiUnavailable
from stowplan.loader.json_text import UNREADABLE, json_decoder

T = TypeVar("T")

MAX_LINE_BYTES = 64 * 1024 * 1024  # far above what etcd stores; below what hurts


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change, decoded."""

    type: EventType
    object: T


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """One change as it came."""

    type: str
    object: msgspec.Raw


class PartialObject(msgspec.Struct, frozen=True, gc=False):
    """As much of any object as its identity takes."""

    metadata: ObjectMeta = ObjectMeta()


_decode_event = json_decoder(RawEvent)
decode_partial = json_decoder(PartialObject)


class LineSplitter:
    """Cuts chunks at newlines, whatever way the network cut them before."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._tail_size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that are complete now; empty ones are left out."""
        lines = chunk.split(b"\n")
        last = lines.pop()
        if lines and self._tail:
            self._tail.append(lines[0])
            lines[0] = b"".join(self._tail)
            self._tail, self._tail_size = [], 0
        if last:
            self._tail.append(last)
            self._tail_size += len(last)
            if self._tail_size > self._limit:
                raise ValueError(f"a line is longer than {self._limit} bytes")
        return [line for line in lines if line.strip()]


class WatchStream:
    """An open watch. `batches` ends when the server ends it, as it does every few minutes."""

    def __init__(self, chunks: AsyncIterator[bytes], *, request: str) -> None:
        self._chunks = chunks
        self._request = request

    async def batches(self) -> AsyncIterator[list[RawEvent]]:
        """Events in order, as many at a time as arrived together.

        Raises the typed error of an ERROR event (Gone: list again) and ApiUnavailable for bytes
        that are no watch events; what came before the bad line is handed out first.
        """
        splitter = LineSplitter()
        async for chunk in self._chunks:
            events: list[RawEvent] = []
            failure: Exception | None = None
            try:
                for line in splitter.feed(chunk):
                    event = _decode_event(line)
                    if event.type == EventType.ERROR:
                        failure = error_from_status(bytes(event.object), request=self._request)
                        break
                    events.append(event)
            except UNREADABLE as error:
                failure = ApiUnavailable(f"{self._request}: not a watch event: {error}")
                failure.__cause__ = error
            if events:
                yield events
            if failure is not None:
                raise failure
