"""What the cluster holds besides nodes and pods, for plugins that look things up by name.

Informers (or a simulation, or a test) write through `EventHandlers`; plugins read by
`handle.catalog[RESOURCE]`, and only kinds that they name in `Plugin.looks_up`: no other kind is
watched. Each kind has a `Shelf`, which counts its changes, so that whatever is computed from it
can be kept until its `version` moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from stowplan.api.objects import ObjectMeta
from stowplan.api.resources import Resource


class Cataloged(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=Cataloged)


class SharedIndex(Protocol):
    """Derived from the catalog, for the same plugin of all profiles."""

    def reset(self, like: Self) -> None:
        """Derive everything again; only what `like` assumes beyond the catalog is copied."""


S = TypeVar("S", bound=SharedIndex)


class Shelf(Generic[T]):
    """All objects of one kind, by namespace and name; cluster-wide kinds are in namespace ""."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, T]] = {}
        #: Grows with every change.
        self.version = 0
        #: Called after every change with the old and the new object.
        self.listeners: list[Callable[[T | None, T | None], None]] = []

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get(namespace, {}).get(name)

    def within(self, namespace: str = "") -> Mapping[str, T]:
        """The objects of a namespace by name, in the order of their arrival. Read only."""
        return self._objects.get(namespace, {})

    def __iter__(self) -> Iterator[T]:
        for objects in self._objects.values():
            yield from objects.values()

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def set(self, thing: T) -> T | None:
        """Add or replace; returns what was there before."""
        meta = thing.metadata
        objects = self._objects.setdefault(meta.namespace, {})
        old = objects.get(meta.name)
        objects[meta.name] = thing
        self._changed(old, thing)
        return old

    def remove(self, name: str, namespace: str = "") -> T | None:
        """Remove an object and return it, if it was there."""
        objects = self._objects.get(namespace)
        old = objects.pop(name, None) if objects is not None else None
        if old is not None:
            if not objects:
                del self._objects[namespace]
            self._changed(old, None)
        return old

    def copy(self) -> Shelf[T]:
        """The same objects in the same order, without listeners."""
        twin: Shelf[T] = Shelf()
        twin._objects = {namespace: dict(each) for namespace, each in self._objects.items()}
        return twin

    def _changed(self, old: T | None, new: T | None) -> None:
        self.version += 1
        for listener in self.listeners:
            listener(old, new)


class Catalog:
    """One shelf a kind, made when first asked for."""

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf[Any]] = {}
        self._shared: dict[Callable[[Catalog], Any], Any] = {}

    def __getitem__(self, resource: Resource[T]) -> Shelf[T]:
        shelf = self._shelves.get(resource.plural)
        if shelf is None:
            shelf = self._shelves[resource.plural] = Shelf()
        return shelf

    def shared(self, make: Callable[[Catalog], S]) -> S:
        """What the same plugin of all profiles must have but one of, made when first asked for."""
        if make not in self._shared:
            self._shared[make] = make(self)
        found: S = self._shared[make]
        return found

    def copy(self) -> Catalog:
        """The same objects, with shared indexes that are built from them."""
        twin = Catalog()
        twin._shelves = {plural: shelf.copy() for plural, shelf in self._shelves.items()}
        for make, index in self._shared.items():
            twin.shared(make).reset(index)
        return twin

    def discard(self) -> None:
        """Undo the references between shelves and shared indexes."""
        for index in self._shared.values():
            vars(index).clear()
        self._shared.clear()
        for shelf in self._shelves.values():
            shelf.listeners.clear()

    def rebuild(self) -> None:
        """Make whatever is derived from the catalog stale, and derive the shared indexes again."""
        for shelf in self._shelves.values():
            shelf.version += 1
        for index in self._shared.values():
            index.reset(index)
