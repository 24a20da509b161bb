"""`!HierBAR`: first the kind of nodes whose proportions match the app's best, then the node.

Nodes of equal capacity are a class; `merge_threshold` makes of all classes two, by how much faster
than they write they read. For each class the parts of its (average) node that one pod takes are
compared: the less they differ, the better the match. Of the nodes that fit, those of the best
class stay; `!LeastUsedBAR` rates them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from stowplan.extender.algorithms import gauges
from stowplan.extender.algorithms.apps import QueriedData
from stowplan.extender.algorithms.arithmetic import divide, numbers, read_write_ratio
from stowplan.extender.algorithms.fit import UNKNOWN_NODE
from stowplan.extender.algorithms.least_used_bar import LeastUsedBAR
from stowplan.extender.data import (
    DEFAULT_DIMENSIONS,
    AppName,
    DataProvider,
    NodeName,
    Resource,
    Resources,
)
from stowplan.logs import V4, get_logger, kv

log = get_logger(__name__)

#: Capacities in whole numbers, by name of the resource.
Shape: TypeAlias = tuple[tuple[Resource, int], ...]
Capacities: TypeAlias = Mapping[NodeName, Resources]


class _Class(NamedTuple):
    """Nodes of one shape, and how badly the app matches it."""

    shape: Shape
    nodes: list[NodeName]
    variance: float


class HierBAR(LeastUsedBAR):
    """Keeps the nodes of the best class that has any left."""

    def __init__(
        self,
        data_provider: DataProvider,
        dimensions: Sequence[Resource] = DEFAULT_DIMENSIONS,
        alias: str | None = None,
        merge_threshold: float | None = None,
        max_node_score: float | None = None,
    ) -> None:
        super().__init__(data_provider, dimensions, alias=alias, max_node_score=max_node_score)
        self.merge_threshold = merge_threshold

    def __str__(self) -> str:
        merge = "" if self.merge_threshold is None else f",merge={self.merge_threshold}"
        return self.alias or f"{type(self).__name__}({len(self.dimensions)}{merge})"

    def app_fit_nodes(
        self, node_names: list[NodeName], app_name: AppName, data_provider_queried: QueriedData
    ) -> tuple[list[NodeName], dict[NodeName, str]]:
        capacities = {
            name: numbers(capacity)
            for name, capacity in data_provider_queried.nodes_capacities.items()
        }
        shapes = nodes_by_shape(capacities)
        if self.merge_threshold is not None:
            shapes = merged(shapes, capacities, self.merge_threshold)
        requested = numbers(data_provider_queried.apps_spec[app_name])
        classes = []
        for shape, nodes in shapes.items():
            variance = class_variance(requested, [capacities[name] for name in nodes])
            if variance is not None:
                classes.append(_Class(shape, nodes, variance))
        self._show_classes(app_name, requested, classes)
        variance_of = {name: each.variance for each in classes for name in each.nodes}
        judged = [variance_of[name] for name in node_names if name in variance_of]
        for _ in range(len(node_names) - len(judged)):
            self.node_not_judged(UNKNOWN_NODE)
        if not judged:
            return node_names, {}
        # Of classes that match equally well the first one that was met stays alone.
        best = min(classes, key=lambda each: _rank(each, node_names))
        log.log(V4, "Chose a class of nodes", extra=kv(app=app_name, shape=shape_text(best.shape)))
        of_best = frozenset(best.nodes)
        failed = {
            name: f"Not best class (best_variance={best.variance:.2f} this={variance_of[name]:.2f})"
            for name in node_names
            if name in variance_of and name not in of_best
        }
        return [name for name in node_names if name not in failed], failed

    def _show_classes(self, app: AppName, requested: Resources, classes: Iterable[_Class]) -> None:
        needs = shape_text(sorted(requested.items()))
        for each in classes:
            shape = shape_text(each.shape)
            self.shown.put(gauges.SHAPE_NODES, len(each.nodes), shape=shape)
            self.shown.put(
                gauges.SHAPE_APP_VARIANCE, each.variance, app=app, app_requested=needs, shape=shape
            )


def nodes_by_shape(capacities: Capacities) -> dict[Shape, list[NodeName]]:
    """The classes of nodes, in the order in which they are met."""
    shapes: dict[Shape, list[NodeName]] = {}
    for name, capacity in capacities.items():
        shapes.setdefault(_shape(capacity), []).append(name)
    return shapes


def merged(
    shapes: dict[Shape, list[NodeName]], capacities: Capacities, threshold: float
) -> dict[Shape, list[NodeName]]:
    """Two classes: nodes that read more than `threshold` times as fast as they write, and others.

    Nodes without bandwidths are in neither.
    """
    if len(shapes) < 2:
        return shapes
    above: list[NodeName] = []
    below: list[NodeName] = []
    for shape, nodes in shapes.items():
        ratio = read_write_ratio({resource: float(amount) for resource, amount in shape})
        if ratio is not None:
            (above if ratio > threshold else below).extend(nodes)
    new: dict[Shape, list[NodeName]] = {}
    for nodes in (above, below):
        if nodes:
            new.setdefault(_shape(_average([capacities[n] for n in nodes])), []).extend(nodes)
    return new


def class_variance(requested: Resources, capacities: Sequence[Resources]) -> float | None:
    """The standard deviation of the parts of an average node that the app needs; None if there
    are no two of them to compare."""
    average = {r: amount for r, amount in _average(capacities).items() if r in requested}
    needs = {resource: requested[resource] for resource in average}
    parts = divide(needs, average, read_write_ratio(average))
    return statistics.stdev(parts.values()) if len(parts) > 1 else None


def shape_text(amounts: Iterable[tuple[Resource, float]]) -> str:
    """`cpu=96,mem=1000`."""
    return ",".join(f"{resource}={amount:.0f}" for resource, amount in amounts)


def _rank(candidate: _Class, node_names: Sequence[NodeName]) -> tuple[bool, float]:
    return frozenset(candidate.nodes).isdisjoint(node_names), candidate.variance


def _shape(capacity: Resources) -> Shape:
    return tuple(sorted((resource, int(amount)) for resource, amount in capacity.items()))


def _average(capacities: Sequence[Resources]) -> Resources:
    """By the dimensions that all of them have."""
    dimensions = [r for r in capacities[0] if all(r in capacity for capacity in capacities)]
    return {r: sum(each[r] for each in capacities) / len(capacities) for r in dimensions}
