"""Runs one plugin on a small cluster, in every form that it has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.registry import in_tree_registry
from stowplan.queue.events import ActionType, ClusterEvent, Hint
from stowplan.testing import pod as make_pod


def made(name: str, args: dict[str, Any] | None = None) -> Plugin:
    return make_plugin(in_tree_registry().get(name), args or {})


def in_place(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> ClusterCache:
    cache = ClusterCache()
    for node in nodes:
        cache.set_node(node)
    for pod in pods:
        cache.add_pod(pod)
    return cache


def asking(node: str = "", /, **requests: str | int) -> Pod:
    """A pod that asks for exactly this."""
    return make_pod(cpu=None, memory=None, requests=requests, node=node)


def run_filter(plugin: Plugin, pod: Pod, cache: ClusterCache) -> dict[str, Status]:
    """The answer for every node, the same from the columns and one by one."""
    cycle = Cycle(cache.table, compile_pod(pod))
    step = FilterStep(plugin)
    column = np.zeros(cache.table.capacity, np.int32)
    step.fill(cycle, slice(None), column)
    answers: dict[str, Status] = {}
    for row in cache.table.order.tolist():
        status = step.status(cycle, int(column[row])) if column[row] else SUCCESS
        assert status == step.status_of_row(cycle, row)
        answers[cache.table.names[row]] = status
    return answers


def run_scores(plugin: Plugin, pod: Pod, cache: ClusterCache) -> list[int] | None:
    """Final scores in the order in which nodes came; None if the plugin skips."""
    table = cache.table
    cycle = Cycle(table, compile_pod(pod))
    prepare = getattr(plugin, "pre_score", None)
    status = prepare(cycle, table.live_rows) if prepare is not None else None
    if status is not None and status.is_skip:
        return None
    columns = np.zeros(table.capacity, np.int64)
    step = ScoreStep(plugin, 1)
    step.fill(cycle, slice(None), columns)
    if hasattr(plugin, "score_columns"):
        per_node = type(plugin.name, (type(plugin),), {"score_columns": None})(plugin.args, None)
        one_by_one = np.zeros(table.capacity, np.int64)
        ScoreStep(per_node, 1).fill(cycle, slice(None), one_by_one)
        rows = table.live_rows
        assert columns[rows].tolist() == one_by_one[rows].tolist()
    return [int(score) for score in step.finish(cycle, columns[table.live_rows])]


def hint(
    plugin: Plugin, resource: str, action: ActionType, pod: Pod, old: object, new: object
) -> Hint | None:
    """What the plugin says of an event; None when it did not register for it."""
    event = ClusterEvent(resource, action)
    for registered in plugin.events() or ():
        if event.matches(registered.event):
            return registered.hint(pod, old, new) if registered.hint is not None else Hint.QUEUE
    return None
