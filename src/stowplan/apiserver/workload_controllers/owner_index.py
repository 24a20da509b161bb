"""An index of owner references: the dependents of each owner, and pods that await adoption.

`objects.ClusterObjects` updates it after each write, the controller with each change it receives.
The cost of an update depends on the object alone, never on the number of objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

import msgspec

from stowplan.api.objects import LabelSelector
from stowplan.api.selectors import CompiledSelector, compile_label_selector
from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, Kind

Key: TypeAlias = tuple[str, str]
Thing: TypeAlias = tuple[Kind, Key]
_K = TypeVar("_K")
_V = TypeVar("_V")

#: The kinds that adopt, and what they adopt.
ADOPTS = {DEPLOYMENTS: REPLICA_SETS, REPLICA_SETS: PODS, STATEFUL_SETS: PODS, JOBS: PODS}
_ADOPTABLE = (PODS, REPLICA_SETS)


def controller_of(obj: Json) -> Json | None:
    """The owner reference that has `controller: true`."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Json = owner
            return found
    return None


def compiled_selector(workload: Json) -> CompiledSelector:
    """The workload's selector; one that cannot be read selects nothing."""
    try:
        selector = msgspec.convert(workload["spec"].get("selector"), LabelSelector | None)
        return compile_label_selector(selector)
    except (ValueError, msgspec.ValidationError):
        return compile_label_selector(None)


class OwnerIndex:
    """Owners, dependents, selectors and objects without a controller."""

    def __init__(self) -> None:
        self._owners: dict[Thing, tuple[str, ...]] = {}
        self._dependents: dict[str, dict[Thing, None]] = {}
        self._orphans: dict[tuple[Kind, str], dict[Key, None]] = {}
        self._selectors: dict[Thing, tuple[Json | None, CompiledSelector]] = {}
        #: Workloads by one label of their selector, so that a pod's labels lead to them.
        self._by_label: dict[tuple[Kind, str, str, str], dict[Thing, None]] = {}

    def put(self, kind: Kind, key: Key, obj: Json | None) -> None:
        """Follow one object; None: it is gone."""
        thing = kind, key
        for uid in self._owners.pop(thing, ()):
            _discard(self._dependents, uid, thing)
        if kind in _ADOPTABLE:
            _discard(self._orphans, (kind, key[0]), key)
        if kind in ADOPTS:
            self._put_selector(thing, obj)
        if obj is None:
            return
        owners = tuple(owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ())
        if owners:
            self._owners[thing] = owners
            for uid in owners:
                self._dependents.setdefault(uid, {})[thing] = None
        if kind in _ADOPTABLE and controller_of(obj) is None:
            self._orphans.setdefault((kind, key[0]), {})[key] = None

    def dependents(self, uid: str) -> list[Thing]:
        return list(self._dependents.get(uid, ()))

    def count_dependents(self, uid: str) -> int:
        return len(self._dependents.get(uid, ()))

    def orphans(self, kind: Kind, namespace: str) -> list[Key]:
        """The objects of a namespace that no controller owns."""
        return list(self._orphans.get((kind, namespace), ()))

    def selector(self, thing: Thing) -> CompiledSelector:
        return self._selectors[thing][1]

    def selecting(self, kind: Kind, key: Key, labels: dict[str, str]) -> Iterable[Thing]:
        """The workloads whose selector matches an object."""
        seen: dict[Thing, None] = {}
        for name, value in [*labels.items(), ("", "")]:
            seen |= self._by_label.get((kind, key[0], name, value), {})
        return [thing for thing in seen if self._selectors[thing][1].matches(labels)]

    def _put_selector(self, thing: Thing, obj: Json | None) -> None:
        wanted = None if obj is None else obj["spec"].get("selector")
        before = self._selectors.get(thing)
        if before is not None and obj is not None and before[0] == wanted:
            return
        if before is not None:
            _discard(self._by_label, _place(thing, before[0]), thing)
            del self._selectors[thing]
        if obj is not None:
            self._selectors[thing] = wanted, compiled_selector(obj)
            self._by_label.setdefault(_place(thing, wanted), {})[thing] = None


def _place(thing: Thing, selector: Json | None) -> tuple[Kind, str, str, str]:
    kind, (namespace, _) = thing
    label = next(iter((selector or {}).get("matchLabels", {}).items()), ("", ""))
    return ADOPTS[kind], namespace, *label


def _discard(index: dict[_K, dict[_V, None]], place: _K, value: _V) -> None:
    found = index.get(place)
    if found is not None and value in found:
        del found[value]
        if not found:
            del index[place]
