"""Runs PodTopologySpread on a small cluster in both forms, with Services and owners in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.resources import SERVICES
from stowplan.api.workload_objects import SelectingSpec, Service
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.handle import Handle
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import Status
from stowplan.plugins.pod_topology_spread import PodTopologySpread
from stowplan.testing.builders import HOSTNAME_LABEL, ZONE_LABEL

HOST, ZONE = HOSTNAME_LABEL, ZONE_LABEL
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
FOO = {"matchLabels": {"foo": ""}}
REASON = "node(s) didn't match pod topology spread constraints"
#: Verdicts in short.
FITS, SKEWED, LACKS = "fits", "skewed", "lacks the label"


def spread(key: str = ZONE, action: str = HARD, *, skew: int = 1, **more: Any) -> dict[str, Any]:
    """A constraint on pods with the label foo, unless `more` says otherwise."""
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": FOO,
        **more,
    }


def service(name: str, selector: dict[str, str] | None, namespace: str = "default") -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=SelectingSpec(selector=selector)
    )


def plugin_of(cache: ClusterCache, **args: Any) -> Any:
    handle = Handle(table=cache.table, catalog=cache.catalog)
    return make_plugin(PodTopologySpread, args, handle)


def with_services(cache: ClusterCache, *services: Service) -> ClusterCache:
    for each in services:
        cache.catalog[SERVICES].set(each)
    return cache


def started(plugin: Any, pod: Pod, cache: ClusterCache) -> Cycle:
    """A cycle that has passed PreFilter."""
    cycle = Cycle(cache.table, compile_pod(pod))
    assert plugin.pre_filter(cycle) is None
    return cycle


def verdicts(plugin: Any, cycle: Cycle) -> dict[str, str]:
    """Of every node, the same from the columns and one by one."""
    table, step = cycle.table, FilterStep(plugin)
    column = np.zeros(table.capacity, np.int32)
    step.fill(cycle, slice(None), column)
    answers: dict[str, str] = {}
    for row in table.live_rows.tolist():
        status = step.status_of_row(cycle, row)
        assert status == (step.status(cycle, int(column[row])) if column[row] else status)
        assert status.is_success == (column[row] == 0)
        answers[table.names[row]] = _in_short(status)
    return answers


def filtered(pod: Pod, cache: ClusterCache, **args: Any) -> dict[str, str]:
    plugin = plugin_of(cache, **args)
    return verdicts(plugin, started(plugin, pod, cache))


def scored(
    pod: Pod, cache: ClusterCache, feasible: Iterable[str] | None = None, **args: Any
) -> list[int] | None:
    """Final scores of the feasible nodes (all, if not said); None if the plugin skips."""
    table, plugin = cache.table, plugin_of(cache, **args)
    names = list(feasible) if feasible is not None else [table.names[r] for r in table.live_rows]
    rows = np.array([table.row_of[name] for name in names], np.intp)
    cycle = Cycle(table, compile_pod(pod))
    status = plugin.pre_score(cycle, rows)
    if status is not None:
        assert status.is_skip
        return None
    columns = np.zeros(table.capacity, np.int64)
    step = ScoreStep(plugin, 1)
    step.fill(cycle, rows, columns)
    assert columns[rows].tolist() == [step.score_of_row(cycle, row) for row in rows.tolist()]
    return [int(score) for score in step.finish(cycle, columns[rows])]


def _in_short(status: Status) -> str:
    if status.is_success:
        return FITS
    if status.reasons == (REASON,):
        assert status.code.label == "Unschedulable"
        return SKEWED
    assert status.reasons == (f"{REASON} (missing required label)",)
    assert status.code.label == "UnschedulableAndUnresolvable"
    return LACKS
