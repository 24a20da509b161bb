"""Column form and per-node form of every in-tree plugin say the same, cached columns too.

Plugins are found in the registry: one that gains a second form is tested from then on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.views import Overlay
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.plugin import Plugin
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS, Status
from stowplan.plugins.registry import IN_TREE
from tests.examples import examples
from tests.property.clusters import (
    GPU,
    NODE_NAMES,
    PAGES,
    STORAGE,
    change_cache,
    clusters,
    nodes,
    pods,
)

_ALL = [{"name": name, "weight": 1} for name in ("cpu", "memory", STORAGE, GPU, PAGES)]
_WEIGHTED = [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}, {"name": GPU}]
_SHAPE = [
    {"utilization": 0, "score": 9},
    {"utilization": 33, "score": 2},
    {"utilization": 100, "score": 7},
]
#: Arguments to try a plugin with, besides none.
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "NodeAffinity": [
        {
            "addedAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "pool", "operator": "Exists"}]},
                        {
                            "matchExpressions": [
                                {"key": "gen", "operator": "Gt", "values": ["5"]},
                                {"key": "disk", "operator": "NotIn", "values": ["a"]},
                            ]
                        },
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 3,
                        "preference": {
                            "matchExpressions": [{"key": "gen", "operator": "DoesNotExist"}]
                        },
                    }
                ],
            }
        },
    ],
    "InterPodAffinity": [{"hardPodAffinityWeight": 70}],
    "NodeResourcesBalancedAllocation": [
        {"resources": _ALL},
        {"resources": [{"name": GPU, "weight": 1}, {"name": "cpu", "weight": 1}]},
    ],
    "NodeResourcesFit": [
        {"scoringStrategy": {"type": "MostAllocated", "resources": _ALL}},
        {"scoringStrategy": {"type": "LeastAllocated", "resources": _WEIGHTED}},
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _WEIGHTED,
                "requestedToCapacityRatio": {"shape": _SHAPE},
            },
            "ignoredResources": [GPU],
        },
    ],
}


def _variants(*methods: str) -> list[tuple[type[Plugin], dict[str, Any]]]:
    return [
        (plugin, args)
        for plugin in IN_TREE
        if all(hasattr(plugin, method) for method in methods)
        for args in [{}, *ARGUMENTS.get(plugin.name, [])]
    ]


FILTERS = _variants("filter", "filter_columns")
SCORES = _variants("score", "score_columns")
#: Each variant in column form and in per-node form.


def _without(plugin: type[Plugin], method: str, args: dict[str, Any]) -> Plugin:
    """The plugin with one of its two forms taken away."""
    return make_plugin(type(plugin.__name__, (plugin,), {method: None}), args)


#: Each variant in column form and in per-node form.
FILTER_STEPS = [
    (FilterStep(_without(p, "filter", args)), FilterStep(_without(p, "filter_columns", args)))
    for p, args in FILTERS
]
SCORE_STEPS = [
    (ScoreStep(_without(p, "score", args), 1), ScoreStep(_without(p, "score_columns", args), 1))
    for p, args in SCORES
]


def _started(cache: ClusterCache, info: PodInfo, plugin: Plugin) -> Cycle | None:
    """A cycle that has passed the plugin's preparing points; None if it skips one."""
    cycle = Cycle(cache.table, info)
    for point, more in (("pre_filter", ()), ("pre_score", (cache.table.live_rows,))):
        prepare = getattr(plugin, point, None)
        if prepare is not None:
            status = prepare(cycle, *more)
            if isinstance(status, Status) and status.is_skip:
                return None
    return cycle


def test_there_are_plugins_with_both_forms() -> None:
    assert {plugin.name for plugin, _ in FILTERS} >= {
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeDeclaredFeatures",
        "NodeResourcesFit",
    }
    assert {plugin.name for plugin, _ in SCORES} >= {
        "TaintToleration",
        "NodeAffinity",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
    }


@examples(80)
@given(cache=clusters(), pod=pods(), chosen=st.sets(st.sampled_from(NODE_NAMES)))
def test_filter_forms_agree(cache: ClusterCache, pod: Pod, chosen: set[str]) -> None:
    table = cache.table
    some = np.array([row for n in chosen if (row := table.live_row(n)) is not None], np.intp)
    for columns, per_node in FILTER_STEPS:
        cycle = _started(cache, compile_pod(pod), columns.plugin)
        if cycle is None:
            continue
        whole = np.full(table.capacity, -1, np.int32)
        columns.fill(cycle, slice(None), whole)
        partly = np.full(table.capacity, -1, np.int32)
        columns.fill(cycle, some, partly)
        assert partly[some].tolist() == whole[some].tolist(), columns.name
        for row in table.live_rows.tolist():
            expected = per_node.status_of_row(cycle, row)
            assert columns.status_of_row(cycle, row) == expected
            verdict_id = int(whole[row])
            assert (columns.status(cycle, verdict_id) if verdict_id else SUCCESS) == expected


@examples(80)
@given(
    cache=clusters(),
    pod=pods(),
    added=st.lists(st.tuples(st.sampled_from(NODE_NAMES), pods()), max_size=3),
    every_second_goes=st.booleans(),
)
def test_filter_forms_agree_on_what_if(
    cache: ClusterCache, pod: Pod, added: list[tuple[str, Pod]], every_second_goes: bool
) -> None:
    table = cache.table
    coming: dict[int, list[PodInfo]] = {}
    for name, other in added:
        row = table.live_row(name)
        if row is not None:
            coming.setdefault(row, []).append(compile_pod(other))
    going = {
        row: list(table.pods[row].values())[::2]
        for row in table.live_rows.tolist()
        if table.pods[row] and every_second_goes
    }
    # Made before the pod's own resources are known to the table, as the cycle may do.
    overlay = Overlay(table, coming, going)
    for columns, per_node in FILTER_STEPS:
        cycle = _started(cache, compile_pod(pod), columns.plugin)
        if cycle is None or not columns.plugin.overlays:
            continue
        everywhere = np.full(table.capacity, -1, np.int32)
        columns.fill(cycle, table.live_rows, everywhere, overlay)
        touched = np.full(table.capacity, -1, np.int32)
        columns.fill(cycle, overlay.rows, touched, overlay)
        assert touched[overlay.rows].tolist() == everywhere[overlay.rows].tolist(), columns.name
        for row in table.live_rows.tolist():
            verdict_id = int(everywhere[row])
            status = columns.status(cycle, verdict_id) if verdict_id else SUCCESS
            assert status == per_node.status_of_row(cycle, row, overlay)


@examples(150)
@given(cache=clusters(), pod=pods())
def test_score_forms_agree(cache: ClusterCache, pod: Pod) -> None:
    table = cache.table
    rows = table.live_rows
    for columns, per_node in SCORE_STEPS:
        cycle = _started(cache, compile_pod(pod), columns.plugin)
        if cycle is None:
            continue
        whole = np.full(table.capacity, -1, np.int64)
        columns.fill(cycle, slice(None), whole)
        live = np.full(table.capacity, -1, np.int64)
        columns.fill(cycle, rows, live)
        expected = np.full(table.capacity, -1, np.int64)
        per_node.fill(cycle, slice(None), expected)
        assert whole[rows].tolist() == expected[rows].tolist(), columns.name
        assert live[rows].tolist() == expected[rows].tolist(), columns.name
        # Raises for a score outside 0 to 100.
        columns.finish(cycle, whole[rows])


_changes = st.one_of(
    nodes().map(lambda node: ("set", node)),
    st.sampled_from(NODE_NAMES).map(lambda name: ("remove", name)),
    pods(standing=True).map(lambda pod: ("add", pod)),
    st.integers(0, 10).map(lambda place: ("delete", place)),
)


@examples(40)
@given(
    cache=clusters(),
    askers=st.lists(pods(), min_size=1, max_size=2),
    changes=st.lists(_changes, max_size=15),
    limit=st.sampled_from([0, 700, 1 << 20]),
)
def test_cached_columns_equal_fresh_ones(
    cache: ClusterCache, askers: list[Pod], changes: list[tuple[str, Any]], limit: int
) -> None:
    table = cache.table
    columns = ColumnCache(limit_bytes=limit)
    plugins = [make_plugin(plugin, {}) for plugin in IN_TREE]
    filters = [step for step in map(FilterStep, plugins) if step.is_cached]
    scores = [step for step in (ScoreStep(plugin, 1) for plugin in plugins) if step.is_cached]
    assert filters
    assert scores
    infos = [compile_pod(pod) for pod in askers]
    for turn, (action, what) in enumerate([("set", cache.table.node(0)), *changes]):
        change_cache(cache, action, what)
        rows = table.live_rows
        for info in (infos[turn % len(infos)], infos[0]):
            for step in filters:
                cycle = _started(cache, info, step.plugin)
                if cycle is not None:
                    kept = columns.verdicts(step, cycle)[rows].tolist()
                    fresh = np.zeros(table.capacity, np.int32)
                    step.fill(cycle, slice(None), fresh)
                    assert kept == fresh[rows].tolist(), step.name
            for score in scores:
                cycle = _started(cache, info, score.plugin)
                if cycle is not None:
                    kept = columns.scores(score, cycle)[rows].tolist()
                    raw = np.zeros(table.capacity, np.int64)
                    score.fill(cycle, slice(None), raw)
                    assert kept == raw[rows].tolist(), score.name
    if limit == 0:
        assert columns.hits == 0
