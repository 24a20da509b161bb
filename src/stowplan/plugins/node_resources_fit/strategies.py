"""The three scoring strategies of NodeResourcesFit, for columns and for one node.

Both forms get, for each configured resource, what would be requested with the pod on the node and
what the node offers; a resource that the node does not offer (0) does not take part. Where every
node offers all of them, the two that are weighted averages have a third form that is quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from stowplan.cluster.table import Int64Array
from stowplan.config.plugin_args import ResourceSpec, UtilizationShapePoint
from stowplan.framework.amounts import Amounts, Floats, columns_at
from stowplan.framework.forms import RowSet
from stowplan.framework.integers import divide_towards_zero, percent_of, round_half_away
from stowplan.framework.scratch import Scratch


class Strategy(Protocol):
    resources: tuple[ResourceSpec, ...]

    def score_columns(
        self, requested: Sequence[Int64Array], allocatable: Sequence[Int64Array]
    ) -> Int64Array:
        """The score of every row; `requested` may be used up, and one of them be the answer."""
        ...

    def score(self, pairs: Sequence[tuple[int, int]]) -> int: ...


class WeightedAverage:
    """LeastAllocated and MostAllocated: the mean of each resource's percentage."""

    def __init__(
        self, resources: tuple[ResourceSpec, ...], _shape: tuple[UtilizationShapePoint, ...] = ()
    ) -> None:
        self.resources = resources
        self._scratch = Scratch(len(resources))
        weights = [resource.weight for resource in resources]
        self._weight = sum(weights)
        #: None if all are 1.
        self._weights = None if set(weights) == {1} else np.array(weights, np.float64)[:, None]

    def _part(self, requested: Int64Array, allocatable: Int64Array) -> None:
        """Turn `requested` into the part of the allocatable that counts."""
        raise NotImplementedError

    def _parts(
        self, amounts: Amounts, wanted: Floats, rows: RowSet, offered: Floats, out: Floats
    ) -> None:
        """The part of each resource that counts, where the pod wants so much of it."""
        raise NotImplementedError

    def _one(self, requested: int, allocatable: int) -> int:
        raise NotImplementedError

    def score_amounts(
        self, amounts: Amounts, wanted: Sequence[int], rows: RowSet, out: Int64Array
    ) -> None:
        """The score of every row, for amounts that are plain, straight into `out`."""
        offered = columns_at(amounts.offered, rows)
        percent = self._scratch.floats(offered.shape[1])
        self._parts(amounts, np.array(wanted, np.float64)[:, None], rows, offered, percent)
        percent *= 100
        percent /= offered
        np.trunc(percent, out=percent)
        if self._weights is not None:
            percent *= self._weights
        total, *others = percent
        for each in others:
            total += each
        if self._weight == 2:
            total *= 0.5  # as / 2, and twice as fast; by far the commonest
        else:
            # Weights are small enough that no quotient is rounded up to the next integer.
            total /= self._weight
        out[rows] = total.astype(np.int64)

    def score_columns(
        self, requested: Sequence[Int64Array], allocatable: Sequence[Int64Array]
    ) -> Int64Array:
        """Where some row lacks a resource, its weight does not count there."""
        total: Int64Array = np.zeros_like(requested[0])
        weights: Int64Array = np.zeros_like(requested[0])
        for resource, wanted, offered in zip(self.resources, requested, allocatable, strict=True):
            self._part(wanted, offered)
            total += percent_of(wanted, offered) * resource.weight
            weights += (offered != 0) * resource.weight
        result: Int64Array = total // np.maximum(weights, 1)
        return result

    def score(self, pairs: Sequence[tuple[int, int]]) -> int:
        total = weights = 0
        for resource, (requested, allocatable) in zip(self.resources, pairs, strict=True):
            if allocatable:
                total += self._one(requested, allocatable) * resource.weight
                weights += resource.weight
        return total // weights if weights else 0


class LeastAllocated(WeightedAverage):
    """Prefers empty nodes."""

    def _part(self, requested: Int64Array, allocatable: Int64Array) -> None:
        np.subtract(allocatable, requested, out=requested)
        np.maximum(requested, 0, out=requested)

    def _parts(
        self, amounts: Amounts, wanted: Floats, rows: RowSet, offered: Floats, out: Floats
    ) -> None:
        np.subtract(amounts.free_at(rows, offered), wanted, out=out)
        np.maximum(out, 0, out=out)

    def _one(self, requested: int, allocatable: int) -> int:
        return max(allocatable - requested, 0) * 100 // allocatable


class MostAllocated(WeightedAverage):
    """Prefers full nodes."""

    def _part(self, requested: Int64Array, allocatable: Int64Array) -> None:
        np.minimum(requested, allocatable, out=requested)

    def _parts(
        self, amounts: Amounts, wanted: Floats, rows: RowSet, offered: Floats, out: Floats
    ) -> None:
        np.add(amounts.held_at(rows), wanted, out=out)
        np.minimum(out, offered, out=out)

    def _one(self, requested: int, allocatable: int) -> int:
        return min(requested, allocatable) * 100 // allocatable


class RequestedToCapacityRatio:
    """Scores utilization by a broken line; resources that score 0 drop out with their weight."""

    def __init__(
        self, resources: tuple[ResourceSpec, ...], shape: tuple[UtilizationShapePoint, ...]
    ) -> None:
        self.resources = resources
        # Configured scores go to 10, node scores to 100.
        self._points = [(point.utilization, point.score * 10) for point in shape]
        self._by_utilization = np.array([self._line(u) for u in range(101)], np.int64)

    def _line(self, utilization: int) -> int:
        """The broken line at one utilization, divided as Go divides."""
        previous = self._points[0]
        for x1, y1 in self._points:
            if utilization <= x1:
                x0, y0 = previous
                if x1 == x0:
                    return y1
                rise = np.array([(y1 - y0) * (utilization - x0)], np.int64)
                return y0 + int(divide_towards_zero(rise, x1 - x0)[0])
            previous = (x1, y1)
        return self._points[-1][1]

    def score_columns(
        self, requested: Sequence[Int64Array], allocatable: Sequence[Int64Array]
    ) -> Int64Array:
        total: Int64Array = np.zeros_like(requested[0])
        weights: Int64Array = np.zeros_like(requested[0])
        for resource, wanted, offered in zip(self.resources, requested, allocatable, strict=True):
            used = np.where(wanted > offered, 100, percent_of(np.minimum(wanted, offered), offered))
            scores = np.where(offered == 0, 0, self._by_utilization[used])
            counts = scores > 0
            total += np.where(counts, scores, 0) * resource.weight
            weights += counts * resource.weight
        return round_half_away(total / np.maximum(weights, 1))

    def score(self, pairs: Sequence[tuple[int, int]]) -> int:
        total = weights = 0
        for resource, (requested, allocatable) in zip(self.resources, pairs, strict=True):
            if not allocatable:
                continue
            over = requested > allocatable
            used = 100 if over else requested * 100 // allocatable
            scored = self._line(used)
            if scored > 0:
                total += scored * resource.weight
                weights += resource.weight
        # Both are non-negative, so half away from zero is half up.
        return (2 * total + weights) // (2 * weights) if weights else 0


STRATEGIES: dict[str, type[LeastAllocated | MostAllocated | RequestedToCapacityRatio]] = {
    "LeastAllocated": LeastAllocated,
    "MostAllocated": MostAllocated,
    "RequestedToCapacityRatio": RequestedToCapacityRatio,
}
