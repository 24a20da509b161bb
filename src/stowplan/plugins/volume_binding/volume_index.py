"""Volumes by what claims ask for, so that a decision need not look at each of them.

Free volumes of a class stand in order of size, with a line of numbers each: what kind of volume it
is, and, if its node affinity asks for one value of one label (a local disk for its host, a cloud's
disk for its zone), for which. Volumes that are promised or bound, mostly the bulk of them, are
found by their claim.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import NodeSelector
from stowplan.api.quantity import nanos
from stowplan.api.selectors import (
    CompiledNodeSelector,
    CompiledNodeSelectorTerm,
    compile_node_selector,
)
from stowplan.api.storage_objects import PersistentVolume, VolumeNodeAffinity
from stowplan.cluster.compiled import compile_once
from stowplan.cluster.interning import Interner
from stowplan.cluster.table import NodeTable

STORAGE = "storage"
FILESYSTEM = "Filesystem"
_AVAILABLE = "Available"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

Places: TypeAlias = NDArray[np.intp]
"""Positions in a list of volumes."""

# Columns of `FreeVolumes.facts`.
_KIND, _KEY, _VALUE = range(3)
_ABSENT = -1
#: So many changes between two decisions are cheaper to make up for by starting over.
_MANY_CHANGES = 64


class Kind(NamedTuple):
    """What a claim asks of a volume besides class, size and labels."""

    mode: str
    attributes_class: str
    access_modes: frozenset[str]


@dataclass(frozen=True, slots=True)
class KnownVolume:
    """A volume with its size and node affinity read once."""

    volume: PersistentVolume
    #: Billionths of a byte: quantities are compared exactly.
    size: int
    #: Which nodes reach it; None: all do.
    affinity: CompiledNodeSelector | None

    @property
    def name(self) -> str:
        return self.volume.metadata.name

    @property
    def order(self) -> tuple[int, str]:
        """Smallest first; which of equal ones upstream takes is left to chance."""
        return self.size, self.name

    def is_reached(self, labels: Mapping[str, str]) -> bool:
        return self.affinity is None or self.affinity.matches(labels, "")


def known(volume: PersistentVolume) -> KnownVolume:
    return KnownVolume(volume, _size(volume), affinity_of(volume.spec.node_affinity))


def kind_of(volume: PersistentVolume) -> Kind:
    spec = volume.spec
    return Kind(
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
        frozenset(spec.access_modes or ()),
    )


def is_free(volume: PersistentVolume) -> bool:
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == _AVAILABLE
        and volume.metadata.deletion_timestamp is None
    )


class FreeVolumes:
    """The free volumes of one class, smallest first."""

    def __init__(self) -> None:
        self._volumes: list[tuple[tuple[int, str], KnownVolume]] = []
        self._kinds: Interner[Kind] = Interner()
        self._keys: Interner[str] = Interner()
        self._values: Interner[tuple[str, str]] = Interner()
        self._facts: NDArray[np.int32] | None = None
        self._changes = 0
        #: By label: its version, how many values we had, and our numbers.
        self._translated: dict[str, tuple[int, int, NDArray[np.intp]]] = {}

    def __len__(self) -> int:
        return len(self._volumes)

    def __getitem__(self, place: int) -> KnownVolume:
        return self._volumes[place][1]

    # Changing

    def add(self, volume: KnownVolume) -> None:
        entry = (volume.order, volume)
        place = bisect_left(self._volumes, entry[:1])
        self._volumes.insert(place, entry)
        facts = self._kept_facts()
        if facts is not None:
            self._facts = np.insert(facts, place, self._line(volume), axis=0)

    def remove(self, volume: KnownVolume) -> None:
        place = bisect_left(self._volumes, (volume.order,))
        del self._volumes[place]
        facts = self._kept_facts()
        if facts is not None:
            self._facts = np.delete(facts, place, axis=0)

    def _kept_facts(self) -> NDArray[np.int32] | None:
        self._changes += 1
        if self._changes > _MANY_CHANGES:
            self._facts = None
        return self._facts

    def _line(self, volume: KnownVolume) -> tuple[int, int, int]:
        kind = self._kinds.id(kind_of(volume.volume))
        label = _one_label(volume)
        if label is None:
            return kind, _ABSENT, _ABSENT
        return kind, self._keys.id(label[0]), self._values.id(label)

    # Reading

    @property
    def facts(self) -> NDArray[np.int32]:
        self._changes = 0
        if self._facts is None:
            lines = [self._line(volume) for _, volume in self._volumes]
            self._facts = np.array(lines, np.int32).reshape(-1, 3)
        return self._facts

    def suiting(self, wanted: Kind, at_least: int) -> Places:
        """Volumes that are large enough and of a kind that offers all that is wanted."""
        facts = self.facts
        first = bisect_left(self._volumes, ((at_least,),))
        suits = np.array(
            [
                (kind.mode, kind.attributes_class) == (wanted.mode, wanted.attributes_class)
                and wanted.access_modes <= kind.access_modes
                for kind in self._kinds.values
            ],
            np.bool_,
        )
        return first + np.flatnonzero(suits[facts[first:, _KIND]])

    def labels(self, places: Places) -> list[tuple[str, Places, NDArray[np.int32]]]:
        """Of some volumes those that ask for a value of a label: by label, with the values."""
        facts = self.facts[places]
        found = []
        for key, number in self._keys.items():
            chosen = facts[:, _KEY] == number
            if chosen.any():
                found.append((key, places[chosen], facts[chosen, _VALUE]))
        return found

    def others(self, places: Places) -> Places:
        """Of some volumes those whose affinity asks for more, or for nothing."""
        others: Places = places[self.facts[places, _KEY] == _ABSENT]
        return others

    def value_id(self, key: str, value: str | None) -> int | None:
        """Our number for a value of a label, if any volume ever asked for it."""
        return None if value is None else self._values.get((key, value))

    def value_ids(self, key: str, table: NodeTable) -> NDArray[np.intp]:
        """Our numbers by the table's numbers for the values of a label; the last entry is for
        nodes without the label. -1: no volume asks for it."""
        label = table.labels.find(key)
        made_for = (label.version, len(self._values))
        kept = self._translated.get(key)
        if kept is None or kept[:2] != made_for:
            numbers = [self._values.get((key, value)) for value in label.values.values]
            array = np.array([-1 if n is None else n for n in numbers] + [-1], np.intp)
            kept = self._translated[key] = (*made_for, array)
        return kept[2]


class VolumeIndex:
    """Free volumes by class, promised ones by class and claim."""

    def __init__(self) -> None:
        self._free: dict[str, FreeVolumes] = {}
        self._promised: dict[tuple[str, str, str], dict[str, KnownVolume]] = {}

    def free(self, class_name: str) -> FreeVolumes:
        return self._free.setdefault(class_name, FreeVolumes())

    def promised(self, class_name: str, namespace: str, claim: str) -> list[KnownVolume]:
        """Those whose claimRef names a claim, in order of size."""
        found = self._promised.get((class_name, namespace, claim), {})
        return sorted(found.values(), key=lambda volume: volume.order)

    def change(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            if is_free(old):
                self.free(class_of_volume(old)).remove(known(old))
            elif (key := _promised_to(old)) is not None:
                del self._promised[key][old.metadata.name]
                if not self._promised[key]:
                    del self._promised[key]
        if new is not None:
            if is_free(new):
                self.free(class_of_volume(new)).add(known(new))
            elif (key := _promised_to(new)) is not None:
                self._promised.setdefault(key, {})[new.metadata.name] = known(new)


def class_of_volume(volume: PersistentVolume) -> str:
    """The storage class of a volume; the annotation is older than the field, and still first."""
    annotated = (volume.metadata.annotations or {}).get(_CLASS_ANNOTATION)
    return annotated if annotated is not None else volume.spec.storage_class_name


def affinity_of(affinity: VolumeNodeAffinity | None) -> CompiledNodeSelector | None:
    """Which nodes reach a volume; None: all do."""
    required = affinity.required if affinity is not None else None
    if required is None:
        return None
    return compile_once("reach", required, lambda: _by_labels(required))


def _by_labels(required: NodeSelector) -> CompiledNodeSelector:
    """As upstream asks, which shows the selector a node that has labels and no name: terms on
    fields hold for every node."""
    compiled = compile_node_selector(required)
    return CompiledNodeSelector(
        tuple(CompiledNodeSelectorTerm(term.requirements) for term in compiled.terms)
    )


def _one_label(volume: KnownVolume) -> tuple[str, str] | None:
    """The label and its value that a volume's affinity asks for, if that is all it does."""
    terms = volume.affinity.terms if volume.affinity is not None else ()
    if len(terms) == 1 and len(terms[0].requirements) == 1:
        key, operator, values = terms[0].requirements[0]
        if operator == "In" and len(values) == 1:
            return key, values[0]
    return None


def _promised_to(volume: PersistentVolume) -> tuple[str, str, str] | None:
    ref = volume.spec.claim_ref
    if ref is None or volume.metadata.deletion_timestamp is not None:
        return None
    return class_of_volume(volume), ref.namespace, ref.name


def _size(volume: PersistentVolume) -> int:
    try:
        return nanos((volume.spec.capacity or {}).get(STORAGE, 0))
    except ValueError:
        # An API server rejects such a quantity; elsewhere the volume is never chosen.
        return -1
