"""The objects of one resource as an informer knows them, and the handlers for what changes.

An informer applies lists and watch events here, and nothing else changes the store. An object is
stored before its handler is called. What must stay true: neither an object that cannot be read nor
a handler that raises keeps later changes from being applied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from stowplan.api.objects import ObjectMeta
from stowplan.api.paging import ListResult
from stowplan.api.quantity import InvalidQuantity
from stowplan.api.resources import Resource
from stowplan.api.watch import AnyEvent, EventType, PartialObject, decode_partial, object_of
from stowplan.loader.json_text import UNREADABLE
from stowplan.logs import get_logger, kv

log = get_logger(__name__)


class HasMetadata(Protocol):
    """Any top-level object."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMetadata)


def object_key(metadata: ObjectMeta) -> str:
    """`namespace/name`, or the bare name of an object without a namespace."""
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class LocalCopy(Generic[T]):
    """A store that follows lists and watch events. `Informer` documents the handlers."""

    def __init__(
        self,
        resource: Resource[T],
        decode: Callable[[bytes | msgspec.Raw], T],
        *,
        on_add: Callable[[T], None],
        on_update: Callable[[T, T], None],
        on_delete: Callable[[T], None],
        on_raw: Callable[[T, bytes | msgspec.Raw | None], None] | None,
    ) -> None:
        self.store: dict[str, T] = {}
        #: The newest resourceVersion that was sent.
        self.version = ""
        self._resource = resource
        self._decode = decode
        self._on_add = on_add
        self._on_update = on_update
        self._on_delete = on_delete
        self._on_raw = on_raw
        #: What was logged as unreadable: keys of objects, and what has no key.
        self._unreadable: set[str] = set()
        self._nameless: set[str] = set()

    def apply_list(self, result: ListResult[T]) -> None:
        """Make the store equal to the list; handlers are called for the differences."""
        listed = {object_key(obj.metadata): obj for obj in result.items if obj.metadata.name}
        unreadable = {self._keep_unreadable(raw, listed) for raw in result.undecodable}
        for key, old in list(self.store.items()):
            new = listed.get(key)
            if new is None or new.metadata.uid != old.metadata.uid:
                self._remove(key, old)
        for key, obj in listed.items():
            self._put(key, obj)
        self._unreadable &= unreadable | listed.keys()
        self._saw_version(result.resource_version)

    def apply_event(self, event: AnyEvent) -> None:
        """Apply an event of a watch; a bookmark tells the version alone."""
        if event.type == EventType.BOOKMARK:
            self._apply_bookmark(event)
            return
        try:
            obj = object_of(event, self._resource.type, self._decode, self.store)
        except UNREADABLE as error:
            self._apply_unreadable(event, error)
            return
        metadata = obj.metadata
        if not metadata.name:
            self._skip("an object without a name", event.type)
            return
        key = object_key(metadata)
        known = self.store.get(key)
        if event.type == EventType.DELETED:
            if known is not None:
                self._remove(key, obj if known.metadata.uid == metadata.uid else known)
        elif event.type in (EventType.ADDED, EventType.MODIFIED):
            if known is not None and known.metadata.uid != metadata.uid:
                self._remove(key, known)
            if self._on_raw is not None:
                self.tell_raw(obj, event.raw)
            self._put(key, obj)
        else:
            self._skip(f"event type {event.type}", "unknown event type")
        self._saw_version(metadata.resource_version)

    def tell_raw(self, obj: T, raw: bytes | msgspec.Raw | None) -> None:
        """Call `on_raw` with an object's JSON, or None if the object is gone."""
        assert self._on_raw is not None
        self._call(object_key(obj.metadata), self._on_raw, obj, raw)

    def _keep_unreadable(self, raw: bytes, listed: dict[str, T]) -> str:
        """An object that exists but cannot be read stays as it was known, if it was.

        Returns its key; empty if that cannot be read, either.
        """
        try:
            self._decode(raw)
        except UNREADABLE as error:
            partial = self._identify(raw, error)
        else:
            return ""
        if partial is None:
            return ""
        key = object_key(partial.metadata)
        known = self.store.get(key)
        if known is not None and known.metadata.uid == partial.metadata.uid:
            listed[key] = known
        return key

    def _apply_bookmark(self, event: AnyEvent) -> None:
        try:
            self._saw_version(decode_partial(event.raw).metadata.resource_version)
        except UNREADABLE as error:
            self._skip("a bookmark", error)

    def _apply_unreadable(self, event: AnyEvent, error: Exception) -> None:
        partial = self._identify(event.raw, error)
        if partial is None:
            return
        if event.type == EventType.DELETED:
            key = object_key(partial.metadata)
            known = self.store.get(key)
            if known is not None:
                self._remove(key, known)
            self._unreadable.discard(key)
        self._saw_version(partial.metadata.resource_version)

    def _put(self, key: str, obj: T) -> None:
        known = self.store.get(key)
        if known is not None and known.metadata.resource_version == obj.metadata.resource_version:
            return
        self.store[key] = obj
        if self._unreadable:
            self._unreadable.discard(key)
        if known is None:
            self._call(key, self._on_add, obj)
        else:
            self._call(key, self._on_update, known, obj)

    def _remove(self, key: str, last: T) -> None:
        del self.store[key]
        self._unreadable.discard(key)
        if self._on_raw is not None:
            self.tell_raw(last, None)
        self._call(key, self._on_delete, last)

    def _call(self, key: str, handler: Callable[..., None], *objects: object) -> None:
        try:
            handler(*objects)
        except InvalidQuantity as error:  # upstream does not even decode such an object
            self._skip(key, error, self._unreadable)
        except Exception as error:
            log.error(
                "A handler failed; continuing",
                exc_info=error,
                extra=kv(resource=self._resource.plural, object=key),
            )

    def _saw_version(self, version: str) -> None:
        if version:
            self.version = version

    def _identify(self, raw: bytes | msgspec.Raw, error: Exception) -> PartialObject | None:
        """Name an object that could not be decoded, and say once that it could not."""
        try:
            partial = decode_partial(raw)
        except UNREADABLE:
            self._skip("an object without readable metadata", error)
            return None
        self._skip(object_key(partial.metadata), error, self._unreadable)
        return partial

    def _skip(self, what: str, problem: object, logged: set[str] | None = None) -> None:
        logged = self._nameless if logged is None else logged
        if what not in logged:
            logged.add(what)
            log.warning(
                "Skipped an object that cannot be read",
                extra=kv(resource=self._resource.plural, object=what, err=problem),
            )
