"""Volumes and claims as the scheduler believes them to be: the API server's, or newer by its hand.

What Reserve decides is *assumed* at once, so that the next decision, of any profile, does not give
the same volume away twice. An assumption holds until the API server shows another version of the
object, or until it is taken back. Invariant: nothing here is ever older than the catalog, and
`index` holds what `volumes.get` says of every volume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeAlias, TypeVar

from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.catalog import Catalog, Shelf
from stowplan.plugins.volume_binding.volume_index import VolumeIndex

ClaimKey: TypeAlias = tuple[str, str]
"""Namespace and name."""
T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)


class Assumptions(Generic[T]):
    """One kind of objects, some of them assumed to be newer than the API server's version."""

    def __init__(self, shelf: Shelf[T], on_change: Callable[[T | None, T | None], None]) -> None:
        """`on_change` is called with the old and the new version."""
        self.stored: Shelf[T] = shelf
        self._assumed: dict[tuple[str, str], T] = {}
        self._on_change: Callable[[T | None, T | None], None] = on_change
        shelf.listeners.append(self._store_changed)

    def get(self, name: str, namespace: str = "") -> T | None:
        assumed = self._assumed.get((namespace, name))
        return assumed if assumed is not None else self.stored.get(name, namespace)

    def assume(self, thing: T) -> None:
        """Believe in a changed object before the API server has it."""
        key = _key(thing)
        old = self.get(thing.metadata.name, thing.metadata.namespace)
        self._assumed[key] = thing
        self._on_change(old, thing)

    def restore(self, thing: T) -> None:
        """Take an assumption back, unless the object was written since: then the API server's
        next version ends it."""
        key = _key(thing)
        assumed = self._assumed.get(key)
        if assumed is not None and _version(assumed) == _version(thing):
            del self._assumed[key]
            self._on_change(assumed, self.get(thing.metadata.name, thing.metadata.namespace))

    def assume_same(self, other: Assumptions[T]) -> None:
        self._assumed = dict(other._assumed)

    def _store_changed(self, old: T | None, new: T | None) -> None:
        changed = new if new is not None else old
        assert changed is not None
        assumed = self._assumed.get(_key(changed))
        if assumed is not None:
            if new is not None and _version(assumed) == _version(new):
                return  # The same version once more says nothing against the assumption.
            del self._assumed[_key(changed)]
            old = assumed
        self._on_change(old, new)


class BelievedVolumes:
    """Both kinds, for all profiles: `catalog.shared(BelievedVolumes)`."""

    def __init__(self, catalog: Catalog) -> None:
        self.index = VolumeIndex()
        self._waiting: dict[ClaimKey, list[Callable[[], None]]] = {}
        #: Grows with every change of what is believed.
        self.version = 0
        self.volumes = Assumptions(catalog[PERSISTENT_VOLUMES], self._volume_changed)
        self.claims = Assumptions(catalog[PERSISTENT_VOLUME_CLAIMS], self._claim_changed)
        self.reset(self)

    def reset(self, like: BelievedVolumes) -> None:
        """Index all volumes again; what is assumed is what `like` assumes."""
        self.volumes.assume_same(like.volumes)
        self.claims.assume_same(like.claims)
        self.index = VolumeIndex()
        self.version += 1
        for volume in self.volumes.stored:
            self.index.change(None, self.volumes.get(volume.metadata.name))

    @contextmanager
    def telling(self, claims: Iterable[ClaimKey], wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever one of the claims changes, or a volume that is meant for one."""
        keys = list(claims)
        for key in keys:
            self._waiting.setdefault(key, []).append(wake)
        try:
            yield
        finally:
            for key in keys:
                self._waiting[key].remove(wake)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        self.version += 1
        self.index.change(old, new)
        for volume in (old, new):
            claim = volume.spec.claim_ref if volume is not None else None
            if claim is not None:
                self._wake((claim.namespace, claim.name))

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        self.version += 1
        changed = new if new is not None else old
        assert changed is not None
        self._wake(_key(changed))

    def _wake(self, key: ClaimKey) -> None:
        for wake in self._waiting.get(key, ()):
            wake()


def _key(thing: PersistentVolume | PersistentVolumeClaim) -> tuple[str, str]:
    return thing.metadata.namespace, thing.metadata.name


def _version(thing: PersistentVolume | PersistentVolumeClaim) -> str:
    return thing.metadata.resource_version
