"""How many pods of a kind stand on each row.

Affinity and spreading ask for a `PodCounter` by namespaces and selector. It is counted once over
the classes of pods, and follows their log when it is asked for again: a counter that is not asked
for costs nothing when pods come and go. What must stay true: a counter that `get` returns equals a
recount over `table.pods`.

Counters know rows, not nodes: ghost rows count too, and readers that add rows up into domains leave
them out (a ghost has no label values). Namespace selectors are expanded to names by the reader, and
so is the rule that spreading counts no pods for an empty selector.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.pod_classes import CounterKey, PodClass, PodClasses
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.work import STEP, Work

#: More changes than this are not replayed one by one: counting again is quicker.
_MANY_CHANGES: Final = 128


class PodCounter(RowCounts):
    """Matching pods by row, and a log of what changed since.

    A reader that keeps sums of its own remembers a position in `log`. A counter that was evicted is
    replaced by another, whose log does not know the position: the reader starts over.
    """

    __slots__ = ("_followed", "key", "key_bytes")

    def __init__(self, key: CounterKey, classes: PodClasses) -> None:
        super().__init__()
        self.key = key
        self.key_bytes = key.nbytes
        self._followed = classes.log.end
        self.start(*classes.count(key))

    def follow(self, classes: PodClasses) -> int | None:
        """Apply changes of pods and return their number; None: too many, rebuild."""
        count = classes.log.count_since(self._followed)
        if not count:
            return count
        if count > _MANY_CHANGES:
            return None
        changes = classes.log.entries_since(self._followed)
        assert changes is not None
        known: dict[PodClass, bool] = {}
        for changed, row, delta in changes:
            is_counted = known.get(changed)
            if is_counted is None:
                is_counted = known[changed] = changed.is_counted_by(self.key)
            if is_counted:
                self.change(row, delta)
        self._followed = classes.log.end
        return count


class PodCounters:
    """The counters of one table, kept within a budget of bytes."""

    def __init__(
        self, classes: PodClasses, work: Work | None = None, *, limit_bytes: int = 16 << 20
    ) -> None:
        self._classes = classes
        self._work = work or Work()
        self._kept: BytesLru[CounterKey, PodCounter] = BytesLru(limit_bytes)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[PodCounter]:
        return iter(self._kept)

    @property
    def nbytes(self) -> int:
        """What the counters take, about."""
        return self._kept.nbytes

    def get(self, key: CounterKey) -> PodCounter:
        """The counter of a key, up to date until the next change of a pod."""
        counter = self._kept.get(key)
        if counter is not None:
            changes = counter.follow(self._classes)
            if changes is not None:
                if counter.has_grown:
                    counter.has_grown = False
                    self._kept.resize(key, counter.nbytes + counter.key_bytes)
                if changes:
                    self._work.spend(STEP * changes)
                return counter
        counter = PodCounter(key, self._classes)
        self._kept.put(key, counter, counter.nbytes + counter.key_bytes)
        self._work.spend(20 * STEP)
        return counter

    def advance(self, ticks: int) -> None:
        """Let time pass, so that what is no longer asked for is evicted."""
        self._kept.advance(ticks)
