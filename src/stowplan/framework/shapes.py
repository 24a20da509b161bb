"""Caches of whole shapes: feasible rows and summed scores, for pods that no plugin can tell apart.

`StaticFeasible` holds the rows that pass the filters which do not look at pods, `FeasibleRows` the
rows that pass all leading filters, `WeightedScores` the weighted sum of scores. They are computed
from the columns of `columns` and then follow the table's journal of pods: the next pod of a shape
costs the rows that changed since, usually the one that took the last pod. When a node changes,
comes or goes, they are rebuilt. Why no row is feasible is cached too, until any row changes:
thousands of pods may wait for the same room, and one that finished has all of them tried again.

Only cacheable columns take part (`Plugin.reads` and `Plugin.sign`). The first filter that is not
cacheable ends the run of leading filters: it and the filters behind it run in each decision, on the
rows that are left. Normalised scores depend on which rows are feasible, so `WeightedScores` keeps
their raw columns apart.

Invariant: a cached value equals its rebuilt value. After a PluginError or `NoCachedAnswer` the
caller runs the plugins one by one, which reports the failure as kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from stowplan.cluster.derived import DerivedRows
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable
from stowplan.framework import forms
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Settled
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.integers import MAX_NODE_SCORE, MIN_NODE_SCORE
from stowplan.framework.selection import first_feasible

if TYPE_CHECKING:
    from stowplan.framework.ranking import Ranking

#: A filter, and its signature of the pod.
_Signed: TypeAlias = tuple[FilterStep, Hashable]
#: What a search depends on: the version of the feasible rows, where it starts, after how many it
#: stops.
SearchKey: TypeAlias = tuple[int, int, int]


class NoCachedAnswer(Exception):
    """The caches cannot answer: a score is out of range, or a signature has no hash.

    The score may belong to a row that does not matter to the pod, and another plugin may have to be
    named first. Run the plugins one by one instead, as after a plugin failed.
    """


def is_few(rows: list[int], table: NodeTable) -> bool:
    """Whether rows are better asked about one by one; a ghost cannot be, as there is no node."""
    return len(rows) <= forms.FEW_ROWS and all(table.valid[row] for row in rows)


class StaticFeasible(DerivedRows):
    """The rows that pass the filters which do not look at pods."""

    __slots__ = ("mask",)

    def __init__(self, signed: Iterable[_Signed], columns: ColumnCache, cycle: Cycle) -> None:
        super().__init__(cycle.table)
        self.mask: BoolArray = cycle.table.valid.copy()
        for step, signature in signed:
            self.mask &= columns.passing_verdicts(step, signature, cycle) == 0


@dataclass(slots=True)
class _Search:
    """The latest search among feasible rows."""

    key: SearchKey
    rows: Rows
    searched: int


class FeasibleRows(DerivedRows):
    """The rows that pass the leading filters."""

    __slots__ = (
        "_by_row",
        "_dynamic",
        "_search",
        "_static",
        "alive",
        "dependents",
        "is_cached",
        "number",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        static: BoolArray,
        dynamic: Sequence[_Signed],
        columns: ColumnCache,
        cycle: Cycle,
    ) -> None:
        super().__init__(cycle.table)
        #: Rows that pass the filters which do not look at pods.
        self._static = static
        #: The filters that look at pods.
        self._dynamic = [step for step, _ in dynamic]
        self._by_row = all(step.has_row_form for step in self._dynamic)
        #: Rows that pass all of them. Read only.
        self.alive: BoolArray = static.copy()
        for step, signature in dynamic:
            if step.reads_details:
                self.follow_details(cycle.table)
            self.alive &= columns.passing_verdicts(step, signature, cycle) == 0
        #: Counts the changes of `alive`.
        self.version = 0
        #: Whether the next pod of the shape finds it.
        self.is_cached = False
        #: Identifies it among all that were ever cached.
        self.number = 0
        #: Cache keys of what belongs to these rows; unreachable once these rows are evicted.
        self.dependents: list[Hashable] = []
        self._search: _Search | None = None

    def search(self, order: Rows, *, start: int, limit: int) -> tuple[Rows, int, SearchKey | None]:
        """`first_feasible` among all nodes, cached; with its key if the same was found before.

        `order` changes only when a node comes or goes, and then this object is rebuilt.
        """
        key = (self.version, start, limit)
        found = self._search
        if found is not None and found.key == key:
            return found.rows, found.searched, key
        rows, searched = first_feasible(order, self.alive, start=start, limit=limit)
        self._search = _Search(key, rows, searched)
        return rows, searched, None

    def follow(self, cycle: Cycle) -> bool:
        """Filter the rows again whose pods changed; False: rebuild it."""
        table = cycle.table
        rows = self.changed_rows(table)
        if not rows:
            return rows is not None
        if not (self._by_row and is_few(rows, table)):
            self._filter_many(cycle, table.pod_journal.as_array(rows))
        else:
            for row in rows:
                # Every filter runs, even on a row that another refuses: a failure must show.
                fits = [step.accepts(cycle, row) for step in self._dynamic]
                is_alive = all(fits) and bool(self._static[row])
                if is_alive != self.alive[row]:
                    self.alive[row] = is_alive
                    self.version += 1
        self.confirm_rows(table)
        return True

    def _filter_many(self, cycle: Cycle, rows: Rows) -> None:
        alive = self._static[rows]
        verdicts = np.zeros(cycle.table.capacity, np.int32)
        for step in self._dynamic:
            step.fill(cycle, rows, verdicts)
            alive &= verdicts[rows] == 0
        if np.count_nonzero(alive != self.alive[rows]):
            self.alive[rows] = alive
            self.version += 1


class WeightedScores(DerivedRows):
    """Weighted scores of all rows; only those of feasible rows have a meaning."""

    __slots__ = ("_by_row", "_dynamic", "is_cached", "normalized", "parts", "ranking", "sums")

    def __init__(
        self,
        signed: Sequence[tuple[ScoreStep, Hashable]],
        columns: ColumnCache,
        cycle: Cycle,
        sums: Int64Array,
        *,
        is_cached: bool,
    ) -> None:
        table = cycle.table
        super().__init__(table)
        #: Plugins that normalise, and their raw columns.
        self.normalized: list[tuple[ScoreStep, Int64Array]] = []
        #: The other plugins and their scores before weighting; None stands for zeros.
        self.parts: list[tuple[ScoreStep, Int64Array | None]] = []
        #: The weighted parts added up.
        self.sums = sums
        #: The plugins that look at pods, and their scores.
        self._dynamic: list[tuple[ScoreStep, Int64Array]] = []
        #: The latest ranking by these scores (`ranking.ranking_of`).
        self.ranking: Ranking | None = None
        #: Whether the next pod of the shape finds it.
        self.is_cached = is_cached
        used = table.used_slots
        sums[used] = 0
        for step, signature in signed:
            column = columns.passing_scores(step, signature, cycle)
            if step.normalizes:
                if step.keeps_zeros and column.range_of(used) == (0, 0):
                    self.parts.append((step, None))
                else:
                    self.normalized.append((step, column.values))
                continue
            lowest, highest = column.range_of(used)
            _check_range(lowest, highest)
            part = column.values
            if step.reads_pods:
                if step.reads_details:
                    self.follow_details(table)
                if is_cached:
                    # Other shapes use the column too, and refresh it when they need it.
                    part = part.copy()
                self._dynamic.append((step, part))
            elif not highest:
                self.parts.append((step, None))
                continue
            sums[used] += part[used] if step.weight == 1 else part[used] * step.weight
            self.parts.append((step, part))
        self._by_row = all(step.has_row_form for step, _ in self._dynamic)

    def follow(self, cycle: Cycle) -> bool:
        """Score the rows again whose pods changed; False: rebuild it."""
        table = cycle.table
        rows = self.changed_rows(table)
        if not rows:
            return rows is not None
        changed: Rows | list[int] = rows
        if self._by_row and is_few(rows, table):
            self._score_few(cycle, rows)
        else:
            changed = table.pod_journal.as_array(rows)
            self._score_many(cycle, changed)
        if self.ranking is not None:
            self.ranking.update(changed, self.sums)
        self.confirm_rows(table)
        return True

    def _score_few(self, cycle: Cycle, rows: list[int]) -> None:
        for row in rows:
            for step, part in self._dynamic:
                score = step.score_of_row(cycle, row)
                _check_range(score, score)
                self.sums[row] += step.weight * (score - int(part[row]))
                part[row] = score

    def _score_many(self, cycle: Cycle, rows: Rows) -> None:
        sums = self.sums[rows]
        for step, part in self._dynamic:
            before = part[rows]
            part[rows] = 0  # what the plugin leaves out scores 0
            # If it fails half-way, all of this is stale, and rebuilt for the next pod.
            step.fill(cycle, rows, part)
            scores = part[rows]
            # As an unsigned number, a negative score is beyond every limit.
            unsigned = scores.view(np.uint64)
            if unsigned[unsigned.argmax()] > MAX_NODE_SCORE:
                raise NoCachedAnswer("a score is out of range")
            scores -= before
            sums += scores if step.weight == 1 else scores * step.weight
        self.sums[rows] = sums


def _check_range(lowest: int, highest: int) -> None:
    if lowest < MIN_NODE_SCORE or highest > MAX_NODE_SCORE:
        raise NoCachedAnswer("a score is out of range")


_Cached = TypeVar("_Cached", FeasibleRows, WeightedScores)


class Shapes:
    """The cached shapes of one profile; they share the byte budget of its columns."""

    def __init__(self, columns: ColumnCache) -> None:
        self._columns = columns
        self._lru = columns.lru
        self._number = 0
        self._spare: Int64Array = np.zeros(0, np.int64)
        #: Whether anything is cached at all.
        self.is_used = columns.lru.is_used

    def feasible_rows(self, steps: Sequence[FilterStep], cycle: Cycle) -> tuple[FeasibleRows, int]:
        """The rows that pass the leading filters, and how many filters lead.

        Raises NoCachedAnswer, or the PluginError of a plugin that failed on any row.
        """
        signs: list[Hashable] = []
        static_signs: list[Hashable] = []
        static: list[_Signed] = []
        dynamic: list[_Signed] = []
        for step in steps:
            signature = step.signature(cycle) if step.is_cached else None
            if signature is None:
                break
            if step.reads_pods:
                dynamic.append((step, signature))
                signs += (step.name, signature)
            else:
                static.append((step, signature))
                static_signs += (step.name, signature)
        static_key = ("static", *static_signs)
        key = ("feasible", *signs, static_key)
        feasible = self._find(key, FeasibleRows, cycle)
        if feasible is None:
            mask = self._static_mask(static_key, static, cycle)
            feasible = FeasibleRows(mask, dynamic, self._columns, cycle)
            if self._lru.admits(key):
                self._drop_dependents(key)
                self._number += 1
                feasible.number = self._number
                feasible.is_cached = True
                self._lru.put(key, feasible, 10 * cycle.table.capacity)
        return feasible, len(static) + len(dynamic)

    def weighted_scores(
        self, steps: Sequence[ScoreStep], cycle: Cycle, feasible: FeasibleRows
    ) -> tuple[WeightedScores, list[ScoreStep]]:
        """The sum of the cacheable scores, and the steps that are not part of it.

        Each `feasible` has sums of its own, so that the two can be ranked together. Raises
        NoCachedAnswer, or the PluginError of a plugin that failed on any row.
        """
        signs: list[Hashable] = []
        summed: list[tuple[ScoreStep, Hashable]] = []
        others: list[ScoreStep] = []
        for step in steps:
            signature = step.signature(cycle) if step.is_summed else None
            if signature is None:
                others.append(step)
            else:
                summed.append((step, signature))
                signs += (step.name, signature)
        capacity = cycle.table.capacity
        key = ("scores", feasible.number, *signs)
        scores = self._find(key, WeightedScores, cycle) if feasible.is_cached else None
        if scores is None:
            is_cached = feasible.is_cached and self._lru.admits(key)
            sums = np.zeros(capacity, np.int64) if is_cached else self._spare_sums(capacity)
            scores = WeightedScores(summed, self._columns, cycle, sums, is_cached=is_cached)
            if is_cached:
                feasible.dependents.append(key)
                # Its ranking included.
                self._lru.put(key, scores, (8 * (3 + len(summed)) + 4) * capacity)
        return scores, others

    def known_failure(self, feasible: FeasibleRows, table: NodeTable) -> Settled | None:
        """Why the last pod of a shape without feasible rows failed; None if the table changed."""
        if not feasible.is_cached:
            return None
        kept: tuple[int, Settled] | None = self._lru.get(("failure", feasible.number))
        return kept[1] if kept is not None and kept[0] == table.version else None

    def keep_failure(self, feasible: FeasibleRows, settled: Settled, table: NodeTable) -> None:
        """Repeat this verdict for further pods of the shape until the table changes."""
        if not feasible.is_cached:
            return
        key = ("failure", feasible.number)
        if key not in feasible.dependents:
            feasible.dependents.append(key)
        self._lru.put(key, (table.version, settled), settled.nbytes)

    def _drop_dependents(self, key: Hashable) -> None:
        """Evict what belongs to feasible rows that are about to be replaced."""
        old: FeasibleRows | None = self._lru.get(key)
        for dependent in old.dependents if old is not None else ():
            self._lru.drop(dependent)

    def _spare_sums(self, capacity: int) -> Int64Array:
        """An array for sums that are not cached; the next call reuses it."""
        if len(self._spare) != capacity:
            self._spare = np.zeros(capacity, np.int64)
        return self._spare

    def _static_mask(self, key: Hashable, signed: Sequence[_Signed], cycle: Cycle) -> BoolArray:
        static: StaticFeasible | None = self._lru.get(key)
        if static is None or not static.has_same_nodes(cycle.table):
            static = StaticFeasible(signed, self._columns, cycle)
            if self._lru.admits(key):
                self._lru.put(key, static, static.mask.nbytes)
        return static.mask

    def _find(self, key: Hashable, kind: type[_Cached], cycle: Cycle) -> _Cached | None:
        """The cached value of a key, brought up to date; None: there is none, or it is stale."""
        try:
            value: _Cached | None = self._lru.get(key)
        except TypeError as problem:
            raise NoCachedAnswer("a signature cannot be hashed") from problem
        if value is None:
            return None
        if not value.follow(cycle):
            return None
        self._columns.hits += 1
        return value
