"""Soft constraints: the fewer pods of its kind in a node's domains, the better.

`SoftSpread` is what PreScore leaves for Score: for each constraint a score by domain, and for the
hostname, where every node is a domain of its own, by row. Few domains weigh less than many, by the
logarithm of their number, so that both zones and nodes have a say.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stowplan.api.labels import Requirement
from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.label_columns import ABSENT
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.forms import RowSet
from stowplan.framework.integers import MAX_NODE_SCORE, percent_of, round_half_away
from stowplan.plugins.pod_topology_spread.constraints import (
    HOSTNAME,
    Constraint,
    Constraints,
    Inclusions,
)

_Floats = NDArray[np.float64]


class Landscape:
    """The feasible rows by their labels: the same for all pods that find the same rows."""

    def __init__(self, table: NodeTable, rows: Rows, keys: tuple[str, ...]) -> None:
        """`keys`: nodes that lack one of these labels take no part, and score 0."""
        self._table = table
        self._rows = rows
        self.keys = keys
        self._layout = table.layout_journal.end
        #: Rows that lack a label; None if none of the feasible ones does.
        self.ignored: BoolArray | None = None
        #: The same for the feasible rows, in their order.
        self.ignored_feasible: BoolArray | None = None
        self._taking_part = rows
        if keys:
            needed = tuple(Requirement(key, "Exists") for key in keys)
            ignored = ~table.labels.narrow(np.ones(table.capacity, np.bool_), needed)
            feasible = ignored[rows]
            if feasible.any():
                self.ignored, self.ignored_feasible = ignored, feasible
                self._taking_part = rows[~feasible]
        self._domain_counts: dict[str, int] = {}

    def is_of(self, table: NodeTable, rows: Rows, keys: tuple[str, ...]) -> bool:
        return (
            # The same array is the common case; equal rows in another one are only counted again.
            rows is self._rows and keys == self.keys and self._layout == table.layout_journal.end
        )

    @property
    def size(self) -> int:
        """How many rows take part."""
        return len(self._taking_part)

    def domain_count(self, key: str) -> int:
        """How many values of a label the rows that take part have."""
        count = self._domain_counts.get(key)
        if count is None:
            values = np.unique(self._table.labels.column(key)[self._taking_part])
            count = len(values)
            blank = self._table.labels.values(key).get("")
            if blank is not None and not self.keys:
                # A node without the label and one where it is empty are upstream's same domain.
                count -= bool(np.isin((ABSENT, blank), values).all())
            self._domain_counts[key] = count
        return count


class SoftSpread:
    """A pod's soft constraints against the feasible rows of one decision."""

    def __init__(
        self, pod: Pod, table: NodeTable, constraints: Constraints, landscape: Landscape
    ) -> None:
        self._table = table
        self._landscape = landscape
        self._inclusions = Inclusions(pod, landscape.keys)
        self._parts = [
            self._by_row(constraint, pod)
            if constraint.topology_key == HOSTNAME
            else self._by_domain(constraint, pod)
            for constraint in constraints
        ]

    def _by_row(self, constraint: Constraint, pod: Pod) -> _Part:
        counts = self._table.domains.by_row(constraint.counted(pod.metadata.namespace))
        return _Part(constraint, counts, go_log(self._landscape.size + 2), is_by_row=True)

    def _by_domain(self, constraint: Constraint, pod: Pod) -> _Part:
        table, key = self._table, constraint.topology_key
        counted = constraint.counted(pod.metadata.namespace)
        counts = table.domains.counts(counted, key, self._inclusions.of(constraint)).counts
        blank = table.labels.values(key).get("")
        if blank is not None and not self._landscape.keys:
            # The same domain as that of nodes without the label.
            counts = counts.copy()
            counts[blank] += counts[-1]
        weight = go_log(self._landscape.domain_count(key) + 2)
        return _Part(constraint, counts, weight, is_by_row=False)

    def fill(self, rows: RowSet, out: Int64Array) -> None:
        labels = self._table.labels
        first, *more = self._parts
        if not more and not first.is_by_row:
            # There are fewer domains than rows to be rounded.
            scores = round_half_away(first.by_value()).take(labels.column(first.key)[rows])
        else:
            total = first.scores_of(rows, labels.column(first.key))
            for part in more:
                total += part.scores_of(rows, labels.column(part.key))
            scores = round_half_away(total)
        ignored = self._landscape.ignored
        if ignored is not None:
            scores[ignored[rows]] = 0
        out[rows] = scores

    def score(self, node: NodeView) -> int:
        ignored = self._landscape.ignored
        if ignored is not None and ignored[node.row]:
            return 0
        total = 0.0
        for part in self._parts:
            if part.key in node.labels:
                value = node.row
                if not part.is_by_row:
                    known = self._table.labels.values(part.key).get(node.labels[part.key])
                    assert known is not None, "every label value of a column has a number"
                    value = known
                total += part.score(int(part.counts[value]))
        return _round_half_away(total)

    def normalize(self, scores: Int64Array) -> Int64Array:
        """The lowest becomes the highest; nodes that take no part stay at 0."""
        ignored = self._landscape.ignored_feasible
        if ignored is None:
            return _upside_down(scores)
        final = np.zeros_like(scores)
        if not ignored.all():
            final[~ignored] = _upside_down(scores[~ignored])
        return final


class _Part:
    """One constraint's share of the score: counts by value id or by row, and their weight."""

    __slots__ = ("_extra", "_weight", "counts", "is_by_row", "key")

    def __init__(
        self, constraint: Constraint, counts: Int64Array, weight: float, *, is_by_row: bool
    ) -> None:
        self.key = constraint.topology_key
        self.counts = counts
        self.is_by_row = is_by_row
        self._weight = weight
        # A large skew waters down what the domains differ by.
        self._extra = float(constraint.max_skew - 1)

    def score(self, count: int) -> float:
        return count * self._weight + self._extra

    def scores_of(self, rows: RowSet, column: NDArray[np.int32]) -> _Floats:
        """The share of each row; `column` holds the value ids of the label."""
        if self.is_by_row:
            by_row: _Floats = np.multiply(self.counts[rows], self._weight)
            by_row += self._extra
            by_row[column[rows] < 0] = 0.0
            return by_row
        return self.by_value().take(column[rows])

    def by_value(self) -> _Floats:
        """The share of each domain; the last is for rows without the label."""
        shares: _Floats = np.multiply(self.counts, self._weight)
        shares += self._extra
        shares[-1] = 0.0
        return shares


def _upside_down(scores: Int64Array) -> Int64Array:
    highest, lowest = max(int(scores.max()), 0), int(scores.min())
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE)
    if highest - lowest < len(scores):
        # Each score is divided once, however many rows have it.
        distinct = percent_of(np.arange(highest, lowest - 1, -1), np.array(highest))
        return distinct.take(scores - lowest)
    return percent_of(highest + lowest - scores, np.array(highest))


def _round_half_away(value: float) -> int:
    whole = math.trunc(value)
    return whole + int(math.copysign(1, value)) if abs(value - whole) >= 0.5 else whole


# The series that Go's math.Log adds up, and ln 2 in two parts.
_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_ODD = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


@lru_cache(maxsize=65536)
def go_log(number: int) -> float:
    """The natural logarithm to the last bit as Go has it; C's differs for one in a hundred."""
    fraction, exponent = math.frexp(number)
    if fraction < math.sqrt(2) / 2:
        fraction, exponent = fraction * 2, exponent - 1
    f = fraction - 1
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_ODD[0] + s4 * (_ODD[1] + s4 * (_ODD[2] + s4 * _ODD[3])))
    even = s4 * (_EVEN[0] + s4 * (_EVEN[1] + s4 * _EVEN[2]))
    half = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half - (s * (half + (odd + even)) + exponent * _LN2_LOW)) - f)
