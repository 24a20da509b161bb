"""Profiles, tables and plugins for the tests of the scheduler layer.

Plugins here are real plugin classes run by the real framework; they record what they were asked
in a list that the test reads, and answer what the test gave them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.columns import ColumnCache
from stowplan.framework.plugin import Plugin, points_of
from stowplan.framework.profile import Profile, make_plugin
from stowplan.plugins.default_binder import DefaultBinder
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_name import NodeName
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision

SCHEDULER = "default-scheduler"
#: The plugins of the default profile that exist, in its order.
DEFAULTS: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodeResourcesFit,
    NodeResourcesBalancedAllocation,
    DefaultBinder,
)
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2}


def profile_of(
    *plugins: Plugin,
    weights: Mapping[str, int] = WEIGHTS,
    percentage: int = 100,
    columns: ColumnCache | None = None,
) -> Profile:
    """A profile of these plugins, each at every point that it has, in this order."""
    points: dict[str, list[tuple[Plugin, int]]] = {}
    for plugin in plugins:
        for point in points_of(type(plugin)):
            points.setdefault(point, []).append((plugin, weights.get(plugin.name, 0)))
    return Profile(SCHEDULER, points, percentage_of_nodes_to_score=percentage, columns=columns)


def defaults(args: Mapping[str, dict[str, Any]] | None = None) -> list[Plugin]:
    """Fresh instances of the default plugins."""
    return [make_plugin(plugin, (args or {}).get(plugin.name, {})) for plugin in DEFAULTS]


def cluster(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> ClusterCache:
    cache = ClusterCache()
    for node in nodes:
        cache.set_node(node)
    for pod in pods:
        cache.add_pod(pod)
    return cache


def run(
    nodes: Iterable[Node] | NodeTable,
    pod: Pod,
    *plugins: Plugin,
    cursor: int = 0,
    nominated: Nominator | None = None,
    **options: Any,
) -> Decision:
    """One decision of a profile of these plugins."""
    table = nodes if isinstance(nodes, NodeTable) else cluster(nodes).table
    profile = profile_of(*plugins, **options)
    return decide(table, compile_pod(pod), profile, cursor=cursor, nominated=nominated)


def plugin(name: str, **methods: Callable[..., Any] | Any) -> Plugin:
    """A plugin with these methods; each is a function without `self`, or a constant answer.

    `filter` and `score` may also map a node's name to the answer for it.
    """
    members: dict[str, Any] = {"name": name}
    for method, answer in methods.items():
        members[method] = _method(method, answer)
    made: Plugin = type(name, (Plugin,), members)()
    return made


def _method(method: str, answer: Any) -> Any:
    if isinstance(answer, Mapping):
        return lambda self, pod, node: answer.get(node.name, 0 if method == "score" else None)
    if method in ("filter", "score"):
        if callable(answer):
            return lambda self, pod, node: answer(pod, node)
        return lambda self, pod, node: answer
    if callable(answer):
        return lambda self, *args: answer(*args)
    return lambda self, *args: answer


def without_place(message: str) -> str:
    """A plugin's error without the file and line that it ends with, which it must have."""
    text, number = re.subn(r" \([^ ()]+\.py:\d+\)$", "", message)
    assert number == 1, message
    return text


def raises(*_: Any) -> Any:
    """What a broken plugin does."""
    raise ValueError("broken on purpose")


def rejecting(*names: str, reason: str = "not here") -> Callable[[Pod, NodeView], str | bool]:
    """A filter that refuses these nodes."""
    return lambda pod, node: reason if node.name in names else True
