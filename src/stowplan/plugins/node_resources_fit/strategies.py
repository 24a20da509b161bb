"""The three scoring strategies of NodeResourcesFit, for columns and for one node.

Both forms get, for each configured resource, what would be requested with the pod on the node and
what the node offers; a resource that the node does not offer (0) does not take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from stowplan.cluster.table import Int64Array
from stowplan.config.plugin_args import ResourceSpec, UtilizationShapePoint
from stowplan.framework.integers import (
    divide_towards_zero,
    percent_in_place,
    percent_of,
    round_half_away,
)
from stowplan.framework.scratch import Scratch


class Strategy(Protocol):
    resources: tuple[ResourceSpec, ...]

    def score_columns(
        self, requested: Sequence[Int64Array], allocatable: Sequence[Int64Array]
    ) -> Int64Array:
        """The score of every row; `requested` may be used up, and one of them be the answer."""
        ...

    def score(self, pairs: Sequence[tuple[int, int]]) -> int: ...


class _WeightedAverage:
    """LeastAllocated and MostAllocated: the mean of each resource's percentage."""

    def __init__(
        self, resources: tuple[ResourceSpec, ...], _shape: tuple[UtilizationShapePoint, ...] = ()
    ) -> None:
        self.resources = resources
        self._scratch = Scratch(floats=1)

    def _part(self, requested: Int64Array, allocatable: Int64Array) -> None:
        """Turn `requested` into the part of the allocatable that counts."""
        raise NotImplementedError

    def _one(self, requested: int, allocatable: int) -> int:
        raise NotImplementedError

    def score_columns(
        self, requested: Sequence[Int64Array], allocatable: Sequence[Int64Array]
    ) -> Int64Array:
        lowest = min(int(offered.min(initial=1)) for offered in allocatable)
        if lowest <= 0:
            return self._score_uneven(requested, allocatable)
        (work,) = self._scratch.floats(len(requested[0]))
        for resource, wanted, offered in zip(self.resources, requested, allocatable, strict=True):
            self._part(wanted, offered)
            percent_in_place(wanted, offered, work, int(offered.max(initial=1)))
            if resource.weight != 1:
                np.multiply(wanted, resource.weight, out=wanted)
        total, *others = requested
        for other in others:
            total += other
        weights = sum(resource.weight for resource in self.resources)
        if weights == 2:
            # As // 2, and several times as fast; by far the commonest.
            total >>= 1
        elif weights != 1:
            total //= weights
        return total

    def _score_uneven(
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


class LeastAllocated(_WeightedAverage):
    """Prefers empty nodes."""

    def _part(self, requested: Int64Array, allocatable: Int64Array) -> None:
        np.subtract(allocatable, requested, out=requested)
        np.maximum(requested, 0, out=requested)

    def _one(self, requested: int, allocatable: int) -> int:
        return max(allocatable - requested, 0) * 100 // allocatable


class MostAllocated(_WeightedAverage):
    """Prefers full nodes."""

    def _part(self, requested: Int64Array, allocatable: Int64Array) -> None:
        np.minimum(requested, allocatable, out=requested)

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
