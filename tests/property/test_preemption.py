"""Preemption on random over-full clusters: many rows at once say what each says by itself, and
what is said holds: without its victims the pod fits, and no victim could have stayed."""

from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.objects import Container, ContainerPort, Pod, PodStatus, ResourceRequirements
from stowplan.api.selectors import compile_label_set
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import Overlay
from stowplan.framework import what_if
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import Code, Status
from stowplan.framework.what_if import WhatIf
from stowplan.plugins.default_preemption.choice import Candidate
from stowplan.plugins.default_preemption.dry_run import DryRun
from stowplan.plugins.default_preemption.victims import Budget
from stowplan.plugins.node_ports import NodePorts
from stowplan.queue.nominator import Nominator
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.unit.scheduler.scheduler_kit import defaults, profile_of

NODES = [f"n{number}" for number in range(5)]
NOW = 1e9


@st.composite
def crowded(draw: st.DrawFn, *, node: str = "", priority: st.SearchStrategy[int]) -> Pod:
    ports = draw(st.lists(st.sampled_from([80, 443]), max_size=1))
    container = Container(
        name="main",
        resources=ResourceRequirements(
            requests={"cpu": f"{draw(st.sampled_from([0, 300, 700, 1500]))}m"}
        ),
        ports=tuple(ContainerPort(host_port=port, container_port=port) for port in ports),
    )
    began = draw(st.integers(0, 3))
    return make_pod(
        containers=[container],
        node=node,
        labels=draw(st.sampled_from([{}, {"app": "a"}, {"app": "b"}])),
        priority=draw(priority),
        status=PodStatus(start_time=f"2026-01-01T00:00:0{began}Z" if node else None),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[ClusterCache, Pod, Nominator, list[Budget]]:
    cache = ClusterCache()
    nominated = Nominator()
    for name in NODES:
        cache.set_node(make_node(name, cpu=2, pods=draw(st.integers(1, 5))))
        for _ in range(draw(st.integers(0, 5))):
            cache.add_pod(draw(crowded(node=name, priority=st.integers(-2, 3))))
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            nominated.add(draw(crowded(priority=st.integers(0, 3))), name)
    budgets = [
        Budget("default", compile_label_set({"app": app}), draw(st.integers(-1, 2)), frozenset())
        for app in draw(st.lists(st.sampled_from(["a", "b"]), unique=True))
    ]
    return cache, draw(crowded(priority=st.integers(0, 3))), nominated, budgets


def dry_run(
    cache: ClusterCache, pod: Pod, nominated: Nominator, budgets: Sequence[Budget]
) -> tuple[DryRun, Cycle]:
    profile = profile_of(*defaults(), NodePorts())
    cycle = Cycle(cache.table, compile_pod(pod), WhatIf(profile, nominated))
    for plugin in profile.at("preFilter"):
        answer = plugin.pre_filter(cycle)
        if isinstance(answer, Status) and answer.is_skip:
            cycle.skip_filter.add(plugin.name)
    return DryRun(cycle, budgets, NOW), cycle


@settings(max_examples=300)
@given(cases())
def test_many_rows_at_once_are_each_row_by_itself(
    case: tuple[ClusterCache, Pod, Nominator, list[Budget]],
) -> None:
    search, cycle = dry_run(*case)
    rows = cycle.table.order.tolist()
    assert search.try_rows(rows) == {row: search.try_row(row) for row in rows}


@settings(max_examples=200)
@given(cases())
def test_nominees_object_to_many_rows_at_once_as_to_each(
    case: tuple[ClusterCache, Pod, Nominator, list[Budget]],
) -> None:
    _, cycle = dry_run(*case)
    assert cycle.what_if is not None
    rows = cycle.table.order.tolist()
    with mock.patch.object(what_if, "_FEW_ROWS", 0):
        at_once = cycle.what_if.nominees_object(cycle, rows)
    with mock.patch.object(what_if, "_FEW_ROWS", len(rows)):
        assert cycle.what_if.nominees_object(cycle, rows) == at_once


@settings(max_examples=200)
@given(cases())
def test_a_candidate_fits_and_spares_whom_it_can(
    case: tuple[ClusterCache, Pod, Nominator, list[Budget]],
) -> None:
    cache, pod, nominated, budgets = case
    search, cycle = dry_run(cache, pod, nominated, budgets)
    assert cycle.what_if is not None
    for row, outcome in search.try_rows(cycle.table.order.tolist()).items():
        if isinstance(outcome, Candidate):
            victims = list(outcome.victims)
            assert all(info.pod.priority < pod.priority for info in victims)
            assert cycle.what_if.objection(cycle, row, victims) is None
            for info in victims:
                others = [other for other in victims if other is not info]
                assert cycle.what_if.objection(cycle, row, others) is not None
        elif outcome.code is not Code.ERROR:
            lower = [
                info for info in cycle.table.pods[row].values() if info.pod.priority < pod.priority
            ]
            assert not lower or cycle.what_if.objection(cycle, row, lower) is not None


@given(cases())
def test_an_overlay_is_the_same_after_pods_came_back_and_left_again(
    case: tuple[ClusterCache, Pod, Nominator, list[Budget]],
) -> None:
    table = case[0].table
    removed = {row: list(table.pods[row].values()) for row in table.live_rows.tolist()}
    overlay = Overlay(table, {}, removed)
    fresh = Overlay(table, {}, {row: list(pods) for row, pods in removed.items()})
    for number in range(max(map(len, removed.values()), default=0)):
        some = {row: pods[number] for row, pods in fresh.removed.items() if number < len(pods)}
        overlay.put_back(some)
        overlay.take_away(some)
    assert (overlay.requested == fresh.requested).all()
    assert (overlay.non_zero == fresh.non_zero).all()
    assert (overlay.pod_count == fresh.pod_count).all()
