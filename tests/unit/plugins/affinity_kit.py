"""Words for affinity between pods, and InterPodAffinity run on a small cluster in both forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stowplan.api.objects import Namespace, ObjectMeta, Pod
from stowplan.api.resources import NAMESPACES
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS, Code, Status
from stowplan.plugins.inter_pod_affinity import InterPodAffinity
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place

Json = dict[str, Any]

AFFINITY = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("node(s) didn't match pod affinity rules",),
    "InterPodAffinity",
)
ANTI = Status(
    Code.UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",), "InterPodAffinity"
)
EXISTING = Status(
    Code.UNSCHEDULABLE,
    ("node(s) didn't satisfy existing pods anti-affinity rules",),
    "InterPodAffinity",
)

WEB = {"app": "web"}
#: Two hosts in zone a, one in zone b, one without labels.
NODES = [
    node("a1", labels={"zone": "a", "host": "a1"}),
    node("a2", labels={"zone": "a", "host": "a2"}),
    node("b1", labels={"zone": "b", "host": "b1"}),
    node("bare"),
]


def cluster(*pods: Pod) -> ClusterCache:
    return in_place(NODES, pods)


def app(name: str, key: str = "zone", **more: Any) -> Json:
    """A term about pods with a label."""
    return {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": key, **more}


def about(*expressions: tuple[str, str, list[str]], key: str = "zone", **more: Any) -> Json:
    """A term with expressions: label, operator, values."""
    selector = [
        {"key": label, "operator": operator, **({"values": values} if values else {})}
        for label, operator, values in expressions
    ]
    return {"labelSelector": {"matchExpressions": selector}, "topologyKey": key, **more}


def wishing(
    *,
    near: Iterable[Json] = (),
    far: Iterable[Json] = (),
    likes: Iterable[tuple[int, Json]] = (),
    dislikes: Iterable[tuple[int, Json]] = (),
    **more: Any,
) -> Pod:
    """A pod with required (near, far) and preferred (likes, dislikes) terms."""
    affinity: Json = {}
    for field, required, weighted in (
        ("podAffinity", near, likes),
        ("podAntiAffinity", far, dislikes),
    ):
        wishes: Json = {}
        if terms := list(required):
            wishes["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if preferred := [{"weight": w, "podAffinityTerm": term} for w, term in weighted]:
            wishes["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        if wishes:
            affinity[field] = wishes
    return pod(affinity=affinity, **more)


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def affinity_plugin(
    cache: ClusterCache | None = None, *known: Namespace, **args: Any
) -> InterPodAffinity:
    cache = cache or ClusterCache()
    for each in known:
        cache.catalog[NAMESPACES].set(each)
    handle = Handle(table=cache.table, catalog=cache.catalog)
    plugin = make_plugin(InterPodAffinity, args, handle)
    assert isinstance(plugin, InterPodAffinity)
    return plugin


def filtered(
    incoming: Pod,
    cache: ClusterCache,
    plugin: InterPodAffinity | None = None,
    overlay: Overlay | None = None,
) -> dict[str, Status] | Status:
    """What PreFilter says, or each node's answer, the same from the column and one by one."""
    plugin = plugin or affinity_plugin(cache)
    table = cache.table
    cycle = Cycle(table, compile_pod(incoming))
    said = plugin.pre_filter(cycle)
    if said is not None:
        return said
    step = FilterStep(plugin)
    column = np.zeros(table.capacity, np.int32)
    step.fill(cycle, table.order, column, overlay)
    answers: dict[str, Status] = {}
    for row in table.order.tolist():
        status = step.status(cycle, int(column[row])) if column[row] else SUCCESS
        assert status == step.status_of_row(cycle, row, overlay)
        answers[table.names[row]] = status
    return answers


def raw_scores(
    incoming: Pod, cache: ClusterCache, plugin: InterPodAffinity | None = None
) -> dict[str, int] | Status:
    """What PreScore says, or each node's raw score, the same in both forms."""
    plugin = plugin or affinity_plugin(cache)
    table = cache.table
    cycle = Cycle(table, compile_pod(incoming))
    said = plugin.pre_score(cycle, table.live_rows)
    if said is not None:
        return said
    step = ScoreStep(plugin, 1)
    column = np.zeros(table.capacity, np.int64)
    step.fill(cycle, table.order, column)
    rows = table.order.tolist()
    assert [step.score_of_row(cycle, row) for row in rows] == column[table.order].tolist()
    return {table.names[row]: int(column[row]) for row in rows}


def normalized(*scores: int) -> list[int]:
    """Raw scores scaled to 0 to 100."""
    cycle = Cycle(ClusterCache().table, compile_pod(pod()))
    step = ScoreStep(affinity_plugin(), 1)
    return [int(score) for score in step.finish(cycle, np.array(scores, np.int64))]
