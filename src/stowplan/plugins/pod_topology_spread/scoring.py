"""Soft constraints: the fewer pods of its kind in a node's domains, the better.

`SoftSpread` is what PreScore leaves for Score: for each constraint a score by domain, and for the
hostname, where every node is a domain of its own, by row. Few domains weigh less than many, by the
logarithm of their number, so that both zones and nodes have a say.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.table import BoolArray, Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.forms import RowSet
from stowplan.framework.integers import MAX_NODE_SCORE, percent_of, round_half_away
from stowplan.plugins.pod_topology_spread.constraints import (
    HOSTNAME,
    Constraint,
    Constraints,
    topology_keys,
)

_Floats = NDArray[np.float64]


class SoftSpread:
    """A pod's soft constraints against the feasible rows of one decision."""

    def __init__(
        self, pod: Pod, table: NodeTable, constraints: Constraints, rows: Rows, *, all_keys: bool
    ) -> None:
        """`all_keys`: nodes that lack one of the labels take no part, and score 0."""
        self._table = table
        self._namespace = pod.metadata.namespace
        keys = topology_keys(constraints) if all_keys else ()
        #: Rows that lack a label; None if none of the feasible ones does.
        self._ignored: BoolArray | None = None
        #: The same for the feasible rows, in their order.
        self._ignored_feasible: BoolArray | None = None
        if keys:
            ignored = np.logical_or.reduce([table.labels.column(key) < 0 for key in keys])
            feasible = ignored[rows]
            if feasible.any():
                self._ignored, self._ignored_feasible = ignored, feasible
                rows = rows[~feasible]
        self._parts = [
            self._by_row(constraint, len(rows))
            if constraint.topology_key == HOSTNAME
            else self._by_domain(constraint, pod, keys, rows)
            for constraint in constraints
        ]

    def _by_row(self, constraint: Constraint, nodes: int) -> _Part:
        counts = self._table.domains.by_row(constraint.counted(self._namespace))
        return _Part(constraint, counts, go_log(nodes + 2), is_by_row=True)

    def _by_domain(
        self, constraint: Constraint, pod: Pod, keys: tuple[str, ...], rows: Rows
    ) -> _Part:
        table, key = self._table, constraint.topology_key
        counted = constraint.counted(self._namespace)
        counts = table.domains.counts(counted, key, constraint.inclusion(pod, keys)).counts
        # How many of the rows are in each domain; the first entry is for those in none.
        met = np.bincount(table.labels.column(key)[rows] + 1, minlength=len(counts))
        size = int(np.count_nonzero(met))
        blank = table.labels.values(key).get("")
        if blank is not None and not keys:
            # A node without the label and one where it is empty are upstream's same domain.
            size -= bool(met[blank + 1] and met[0])
            counts = counts.copy()
            counts[blank] += counts[-1]
        return _Part(constraint, counts, go_log(size + 2), is_by_row=False)

    def fill(self, rows: RowSet, out: Int64Array) -> None:
        total: Any = 0.0
        for part in self._parts:
            column = self._table.labels.column(part.key)
            total = total + part.scores_of(rows, column)
        scores = round_half_away(total)
        if self._ignored is not None:
            scores[self._ignored[rows]] = 0
        out[rows] = scores

    def score(self, node: NodeView) -> int:
        if self._ignored is not None and self._ignored[node.row]:
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
        ignored = self._ignored_feasible
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
        by_value: _Floats = np.multiply(self.counts, self._weight)
        by_value += self._extra
        by_value[-1] = 0.0
        return by_value.take(column[rows])


def _upside_down(scores: Int64Array) -> Int64Array:
    highest, lowest = max(int(scores.max()), 0), int(scores.min())
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE)
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
