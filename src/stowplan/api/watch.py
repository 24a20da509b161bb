"""The watch stream: bytes into lines, lines into events whose object is still raw JSON.

An API server in this process sends events with its own objects instead (`ObjectEvent`).

`client.ApiClient.open_watch` opens it, the informer reads it. Objects stay raw at first so that
one that cannot be decoded spoils neither its neighbours nor the stream; a line that is not an event
at all ends the stream, because resuming from the last known resourceVersion loses nothing while
skipping the line might.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

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

    @property
    def raw(self) -> msgspec.Raw:
        return self.object


class ObjectEvent(msgspec.Struct, frozen=True, gc=False):
    """One change of a server in this process. The object is the server's: read only."""

    type: str
    object: dict[str, Any]

    @property
    def raw(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self.object))


AnyEvent: TypeAlias = RawEvent | ObjectEvent
#: What arrives together: bytes, cut anywhere, or whole events.
Chunk: TypeAlias = bytes | list[ObjectEvent]


def object_of(event: AnyEvent, kind: type[T], decode: Callable[[msgspec.Raw], T]) -> T:
    """The object of an event; raises one of `UNREADABLE`. `decode` is the decoder of the kind."""
    if isinstance(event, RawEvent):
        return decode(event.object)
    return msgspec.convert(event.object, kind)


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

    def __init__(self, chunks: AsyncIterator[Chunk], *, request: str) -> None:
        self._chunks = chunks
        self._request = request

    async def batches(self) -> AsyncIterator[list[AnyEvent]]:
        """Events in order, as many at a time as arrived together.

        Raises the typed error of an ERROR event (Gone: list again) and ApiUnavailable for bytes
        that are no watch events; what came before the bad line is handed out first.
        """
        splitter = LineSplitter()
        async for chunk in self._chunks:
            events: list[AnyEvent] = []
            failure: Exception | None = None
            arrived: Iterable[AnyEvent]
            try:
                if isinstance(chunk, list):
                    arrived = chunk
                else:
                    arrived = map(_decode_event, splitter.feed(chunk))
                for event in arrived:
                    if event.type == EventType.ERROR:
                        failure = error_from_status(bytes(event.raw), request=self._request)
                        break
                    events.append(event)
            except UNREADABLE as error:
                failure = ApiUnavailable(f"{self._request}: not a watch event: {error}")
                failure.__cause__ = error
            if events:
                yield events
            if failure is not None:
                raise failure
