"""Compare the cache with the API server's objects, and its columns with its own pods.

Called on demand (`selfcheck`, a signal) with fresh lists from the API, and by tests after every
step. Only reads. Watches lag behind lists, so on a busy cluster a difference may be an update on
its way: one that shows up twice in a row is real. Drift is real at once: the columns must equal the
sums over the cache's own pods at all times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.requests import CPU, MEMORY, PODS, canonical, parse_amounts, whole_units
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, NodeTable

#: How many lines a section of the text shows at most.
_SHOWN = 20


@dataclass(frozen=True, slots=True, order=True)
class PlacedPod:
    """A pod and the node that it stands on."""

    key: str
    uid: str
    node: str

    def __str__(self) -> str:
        return f"{self.key} ({self.uid}) on {self.node}"


@dataclass(frozen=True, slots=True, order=True)
class MisplacedPod:
    """A pod that the cache has on another node than the API server."""

    key: str
    uid: str
    node: str
    cached_node: str

    def __str__(self) -> str:
        return f"{self.key} ({self.uid}) on {self.node}, in the cache on {self.cached_node}"


@dataclass(frozen=True, slots=True, order=True)
class Drift:
    """A column that is not what the node or its pods add up to."""

    node: str
    what: str
    expected: int
    actual: int

    def __str__(self) -> str:
        return f"{self.node}: {self.what} is {self.actual}, should be {self.expected}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences, sorted. "Missing" is missing from the cache, "extra" unknown to the API."""

    node_count: int
    pod_count: int
    missing_nodes: tuple[str, ...]
    extra_nodes: tuple[str, ...]
    missing_pods: tuple[PlacedPod, ...]
    extra_pods: tuple[PlacedPod, ...]
    misplaced_pods: tuple[MisplacedPod, ...]
    #: Decided here and not yet seen as bound: expected, and no difference.
    assumed_pods: tuple[PlacedPod, ...]
    drift: tuple[Drift, ...]

    @property
    def agrees(self) -> bool:
        return not any(entries for _, entries in self._differences())

    def confirming(self, earlier: Comparison) -> Comparison:
        """The differences that `earlier` also has; the others were updates on their way."""

        def still(name: str) -> tuple[Any, ...]:
            known = set(getattr(earlier, name))
            return tuple(entry for entry in getattr(self, name) if entry in known)

        return replace(
            self,
            missing_nodes=still("missing_nodes"),
            extra_nodes=still("extra_nodes"),
            missing_pods=still("missing_pods"),
            extra_pods=still("extra_pods"),
            misplaced_pods=still("misplaced_pods"),
        )

    def _differences(self) -> tuple[tuple[str, Sequence[object]], ...]:
        return (
            ("nodes missing from the cache", self.missing_nodes),
            ("nodes unknown to the API server", self.extra_nodes),
            ("pods missing from the cache", self.missing_pods),
            ("pods unknown to the API server", self.extra_pods),
            ("pods on another node", self.misplaced_pods),
            ("sums that have drifted", self.drift),
        )

    def __str__(self) -> str:
        """The result as text, one difference a line."""
        counted = f"{self.node_count} nodes, {self.pod_count} pods"
        verdict = "agree" if self.agrees else "DIFFER"
        lines = [f"Cache and API server {verdict}: the cache has {counted}."]
        sections = (*self._differences(), ("pods assumed, not yet confirmed", self.assumed_pods))
        for title, entries in sections:
            if entries:
                lines.append(f"{len(entries)} {title}:")
                lines += [f"  {entry}" for entry in entries[:_SHOWN]]
                if len(entries) > _SHOWN:
                    lines.append(f"  and {len(entries) - _SHOWN} more")
        return "\n".join(lines)


def compare(cache: ClusterCache, nodes: Iterable[Node], pods: Iterable[Pod]) -> Comparison:
    """Differences between the cache and what the API server lists.

    Pods that have no node or are finished occupy nothing, and are left out if they are listed.
    """
    table = cache.table
    known_nodes = {name for name in table.row_of if table.live_row(name) is not None}
    listed_nodes = {node.name for node in nodes}
    listed = {pod.uid: pod for pod in pods if pod.spec.node_name and not pod.is_finished}
    cached = {
        uid: PlacedPod(info.pod.key, uid, table.names[row])
        for row, on_row in enumerate(table.pods)
        for uid, info in on_row.items()
    }
    unlisted = [placed for uid, placed in cached.items() if uid not in listed]
    return Comparison(
        node_count=len(known_nodes),
        pod_count=len(cached),
        missing_nodes=tuple(sorted(listed_nodes - known_nodes)),
        extra_nodes=tuple(sorted(known_nodes - listed_nodes)),
        missing_pods=_sorted(
            PlacedPod(pod.key, uid, pod.spec.node_name)
            for uid, pod in listed.items()
            if uid not in cached
        ),
        extra_pods=_sorted(placed for placed in unlisted if not cache.is_assumed(placed.uid)),
        misplaced_pods=tuple(
            sorted(
                MisplacedPod(pod.key, uid, pod.spec.node_name, cached[uid].node)
                for uid, pod in listed.items()
                if uid in cached and cached[uid].node != pod.spec.node_name
            )
        ),
        assumed_pods=_sorted(placed for placed in unlisted if cache.is_assumed(placed.uid)),
        drift=tuple(sorted(find_drift(table))),
    )


def find_drift(table: NodeTable) -> Iterator[Drift]:
    """Columns that differ from what their own row's node and pods add up to."""
    names = table.resources.names_by_row()
    for row, pods in enumerate(table.pods):
        # Compiled again: a pod whose compiled form is wrong or out of date is drift as well.
        infos = [compile_pod(info.pod) for info in pods.values()]
        name = table.names[row] or f"row {row}"
        for what, expected, actual in (
            *_of_pods(table, names[row], row, infos),
            *_of_node(table, names[row], row),
        ):
            if expected != actual:
                yield Drift(name, what, expected, actual)


def _of_pods(
    table: NodeTable, names: Iterable[str], row: int, infos: Sequence[PodInfo]
) -> Iterator[tuple[str, int, int]]:
    sums: dict[str, int] = {}
    for info in infos:
        for name, amount in info.held:
            sums[name] = sums.get(name, 0) + amount
    for name in {**dict.fromkeys(names), **sums}:
        yield f"requested {name}", sums.get(name, 0), table.resources.held_on(name, row)
    for place, index, name in ((0, CPU_ROW, CPU), (1, MEMORY_ROW, MEMORY)):
        expected = sum(info.held_non_zero[place] for info in infos)
        yield f"non-zero {name}", expected, table.non_zero_on(index, row)
    yield "pod count", len(infos), int(table.pod_count[row])


def _of_node(table: NodeTable, names: Iterable[str], row: int) -> Iterator[tuple[str, int, int]]:
    node = table.nodes[row]
    if node is None:
        return
    amounts = parse_amounts(node.status.allocatable)
    offers = canonical(amounts)
    for name in {**dict.fromkeys(names), **offers}:
        yield f"allocatable {name}", offers.get(name, 0), table.resources.offered_on(name, row)
    yield "allowed pods", whole_units(amounts.get(PODS, 0)), int(table.allowed_pods[row])


def _sorted(pods: Iterable[PlacedPod]) -> tuple[PlacedPod, ...]:
    return tuple(sorted(pods))
