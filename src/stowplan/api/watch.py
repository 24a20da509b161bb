"""The watch stream: bytes into lines, lines into events whose object is still raw JSON.

An API server in this process sends events with its own objects instead (`ObjectEvent`).

`client.ApiClient.open_watch` opens it, the informer reads it. Objects stay raw at first so that
one that cannot be decoded spoils neither its neighbours nor the stream; a line that is not an event
at all ends the stream, because resuming from the last known resourceVersion loses nothing while
skipping the line might.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
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
    """One change of a server in this process. The objects are the server's: read only.

    `previous` is what the stream showed of the object before. Its parts that are in `object` too
    have not changed.
    """

    type: str
    object: dict[str, Any]
    previous: dict[str, Any] | None = None

    @property
    def raw(self) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(self.object))


AnyEvent: TypeAlias = RawEvent | ObjectEvent
#: What arrives together: bytes, cut anywhere, or whole events.
Chunk: TypeAlias = bytes | list[ObjectEvent]


class PushedEvents(ABC, AsyncIterable[list[ObjectEvent]]):
    """The stream of a server in this process, which can call its reader."""

    @abstractmethod
    async def push(self, receive: Callable[[list[ObjectEvent]], None]) -> None:
        """Call `receive` with what arrives together; return at the end of the stream."""


def object_of(
    event: AnyEvent,
    kind: type[T],
    decode: Callable[[msgspec.Raw], T],
    store: Mapping[str, T] | None = None,
) -> T:
    """The object of an event; raises one of `UNREADABLE`. `decode` is the decoder of the kind.

    What has not changed since the version in `store`, by `namespace/name`, is taken from there.
    """
    if isinstance(event, RawEvent):
        return decode(event.object)
    obj, previous = event.object, event.previous
    if store is None or previous is None or obj.get("spec") is not previous.get("spec"):
        return msgspec.convert(obj, kind)
    metadata = previous["metadata"]
    namespace, name = metadata.get("namespace"), metadata["name"]
    known: Any = store.get(f"{namespace}/{name}" if namespace else name)
    if known is None or known.metadata.resource_version != metadata["resourceVersion"]:
        return msgspec.convert(obj, kind)
    struct: Any = kind
    parts: dict[str, Any] = {}
    try:
        for field, sent_as, type_ in _fields(struct):
            part = obj.get(sent_as)
            if part is previous.get(sent_as):
                parts[field] = getattr(known, field)
            elif part is not None or sent_as in obj:
                parts[field] = msgspec.convert(part, type_)
    except msgspec.ValidationError:
        return msgspec.convert(obj, kind)  # raises an error with the whole path of the field
    return kind(**parts)


@cache
def _fields(struct: type[msgspec.Struct]) -> list[tuple[str, str, Any]]:
    """The name, the name on the wire and the type of each field."""
    return [(each.name, each.encode_name, each.type) for each in msgspec.structs.fields(struct)]


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
    """An open watch, which ends when the server ends it, as it does every few minutes.

    Reading it raises the typed error of an ERROR event (Gone: list again) and ApiUnavailable for
    bytes that are no watch events; what came before the bad line is handed out first.
    """

    def __init__(self, chunks: AsyncIterable[Chunk], *, request: str) -> None:
        self._chunks = chunks
        self._request = request

    async def deliver(self, receive: Callable[[Sequence[AnyEvent]], None]) -> None:
        """Call `receive` with events in order, as many at a time as arrived together."""
        if not isinstance(self._chunks, PushedEvents):
            async for batch in self.batches():
                receive(batch)
            return

        def check(arrived: list[ObjectEvent]) -> None:
            events, failure = self._checked(arrived)
            if events:
                receive(events)
            if failure is not None:
                raise failure

        await self._chunks.push(check)

    async def batches(self) -> AsyncIterator[Sequence[AnyEvent]]:
        """The same, to be iterated over."""
        splitter = LineSplitter()
        async for chunk in self._chunks:
            events: Sequence[AnyEvent]
            if isinstance(chunk, list):
                events, failure = self._checked(chunk)
            else:
                events, failure = self._decoded(splitter, chunk)
            if events:
                yield events
            if failure is not None:
                raise failure

    def _checked(
        self, arrived: list[ObjectEvent]
    ) -> tuple[Sequence[ObjectEvent], Exception | None]:
        """The events, and the error that ends the stream: of a server of ours, always the last."""
        if arrived and arrived[-1].type == EventType.ERROR:
            *events, last = arrived
            return events, error_from_status(bytes(last.raw), request=self._request)
        return arrived, None

    def _decoded(
        self, splitter: LineSplitter, chunk: bytes
    ) -> tuple[list[RawEvent], Exception | None]:
        events: list[RawEvent] = []
        try:
            for event in map(_decode_event, splitter.feed(chunk)):
                if event.type == EventType.ERROR:
                    return events, error_from_status(bytes(event.raw), request=self._request)
                events.append(event)
        except UNREADABLE as error:
            failure = ApiUnavailable(f"{self._request}: not a watch event: {error}")
            failure.__cause__ = error
            return events, failure
        return events, None
