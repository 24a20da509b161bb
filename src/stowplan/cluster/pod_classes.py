"""The pods on nodes, grouped into classes that no selector can tell apart.

A class is a namespace, a set of labels and whether the pods are being deleted. Selectors are
evaluated as masks over classes, so their price grows with the number of distinct label sets and
not with the number of pods. `NodeTable` keeps the classes as pods come and go; an event costs the
size of the pod's labels. What must stay true: the classes equal a recount over `table.pods`, none
is empty, and every change is in `log`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.api.labels import (
    EVERYTHING,
    NOTHING,
    CompiledSelector,
    Requirement,
    all_match,
    canonical,
)
from stowplan.api.objects import Pod
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.journal import ChangeLog, Rows
from stowplan.cluster.label_columns import LabelColumns, Labels
from stowplan.cluster.work import STEP, Work

if TYPE_CHECKING:
    from stowplan.cluster.table import BoolArray, Int64Array

#: Names of namespaces; None stands for all of them.
Namespaces: TypeAlias = frozenset[str] | None

_NO_LABELS: Final[dict[str, str]] = {}
#: Up to so many classes, or places of theirs, a loop is quicker than arrays.
_FEW_CLASSES: Final = 16
_FEW_PLACES: Final = 128
#: No reader replays more changes than this. Entries keep classes alive that are gone.
_LOG_LIMIT: Final = 256
_MANY_LABELS: Final = 64


class CounterKey(NamedTuple):
    """Which pods are counted."""

    namespaces: Namespaces
    selector: CompiledSelector
    #: Leaves out pods that are being deleted, as spreading does and affinity does not.
    live: bool = False

    @classmethod
    def all_of(
        cls, terms: Iterable[tuple[Namespaces, CompiledSelector]], *, live: bool = False
    ) -> CounterKey:
        """Pods that match every one of some terms."""
        namespaces: Namespaces = None
        requirements: list[Requirement] = []
        is_nothing = False
        for names, wanted in terms:
            if names is not None and names is not namespaces:
                namespaces = names if namespaces is None else namespaces & names
            is_nothing |= wanted.nothing
            requirements += wanted.requirements
        if is_nothing:
            return cls(namespaces, NOTHING, live)
        selector = CompiledSelector(canonical(requirements)) if requirements else EVERYTHING
        return cls(namespaces, selector, live)

    @property
    def nbytes(self) -> int:
        """What the key takes, about."""
        names = 0 if self.namespaces is None else len(self.namespaces)
        values = sum(len(each.values) for each in self.selector.requirements)
        return 100 * (names + values + len(self.selector.requirements))

    def matches(self, pod: Pod) -> bool:
        return self.accepts(pod.metadata.namespace, pod.metadata.labels, pod.is_terminating)

    def accepts(self, namespace: str, labels: Labels | None, is_terminating: bool) -> bool:
        """Whether pods of a class are counted."""
        return (
            (self.namespaces is None or namespace in self.namespaces)
            and not (self.live and is_terminating)
            and not self.selector.nothing
            and all_match(self.selector.requirements, labels or _NO_LABELS)
        )


class PodClass:
    """Pods that no selector can tell apart, and where they stand."""

    __slots__ = ("index", "is_terminating", "labels", "namespace", "places")

    def __init__(self, pod: Pod, index: int) -> None:
        self.namespace = pod.metadata.namespace
        self.labels: Labels = pod.metadata.labels or _NO_LABELS
        self.is_terminating = pod.is_terminating
        self.index = index
        #: Row -> the place in the arrays of `PodClasses`.
        self.places: dict[int, int] = {}

    def is_counted_by(self, key: CounterKey) -> bool:
        return key.accepts(self.namespace, self.labels, self.is_terminating)


class Places(NamedTuple):
    """A place is a class on a row; the arrays say which, and how many pods stand there."""

    classes: NDArray[np.int32]
    rows: NDArray[np.int32]
    #: 0 where a place is out of use.
    counts: NDArray[np.int32]


class PodClasses:
    """All classes of one table."""

    def __init__(self, work: Work | None = None, *, limit_bytes: int = 16 << 20) -> None:
        self.work = work or Work()
        self._classes: list[PodClass | None] = []
        self._by_identity: dict[tuple[str, frozenset[tuple[str, str]], bool], PodClass] = {}
        self._free: list[int] = []
        capacity = 64
        self._is_terminating: BoolArray = np.zeros(capacity, np.bool_)
        self._labels = LabelColumns(self._labels_of, capacity, self.work, limit_bytes=limit_bytes)
        #: The namespace as if it were a label with an empty key.
        self._namespaces = LabelColumns(self._namespace_of, capacity, self.work)
        self._namespace_masks: BytesLru[frozenset[str], tuple[int, BoolArray]] = BytesLru(1 << 20)
        self._place_class: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._place_row: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._place_count: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self._places = 0
        self._free_places: list[int] = []
        #: Classes in the order of their coming. A class may take the index of one that is gone.
        self.new_classes: ChangeLog[PodClass] = ChangeLog(limit=_LOG_LIMIT)
        #: Every change: the class, the row, and how many pods more or fewer.
        self.log: ChangeLog[tuple[PodClass, int, int]] = ChangeLog(limit=_LOG_LIMIT)

    def __len__(self) -> int:
        return len(self._by_identity)

    @property
    def capacity(self) -> int:
        """Above every index of a class."""
        return len(self._is_terminating)

    @property
    def nbytes(self) -> int:
        """What is kept of label columns."""
        return self._labels.nbytes + self._namespaces.nbytes + self._namespace_masks.nbytes

    def advance(self, ticks: int) -> None:
        """Let time pass, so that columns that are no longer asked for are evicted."""
        self._labels.advance(ticks)
        self._namespace_masks.advance(ticks)

    # What the table says, after it has changed itself

    def add(self, row: int, pod: Pod) -> None:
        """A pod came to a row."""
        identity = _identity(pod)
        found = self._by_identity.get(identity)
        if found is None:
            found = self._by_identity[identity] = self._new_class(pod)
        place = found.places.get(row)
        if place is None:
            place = found.places[row] = self._new_place(found.index, row)
        self._place_count[place] += 1
        self.log.append((found, row, 1))

    def remove(self, row: int, pod: Pod) -> None:
        """A pod left a row."""
        identity = _identity(pod)
        found = self._by_identity[identity]
        place = found.places[row]
        self._place_count[place] -= 1
        self.log.append((found, row, -1))
        if self._place_count[place]:
            return
        del found.places[row]
        self._free_places.append(place)
        if not found.places:
            del self._by_identity[identity]
            self._drop_class(found)

    def replace(self, row: int, old: Pod, new: Pod) -> None:
        """A pod changed in place."""
        if old.metadata.labels != new.metadata.labels or old.is_terminating != new.is_terminating:
            self.remove(row, old)
            self.add(row, new)

    # Counting

    def matching(self, key: CounterKey) -> Rows:
        """The indexes of the classes that a key counts."""
        few = self._few_matching(key)
        if few is not None:
            return np.array([each.index for each in few], np.intp)
        return np.flatnonzero(self._matching(key))

    def count(self, key: CounterKey) -> tuple[Rows, Int64Array]:
        """Rows and numbers of the pods that a key counts; a row may occur several times."""
        few = self._few_matching(key)
        if few is not None and sum(len(each.places) for each in few) <= _FEW_PLACES:
            chosen = np.array([place for each in few for place in each.places.values()], np.intp)
        else:
            mask = self._matching(key)
            places = self.places()
            chosen = np.flatnonzero(mask[places.classes] & (places.counts > 0))
            self.work.spend(10 * STEP + 3 * self._places)
        return self._place_row[chosen].astype(np.intp), self._place_count[chosen].astype(np.int64)

    def places(self) -> Places:
        """Where the pods of each class stand. Read only, and good until the next change."""
        used = slice(self._places)
        return Places(self._place_class[used], self._place_row[used], self._place_count[used])

    def _few_matching(self, key: CounterKey) -> list[PodClass] | None:
        """The classes that a key counts, if few can match; None: ask for all of them."""
        if key.selector.nothing or key.namespaces == frozenset():
            return []
        fewest: Collection[int] | None = None
        for requirement in key.selector.requirements:
            if requirement.operator in ("In", "Exists"):
                carriers = self._labels.carriers(requirement.key)
                if fewest is None or len(carriers) < len(fewest):
                    fewest = carriers
        self.work.spend(STEP // 4 * len(key.selector.requirements))
        if fewest is None or len(fewest) > _FEW_CLASSES:
            return None
        candidates = [self._class(index) for index in sorted(fewest)]
        return [each for each in candidates if each.is_counted_by(key)]

    def _matching(self, key: CounterKey) -> BoolArray:
        """Which classes a key counts, by index."""
        if key.namespaces is None:
            mask = np.ones(len(self._is_terminating), np.bool_)
        else:
            mask = self._in_namespaces(key.namespaces).copy()
        if key.live:
            mask &= ~self._is_terminating
        return self._labels.narrow(mask, key.selector.requirements)

    def _in_namespaces(self, names: frozenset[str]) -> BoolArray:
        """Which classes are in some namespaces. Read only."""
        version = self._namespaces.version("")
        known = self._namespace_masks.get(names)
        if known is not None and known[0] == version:
            return known[1]
        mask = np.ones(len(self._is_terminating), np.bool_)
        self._namespaces.narrow(mask, (Requirement("", "In", tuple(names)),))
        self._namespace_masks.put(names, (version, mask), mask.nbytes + 100 * len(names))
        return mask

    # Inside

    def _class(self, index: int) -> PodClass:
        found = self._classes[index]
        assert found is not None, "only classes that exist carry labels"
        return found

    def _labels_of(self, index: int) -> Labels:
        return self._class(index).labels

    def _namespace_of(self, index: int) -> Labels:
        return {"": self._class(index).namespace}

    def _new_class(self, pod: Pod) -> PodClass:
        if self._free:
            index = self._free.pop()
        else:
            index = len(self._classes)
            self._classes.append(None)
            if index == len(self._is_terminating):
                self._is_terminating = np.pad(self._is_terminating, (0, index))
                self._labels.grow(2 * index)
                self._namespaces.grow(2 * index)
        new = self._classes[index] = PodClass(pod, index)
        self._is_terminating[index] = new.is_terminating
        self.new_classes.append(new)
        self._labels.write(index, _NO_LABELS, new.labels)
        self._namespaces.write(index, _NO_LABELS, {"": new.namespace})
        return new

    def _drop_class(self, gone: PodClass) -> None:
        if len(gone.labels) > _MANY_LABELS:
            # The logs must not keep them alive. Readers notice, and rebuild.
            self.log.keep_newest(0)
            self.new_classes.keep_newest(0)
        index = gone.index
        self._classes[index] = None
        self._free.append(index)
        self._labels.write(index, gone.labels, _NO_LABELS)
        self._namespaces.write(index, {"": gone.namespace}, _NO_LABELS)

    def _new_place(self, index: int, row: int) -> int:
        if self._free_places:
            place = self._free_places.pop()
        else:
            place = self._places
            self._places += 1
            if place == len(self._place_row):
                self._place_class = np.pad(self._place_class, (0, place))
                self._place_row = np.pad(self._place_row, (0, place))
                self._place_count = np.pad(self._place_count, (0, place))
        self._place_class[place] = index
        self._place_row[place] = row
        return place


def _identity(pod: Pod) -> tuple[str, frozenset[tuple[str, str]], bool]:
    meta = pod.metadata
    return meta.namespace, frozenset((meta.labels or _NO_LABELS).items()), pod.is_terminating
