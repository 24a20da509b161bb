"""Claims, slices and classes as the scheduler believes them to be, and which devices are taken.

A claim is the API server's version, or a newer one that PreBind has written and the watch has not
shown yet (*assumed*). What Reserve chose for a claim is *in flight* until PreBind has written it:
its devices are taken, although no claim says so yet. Everything is updated by change, so that a
decision costs nothing for the claims of other pods.

What must stay true: `allocated` counts the devices of every claim that `claim` returns and of every
claim in flight. A device that two claims hold stays taken until both are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from stowplan.api.device_objects import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from stowplan.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from stowplan.cluster.catalog import Catalog
from stowplan.plugins.dra.allocated import Allocated
from stowplan.plugins.dra.pools import Slices
from stowplan.plugins.dra.taint_rules import TaintedSlices, concerns

ClaimKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


class DeviceFacts:
    """For all profiles: `catalog.shared(DeviceFacts)`."""

    def __init__(self, catalog: Catalog) -> None:
        self._claims = catalog[RESOURCE_CLAIMS]
        self._slices = catalog[RESOURCE_SLICES]
        self._classes = catalog[DEVICE_CLASSES]
        rules = catalog[DEVICE_TAINT_RULES]  # Empty unless the feature gate is on.
        self._tainted = TaintedSlices(rules)
        #: Grows with every change of classes.
        self.class_version = 0
        #: Grows with every change of claims, devices in flight, slices and classes.
        self.version = 0
        self._assumed: dict[ClaimKey, ResourceClaim] = {}
        #: By UID: claims with the allocation that PreBind is going to write. Read only.
        self.in_flight: dict[str, ResourceClaim] = {}
        self._waiting: dict[ClaimKey, list[Callable[[], None]]] = {}
        self.allocated = Allocated()
        self.slices = Slices(())
        self._claims.listeners.append(self._claim_changed)
        self._slices.listeners.append(self._slice_changed)
        self._classes.listeners.append(self._class_changed)
        rules.listeners.append(self._rule_changed)
        self.reset(self)

    def reset(self, like: DeviceFacts) -> None:
        """Derive everything again; what is assumed and in flight is what `like` has."""
        self._assumed = dict(like._assumed)
        self.in_flight = dict(like.in_flight)
        self.version += 1
        self.class_version += 1
        self._tainted.forget()
        self.slices = Slices(map(self._tainted.with_taints, self._slices))
        self.allocated = Allocated()
        for stored in self._claims:
            self.allocated.add(self._latest(stored))
        for claim in self.in_flight.values():
            self.allocated.add(claim)

    # Reading

    def claim(self, name: str, namespace: str) -> ResourceClaim | None:
        assumed = self._assumed.get((namespace, name))
        return assumed if assumed is not None else self._claims.get(name, namespace)

    def claims(self) -> Iterator[ResourceClaim]:
        """All claims, as `claim` has them."""
        return map(self._latest, self._claims)

    def is_shown(self, written: ResourceClaim) -> bool:
        """Whether the watch has caught up with a write of ours."""
        meta = written.metadata
        stored = self._claims.get(meta.name, meta.namespace)
        return stored is not None and (
            stored.metadata.uid != meta.uid or _version(stored) >= _version(written)
        )

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self._classes.within()

    # In flight

    def reserve(self, claim: ResourceClaim) -> None:
        """Take the devices of a claim whose allocation is not written yet."""
        self.in_flight[claim.metadata.uid] = claim
        self.allocated.add(claim)
        self.version += 1

    def release(self, uid: str) -> bool:
        """Give back what `reserve` took, if it still has it."""
        claim = self.in_flight.pop(uid, None)
        if claim is None:
            return False
        self.allocated.remove(claim)
        self.version += 1
        return True

    # Assumed

    def assume(self, claim: ResourceClaim) -> bool:
        """Believe in the version that a write returned, unless a newer one is known.

        False: the claim is gone, or was changed or created again since.
        """
        key = _key(claim)
        known = self.claim(key[1], key[0])
        if known is None or _version(claim) < _version(known):
            return False
        if claim.metadata.uid != known.metadata.uid:
            return False
        self._assumed[key] = claim
        self._changed(known, claim)
        return True

    def restore(self, name: str, namespace: str) -> None:
        """Take an assumption back: the API server's version counts again."""
        assumed = self._assumed.pop((namespace, name), None)
        if assumed is not None:
            self._changed(assumed, self._claims.get(name, namespace))

    @contextmanager
    def supposing(self, claims: Iterable[ResourceClaim]) -> Iterator[None]:
        """Have claims that do not exist, to be asked about; they hold no devices."""
        supposed = {_key(claim): claim for claim in claims}
        self._assumed |= supposed
        try:
            yield
        finally:
            for key in supposed:
                del self._assumed[key]

    # Following

    @contextmanager
    def telling(self, claims: Iterable[ClaimKey], wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever one of the claims changes."""
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

    def _latest(self, stored: ResourceClaim) -> ResourceClaim:
        return self._assumed.get(_key(stored), stored)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        changed = new if new is not None else old
        assert changed is not None
        key = _key(changed)
        assumed = self._assumed.get(key)
        if assumed is not None:
            if new is not None and _is_older(new, assumed):
                return  # The watch has not caught up with our own write.
            del self._assumed[key]
            old = assumed
        self._changed(old, new)

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self.version += 1
        if old is not None:
            self.allocated.remove(old)
        if new is not None:
            self.allocated.add(new)
        changed = new if new is not None else old
        assert changed is not None
        for wake in self._waiting.get(_key(changed), ()):
            wake()

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self.version += 1
        if old is not None:
            self.slices.remove(self._tainted.pop(old))
        if new is not None:
            self.slices.add(self._tainted.with_taints(new))

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        self.version += 1
        for one in self._slices:
            if any(rule is not None and concerns(rule, one) for rule in (old, new)):
                self._slice_changed(one, one)

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        self.version += 1
        self.class_version += 1


def _key(claim: ResourceClaim) -> ClaimKey:
    return claim.metadata.namespace, claim.metadata.name


def _is_older(shown: ResourceClaim, assumed: ResourceClaim) -> bool:
    """Whether a shown version says nothing against an assumed one."""
    return shown.metadata.uid == assumed.metadata.uid and _version(shown) < _version(assumed)


def _version(claim: ResourceClaim) -> int:
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else 0
