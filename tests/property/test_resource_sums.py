"""Resources under any change, with amounts of any size: columns against sums of Python integers.

The forms of the resource plugins must agree on such clusters too, their scores must be in range,
and when all pods are gone the table must be as before they came.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Node, Pod
from stowplan.api.quantity import INT64_MAX
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.compare import find_drift
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep
from stowplan.framework.profile import make_plugin
from stowplan.framework.status import SUCCESS
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples

NAMES = [f"example.com/r{number}" for number in range(40)]
NODES = [f"n{number}" for number in range(5)]
_SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 70, "score": 10}]
_RESOURCES = [{"name": name, "weight": 3} for name in ("cpu", "memory", NAMES[0])]

amounts = st.one_of(
    st.integers(0, 3),
    st.integers(2**62 - 3, 2**62 + 3),
    st.integers(INT64_MAX - 3, INT64_MAX + 3),
    st.just(-1),
    st.just(10**25),
)
_few = st.dictionaries(st.sampled_from(NAMES[:4]), amounts.map(str), max_size=3)
#: Some of few names, or of more than a verdict has bits.
_scalars = st.one_of(
    _few,
    _few,
    st.builds(
        lambda all_of, some: {**dict.fromkeys(NAMES, all_of), **some}, amounts.map(str), _few
    ),
)


@st.composite
def pods(draw: st.DrawFn, on: str = "") -> Pod:
    cpu, memory = draw(st.none() | amounts), draw(st.none() | amounts)
    return make_pod(
        cpu=None if cpu is None else f"{cpu}m",
        memory=None if memory is None else str(memory),
        requests=draw(_scalars),
        node=on,
    )


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    return make_node(
        draw(st.sampled_from(NODES)),
        cpu=f"{draw(amounts)}m",
        memory=str(draw(amounts)),
        resources=draw(_scalars),
        pods=draw(st.integers(0, 4)),
    )


_changes = st.one_of(
    nodes().map(lambda node: ("node", node)),
    st.sampled_from(NODES).map(lambda name: ("node gone", name)),
    st.sampled_from(NODES).flatmap(pods).map(lambda pod: ("pod", pod)),
    st.integers(0, 10).map(lambda place: ("pod gone", place)),
)
changes = st.lists(_changes, max_size=8)


def _apply(cache: ClusterCache, change: tuple[str, Any]) -> None:
    kind, what = change
    placed = sorted(cache.placements())
    if kind == "node":
        cache.set_node(what)
    elif kind == "node gone":
        cache.remove_node(what)
    elif kind == "pod":
        cache.add_pod(what)
    elif placed:
        cache.remove_pod(placed[what % len(placed)])


def _sums(table: NodeTable, row: int, name: str) -> int:
    return sum(dict(info.held).get(name, 0) for info in table.pods[row].values())


@examples(60)
@given(changes)
def test_columns_equal_the_sums_and_go_back_to_the_start(steps: list[tuple[str, Any]]) -> None:
    cache = ClusterCache()
    table = cache.table
    for step in steps:
        _apply(cache, step)
        assert not list(find_drift(table))
        for row in table.row_of.values():
            view = NodeView(table, row)
            for name in ("cpu", "memory", *NAMES[:3]):
                exact = _sums(table, row, name)
                assert table.resources.held_on(name, row) == exact
                assert table.resources.held(name)[row] == min(exact, INT64_MAX)
                assert view.requested(name) == min(exact, INT64_MAX)
                assert view.allocatable(name) == table.resources.offered(name)[row]
    for uid in sorted(cache.placements(), reverse=True):
        cache.remove_pod(uid)
    resources = table.resources
    assert not resources.requested.any()
    assert not table.non_zero.any()
    assert not resources._few_held
    assert not resources._held.large
    assert not table._non_zero.large
    for name in NODES:
        cache.remove_node(name)
    assert not resources.allocatable.any()
    assert (len(resources._index), len(resources._few_offers), len(resources._offers)) == (3, 0, 0)


_FILTERS = [
    FilterStep(make_plugin(NodeResourcesFit, args))
    for args in ({}, {"ignoredResources": NAMES[:1]})
]


def _fit(strategy: str, **more: Any) -> ScoreStep:
    chosen = {"type": strategy, "resources": _RESOURCES, **more}
    return ScoreStep(make_plugin(NodeResourcesFit, {"scoringStrategy": chosen}), 1)


def _balanced(*names: str) -> ScoreStep:
    args = {"resources": [{"name": name, "weight": 1} for name in names]}
    return ScoreStep(make_plugin(NodeResourcesBalancedAllocation, args), 1)


_SCORES = [
    _balanced("cpu", "memory"),
    _balanced("cpu"),
    _balanced("memory", "cpu", NAMES[0]),
    ScoreStep(make_plugin(NodeResourcesFit, {}), 1),
    _fit("LeastAllocated"),
    _fit("MostAllocated"),
    _fit("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": _SHAPE}),
]


@examples(60)
@given(changes, pods(), st.lists(nodes(), min_size=1, max_size=3))
def test_forms_agree_and_scores_are_in_range(
    steps: list[tuple[str, Any]], pod: Pod, last: list[Node]
) -> None:
    cache = ClusterCache()
    for step in (*steps, *(("node", node) for node in last)):
        _apply(cache, step)
    table = cache.table
    rows = table.live_rows
    cycle = Cycle(table, compile_pod(pod))
    for score in _SCORES:
        for asked in (slice(None), rows):
            column = np.zeros(table.capacity, np.int64)
            score.fill(cycle, asked, column)
            one_by_one = [score.score_of_row(cycle, row) for row in rows.tolist()]
            assert score.finish(cycle, column[rows]).tolist() == one_by_one, score.plugin.args
    for filters in _FILTERS:
        verdicts = np.zeros(table.capacity, np.int32)
        filters.fill(cycle, slice(None), verdicts)
        for row in rows.tolist():
            number = int(verdicts[row])
            status = filters.status(cycle, number) if number else SUCCESS
            assert status == filters.status_of_row(cycle, row)
            wanted = dict(compile_pod(pod).request)
            free = {name: NodeView(table, row).allocatable(name) for name in wanted}
            short = {
                f"Insufficient {name}"
                for name, amount in wanted.items()
                if amount and amount > free[name] - _sums(table, row, name)
            }
            if not filters.plugin.args.ignored_resources:
                assert set(status.reasons) - {"Too many pods"} == short


@examples(60)
@given(
    steps=changes,
    pod=pods(),
    last=st.lists(nodes(), min_size=1, max_size=3),
    coming=st.dictionaries(st.sampled_from(NODES), st.lists(pods(), max_size=2)),
)
def test_what_if_equals_pods_that_really_come_and_go(
    steps: list[tuple[str, Any]], pod: Pod, last: list[Node], coming: dict[str, list[Pod]]
) -> None:
    cache = ClusterCache()
    for each in (*steps, *(("node", node) for node in last)):
        _apply(cache, each)
    table = cache.table
    rows = table.live_rows
    going = {row: list(table.pods[row].values())[::2] for row in rows.tolist()}
    added = {
        row: [compile_pod(each) for each in some]
        for name, some in coming.items()
        if (row := table.live_row(name)) is not None
    }
    overlay = Overlay(table, added, {row: list(some) for row, some in going.items()})
    cycle = Cycle(table, compile_pod(pod))
    step = _FILTERS[0]
    verdicts = np.zeros(table.capacity, np.int32)
    step.fill(cycle, rows, verdicts, overlay)
    said = [step.status(cycle, number) if number else SUCCESS for number in verdicts[rows].tolist()]
    one_by_one = [step.status_of_row(cycle, row, overlay) for row in rows.tolist()]
    assert said == one_by_one
    non_zero = [NodeView(table, row, overlay).non_zero(0) for row in rows.tolist()]
    for row, gone in going.items():
        for info in gone:
            table.remove_pod(row, info.uid)
        for info in added.get(row, ()):
            table.add_pod(table.names[row], info)
    really = Cycle(table, compile_pod(pod))
    assert said == [step.status_of_row(really, row) for row in rows.tolist()]
    assert non_zero == table.non_zero[0, rows].tolist()
