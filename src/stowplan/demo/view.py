"""One moment of the demo as plain data: all that the screen and the final table show.

Read from the scheduler's own table and queue, and from the chronicle of what the API server said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from stowplan.api.objects import Pod
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, NodeTable
from stowplan.demo.chronicle import Chronicle, Happening, Sighting
from stowplan.demo.cluster import NAMESPACE, ZONE_LABEL
from stowplan.queue.pod import PendingCounts
from stowplan.scheduler.engine import Engine

#: For how long an arrival is news.
NEWS_S: Final = 2.5
_ARRIVALS: Final = 8
#: The taint of every cordoned node; it would repeat the cordon.
_CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class ShownPod:
    pod: str
    is_news: bool


@dataclass(frozen=True, slots=True)
class NodePanel:
    """A node and how full it is: milli-CPU and bytes."""

    name: str
    zone: str
    cpu_used: int
    cpu_total: int
    memory_used: int
    memory_total: int
    pods: int
    is_cordoned: bool = False
    taints: tuple[str, ...] = ()
    #: Other resources, such as `gpu 1/2`.
    extras: tuple[str, ...] = ()
    #: Latest first.
    arrivals: tuple[ShownPod, ...] = ()


@dataclass(frozen=True, slots=True)
class PodPanel:
    """A pod, and its node or the reason why it has none."""

    name: str
    node: str
    status: str
    age_s: float
    attempts: int = 0
    #: How it was decided, or why it waits.
    why: str = ""
    is_critical: bool = False
    stays_pending: str = ""


@dataclass(frozen=True, slots=True)
class DemoView:
    url: str
    seed: int
    elapsed_s: float
    nodes: tuple[NodePanel, ...]
    #: Without a node; those that should have one first.
    pending: tuple[PodPanel, ...]
    #: With a node, by node and name.
    placed: tuple[PodPanel, ...]
    happenings: tuple[Happening, ...]
    placed_total: int
    finished_total: int
    rate: float
    queue: PendingCounts
    kubectl: str = ""
    #: The address of the web console, if it is served.
    console: str = ""


def look(
    engine: Engine,
    chronicle: Chronicle,
    *,
    url: str = "",
    seed: int = 0,
    kubectl: str = "",
    console: str = "",
) -> DemoView:
    """The demo as it is now."""
    now = chronicle.elapsed
    settled = [sighting for sighting in chronicle.pods.values() if not sighting.is_waiting]
    waiting = chronicle.waiting()
    # Decided, but not yet confirmed by the API server: no longer pending.
    bound_soon = [s for s in waiting if engine.cache.node_of(s.pod.uid) is not None]
    placed = [_placed(sighting, now) for sighting in settled]
    placed += [_binding(engine, sighting, now) for sighting in bound_soon]
    table = engine.cache.table
    names = sorted(table.names[row] for row in table.live_rows)
    return DemoView(
        url=url,
        seed=seed,
        elapsed_s=now,
        nodes=tuple(_node(table, name, settled, now) for name in names),
        pending=tuple(_pending(engine, s, now) for s in waiting if s not in bound_soon),
        placed=tuple(sorted(placed, key=lambda pod: (pod.node, _by_number(pod.name)))),
        happenings=tuple(chronicle.happenings),
        placed_total=chronicle.placed,
        finished_total=chronicle.finished,
        rate=chronicle.rate,
        queue=engine.queue.counts,
        kubectl=kubectl,
        console=console,
    )


def _node(table: NodeTable, name: str, settled: list[Sighting], now: float) -> NodePanel:
    row = table.row_of[name]
    node = table.node(row)
    here = [s for s in settled if s.pod.spec.node_name == name and not s.pod.is_finished]
    here.sort(key=lambda sighting: sighting.placed_at or 0.0, reverse=True)
    extras = []
    for resource, total in table.resources.offers_of(row).items():
        if resource not in (CPU, MEMORY, EPHEMERAL_STORAGE):
            used = table.resources.held_on(resource, row)
            extras.append(f"{resource.rpartition('/')[2]} {used}/{total}")
    return NodePanel(
        name=name,
        zone=(node.metadata.labels or {}).get(ZONE_LABEL, ""),
        cpu_used=int(table.requested[CPU_ROW, row]),
        cpu_total=int(table.allocatable[CPU_ROW, row]),
        memory_used=int(table.requested[MEMORY_ROW, row]),
        memory_total=int(table.allocatable[MEMORY_ROW, row]),
        pods=int(table.pod_count[row]),
        is_cordoned=bool(table.unschedulable[row]),
        taints=tuple(
            f"{taint.key}={taint.value}" if taint.value else taint.key
            for taint in node.spec.taints or ()
            if taint.key != _CORDON_TAINT
        ),
        extras=tuple(extras),
        arrivals=tuple(
            ShownPod(_short(s.pod), now - (s.placed_at or 0.0) < NEWS_S) for s in here[:_ARRIVALS]
        ),
    )


def _placed(sighting: Sighting, now: float) -> PodPanel:
    pod = sighting.pod
    return PodPanel(
        name=pod.key,
        node=pod.spec.node_name,
        status=_status(pod),
        age_s=now - sighting.seen_at,
        why=sighting.verdict,
        is_critical=pod.priority > 0,
    )


def _binding(engine: Engine, sighting: Sighting, now: float) -> PodPanel:
    node = engine.cache.node_of(sighting.pod.uid) or ""
    return replace(_placed(sighting, now), node=node, status="Binding")


def _pending(engine: Engine, sighting: Sighting, now: float) -> PodPanel:
    pod = sighting.pod
    queued = engine.queue.get(pod)
    why = sighting.reason
    if queued is not None and queued.is_gated:
        why = queued.gating_message  # says which gate; the API server's condition does not
    return PodPanel(
        name=pod.key,
        node="",
        status="Gated" if queued is not None and queued.is_gated else "Pending",
        age_s=now - sighting.seen_at,
        attempts=queued.attempts if queued is not None else 0,
        why=why,
        is_critical=pod.priority > 0,
        stays_pending=sighting.stays_pending,
    )


def _status(pod: Pod) -> str:
    if pod.is_terminating:
        return "Terminating"
    # A pod that has a node is "Pending" to Kubernetes until it runs; here that means no node.
    return "Starting" if pod.status.phase == "Pending" else pod.status.phase


def _by_number(name: str) -> tuple[str, int, str]:
    """Sorts web-9 before web-10."""
    stem = name.rstrip("0123456789")
    number = name.removeprefix(stem)
    return stem, len(number), number


def _short(pod: Pod) -> str:
    """The pod's name, without the demo's namespace: columns are narrow."""
    return pod.metadata.name if pod.metadata.namespace == NAMESPACE else pod.key
