"""CSV traces: a row a pod (or several alike), and a row a node.

Both use our own plain layout or one of the known foreign ones (`layout`). What must stay true: a
file is read once, row by row, before anything is played, so errors are reported before the start. A
pod takes a name and a few numbers of memory, however large the file.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stowplan.errors import ConfigError
from stowplan.sim.traces.csv_rows import BadRow, CsvRow, rows
from stowplan.sim.traces.layout import Layout, as_name, is_label, is_name
from stowplan.sim.traces.manifests import (
    STANDING_NAMESPACES,
    arrival,
    container,
    namespace,
    needs_one_of,
    node,
    priority_class,
    priority_class_name,
    requests,
    taint,
    toleration,
)
from stowplan.sim.traces.model import Arrival, Json, Trace
from stowplan.sim.traces.reading import BrokenRows

_KEPT = 4_096
_MOST_OF_A_KIND = 1_000_000
_YEAR_MS = 365 * 24 * 3_600_000
#: The duration of pods that run until they are deleted, in an array of whole numbers.
_FOR_EVER = -1


class _Shape(NamedTuple):
    """The fields of a pod that matter to a scheduler, shared by equal pods."""

    cpu_milli: int
    memory_bytes: int
    gpus: int
    priority: int | None
    selector: tuple[tuple[str, tuple[str, ...]], ...]
    tolerations: tuple[str, ...]
    finite: bool


class _Pods:
    """The pods of a file, in columns."""

    def __init__(self) -> None:
        self._at = array("q")
        self._run = array("q")
        self._count = array("q")
        self._shape = array("q")
        self._home = array("q")
        self._names: list[str] = []
        self._shapes: dict[_Shape, int] = {}
        self._homes: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._taken: set[tuple[str, str]] = set()
        self.total = 0

    def __len__(self) -> int:
        return len(self._names)

    def add(self, row: CsvRow) -> None:
        """Add the pods of a row; raises BadRow."""
        at_ms = row.milliseconds("arrival") or 0
        run_ms = row.milliseconds("duration")
        count = row.pieces("count", 1)
        if count > _MOST_OF_A_KIND:
            raise BadRow(f"count: {count} pods in a row are more than {_MOST_OF_A_KIND}")
        shape = _Shape(
            row.cpu_milli(),
            row.memory_bytes(),
            row.pieces("gpu"),
            row.whole("priority"),
            row.selector(),
            row.listed("tolerations"),
            run_ms is not None,
        )
        if shape not in self._shapes:
            _spec(shape)  # complains about tolerations
        within = row.text("namespace") or "default"
        if not is_name(within) or "." in within or len(within) > 63:
            raise BadRow(f"namespace: `{within:.60}` is not a valid name of a namespace")
        labels = row.labels()
        name = self._name(row, within, count)
        self._names.append(name)
        self._at.append(at_ms)
        self._run.append(_FOR_EVER if run_ms is None else run_ms)
        self._count.append(count)
        self._shape.append(self._shapes.setdefault(shape, len(self._shapes)))
        self._home.append(self._homes.setdefault((within, labels), len(self._homes)))
        self.total += count

    def _name(self, row: CsvRow, within: str, count: int) -> str:
        """The row's name, or one made from its line number if that is no valid name."""
        given = row.text("name")
        if not is_name(given) or not row.has_column("name"):
            return f"{as_name(given) or 'pod'}-{row.line}"
        names = [given] if count == 1 else [f"{given}-{number}" for number in range(count)]
        for name in names:
            if (within, name) in self._taken:
                raise BadRow(f"name: there is a pod {within}/{name} already")
        self._taken.update((within, name) for name in names)
        return given

    def count_from_first(self) -> None:
        """Let the earliest arrival be the beginning."""
        if self._at:
            earliest = min(self._at)
            self._at = array("q", (at_ms - earliest for at_ms in self._at))

    def settle(self, file: Path) -> None:
        """Free the set of used names and check the first arrival; add no rows afterwards."""
        self._taken.clear()
        if self._at and min(self._at) > _YEAR_MS:
            years = min(self._at) / _YEAR_MS
            raise ConfigError(
                f"its first pod arrives after {years:.0f} years; times that count from elsewhere "
                "need a layout with `origin: first`",
                where=str(file),
            )

    def objects(self) -> Iterator[Json]:
        for name in sorted({within for within, _ in self._homes} - STANDING_NAMESPACES):
            yield namespace(name)
        values = {shape.priority for shape in self._shapes if shape.priority is not None}
        for value in sorted(values):
            yield priority_class(priority_class_name(value), value)

    def arrivals(self) -> Iterator[Arrival]:
        shapes, homes = list(self._shapes), list(self._homes)
        spec_of = lru_cache(maxsize=_KEPT)(lambda number: _spec(shapes[number]))
        labels_of = lru_cache(maxsize=_KEPT)(lambda number: dict(homes[number][1]))
        order = np.argsort(np.array(self._at, dtype=np.int64), kind="stable")
        for index in order.tolist():
            name, count, run_ms = self._names[index], self._count[index], self._run[index]
            home = self._home[index]
            labels, spec = labels_of(home), spec_of(self._shape[index])
            at, run_s = self._at[index] / 1000, None if run_ms == _FOR_EVER else run_ms / 1000
            for number in range(count):
                own = name if count == 1 else f"{name}-{number}"
                yield arrival(at, own, homes[home][0], labels, spec, run_s)


def read_pods(
    file: Path, *, layout: Layout | None = None, skip_broken: bool = False, limit: int | None = None
) -> Trace:
    """A trace of pods. `limit`: rows of the file to use, the rest is not read."""
    broken = BrokenRows(file, skip=skip_broken)
    pods = _Pods()
    left_out = 0
    for row in rows(file, "pods", layout, broken):
        if limit is not None and len(pods) >= limit:
            break
        if not row.is_wanted():
            left_out += 1
            continue
        try:
            pods.add(row)
        except BadRow as problem:
            broken.add(row.line, str(problem))
    broken.check(len(pods), left_out)
    if layout is not None and layout.from_first:
        pods.count_from_first()
    pods.settle(file)
    return Trace(
        sources=(str(file),),
        make_objects=pods.objects,
        make_events=pods.arrivals,
        pods=pods.total,
        reading=broken.reading(len(pods), left_out, "pod"),
    )


def read_nodes(file: Path, *, layout: Layout | None = None, skip_broken: bool = False) -> Trace:
    """A trace of nodes that are there from the beginning."""
    broken = BrokenRows(file, skip=skip_broken)
    nodes: dict[str, Json] = {}
    read = left_out = 0
    for row in rows(file, "nodes", layout, broken):
        if not row.is_wanted():
            left_out += 1
            continue
        try:
            nodes |= _nodes(row, nodes)
            read += 1
        except BadRow as problem:
            broken.add(row.line, str(problem))
    broken.check(read, left_out)
    return Trace(
        sources=(str(file),),
        make_objects=lambda: iter(nodes.values()),
        nodes=len(nodes),
        reading=broken.reading(read, left_out, "node"),
    )


def _nodes(row: CsvRow, there: dict[str, Json]) -> dict[str, Json]:
    given, count = row.text("name"), row.pieces("count", 1)
    if count > _MOST_OF_A_KIND:
        raise BadRow(f"count: {count} nodes in a row are more than {_MOST_OF_A_KIND}")
    name = given if is_name(given) else f"{as_name(given) or 'node'}-{row.line}"
    offers = requests(row.cpu_milli(), row.memory_bytes(), row.pieces("gpu"))
    offers["pods"] = str(row.pieces("pods", 110))
    zone = row.text("zone")
    if not is_label(zone):
        raise BadRow(f"zone: `{zone:.60}` cannot be the value of a label")
    try:
        taints = [taint(text) for text in row.listed("taints")]
    except ValueError as problem:
        raise BadRow(f"taints: {problem}") from None
    made = {}
    for number in range(count):
        own = name if count == 1 else f"{name}-{number}"
        if own in there:
            raise BadRow(f"name: there is a node {own} already")
        made[own] = node(own, offers, labels=dict(row.labels()), zone=zone, taints=taints)
    return made


def _spec(shape: _Shape) -> Json:
    amounts = requests(shape.cpu_milli, shape.memory_bytes, shape.gpus)
    spec: Json = {
        "containers": [container(amounts)],
        "restartPolicy": "Never" if shape.finite else "Always",
    }
    if shape.priority is not None:
        spec["priorityClassName"] = priority_class_name(shape.priority)
    if shape.selector:
        spec |= needs_one_of(dict(shape.selector))
    if shape.tolerations:
        try:
            spec["tolerations"] = [toleration(text) for text in shape.tolerations]
        except ValueError as problem:
            raise BadRow(f"tolerations: {problem}") from None
    return spec


def check_of(layout: Layout | None, of: str, file: Path) -> None:
    """Refuse a layout of nodes for pods, and the reverse."""
    if layout is not None and layout.of != of:
        raise ConfigError(
            f"layout {layout.name} is one of {layout.of}, not of {of}", where=str(file)
        )
