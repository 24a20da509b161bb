"""Preemption on random over-full clusters: many rows at once say what each says by itself, and
what is said holds: without its victims the pod fits, and no victim could have stayed."""

from __future__ import annotations

from typing import Any
from unittest import mock

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.objects import Container, ContainerPort, Pod, PodStatus, ResourceRequirements
from stowplan.api.selectors import compile_label_set
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework import what_if
from stowplan.framework.candidates import Victims
from stowplan.framework.columns import ColumnCache
from stowplan.framework.cycle import Cycle
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status
from stowplan.framework.what_if import WhatIf
from stowplan.plugins.default_preemption.dry_run import DryRun
from stowplan.plugins.default_preemption.victims import Budget, Budgets
from stowplan.plugins.node_ports import NodePorts
from stowplan.queue.nominator import Nominator
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.examples import examples
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
    began = draw(st.sampled_from([0, 1, 2, 3, None]))
    start = None if began is None else f"2026-01-01T00:00:0{began}Z"
    return make_pod(
        containers=[container],
        node=node,
        labels=draw(st.sampled_from([{}, {"app": "a"}, {"app": "b"}])),
        priority=draw(priority),
        status=PodStatus(start_time=start if node else None),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[ClusterCache, Pod, Nominator, Budgets]:
    cache = ClusterCache()
    nominated = Nominator()
    for name in NODES:
        cache.set_node(make_node(name, cpu=2, pods=draw(st.integers(1, 5))))
        for _ in range(draw(st.integers(0, 5))):
            cache.add_pod(draw(crowded(node=name, priority=st.integers(-2, 3))))
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            nominated.add(draw(crowded(priority=st.integers(0, 3))), name)
    # Some cover the same pods.
    budgets = [
        Budget(compile_label_set({"app": app}), draw(st.integers(-1, 2)), frozenset())
        for app in draw(st.lists(st.sampled_from(["a", "b"]), max_size=3))
    ]
    by_namespace = {"default": budgets} if budgets else {}
    return cache, draw(crowded(priority=st.integers(0, 3))), nominated, by_namespace


def dry_run(
    cache: ClusterCache,
    pod: Pod,
    nominated: Nominator,
    budgets: Budgets,
    *,
    profile: Profile | None = None,
    now: float = NOW,
) -> tuple[DryRun, Cycle]:
    profile = profile or profile_of(*defaults(), NodePorts())
    cycle = Cycle(cache.table, compile_pod(pod), WhatIf(profile, nominated))
    for plugin in profile.at("preFilter"):
        answer = plugin.pre_filter(cycle)
        if isinstance(answer, Status) and answer.is_skip:
            cycle.skip_filter.add(plugin.name)
    return DryRun(cycle, budgets, now), cycle


@examples(300)
@given(cases())
def test_many_rows_at_once_are_each_row_by_itself(
    case: tuple[ClusterCache, Pod, Nominator, Budgets],
) -> None:
    search, cycle = dry_run(*case)
    rows = cycle.table.order.tolist()
    assert search.try_rows(rows) == {row: search.try_row(row) for row in rows}


@examples(200)
@given(cases())
def test_nominees_object_to_many_rows_at_once_as_to_each(
    case: tuple[ClusterCache, Pod, Nominator, Budgets],
) -> None:
    _, cycle = dry_run(*case)
    assert cycle.what_if is not None
    rows = cycle.table.order.tolist()
    with mock.patch.object(what_if, "_FEW_ROWS", 0):
        at_once = cycle.what_if.nominees_object(cycle, rows)
    with mock.patch.object(what_if, "_FEW_ROWS", len(rows)):
        assert cycle.what_if.nominees_object(cycle, rows) == at_once


@examples(200)
@given(cases())
def test_a_candidate_fits_and_spares_whom_it_can(
    case: tuple[ClusterCache, Pod, Nominator, Budgets],
) -> None:
    cache, pod, nominated, budgets = case
    search, cycle = dry_run(cache, pod, nominated, budgets)
    assert cycle.what_if is not None
    for row, outcome in search.try_rows(cycle.table.order.tolist()).items():
        if isinstance(outcome, Victims):
            victims = list(outcome.pods)
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


_places = st.integers(0, 30)
_changes = st.one_of(
    st.sampled_from(NODES)
    .flatmap(lambda name: crowded(node=name, priority=st.integers(-2, 3)))
    .map(lambda pod: ("add", pod)),
    _places.map(lambda place: ("delete", place)),
    st.tuples(_places, st.sampled_from([None, "2026-01-01T00:00:09Z"])).map(
        lambda drawn: ("begin anew", drawn)
    ),
    st.tuples(st.sampled_from(NODES), st.integers(1, 4)).map(lambda drawn: ("set", drawn)),
    st.tuples(st.sampled_from(NODES), crowded(priority=st.integers(0, 3))).map(
        lambda drawn: ("promise", drawn)
    ),
    _places.map(lambda place: ("break promise", place)),
    st.just(("wait", 5e8)),
)


class World:
    """What can change between two searches."""

    def __init__(self, cache: ClusterCache, nominated: Nominator) -> None:
        self.cache = cache
        self.nominated = nominated
        self.promised: list[Pod] = []
        #: Before the pods began, by a clock that is slow.
        self.now = NOW

    def change(self, action: str, what: Any) -> None:
        standing = sorted(self.cache.placements())
        if action == "add":
            self.cache.add_pod(what)
        elif action == "delete" and standing:
            self.cache.remove_pod(standing[what % len(standing)])
        elif action == "begin anew" and standing:
            place, began = what
            pod = self.cache.pod(standing[place % len(standing)])
            assert pod is not None
            self.cache.update_pod(msgspec.structs.replace(pod, status=PodStatus(start_time=began)))
        elif action == "set":
            name, cpu = what
            self.cache.set_node(make_node(name, cpu=cpu, pods=5))
        elif action == "promise":
            name, pod = what
            self.nominated.add(pod, name)
            self.promised.append(pod)
        elif action == "break promise" and self.promised:
            self.nominated.delete(self.promised.pop(what % len(self.promised)))
        elif action == "wait":
            self.now += what


@examples(200)
@given(cases(), st.lists(st.lists(_changes, max_size=3), min_size=3, max_size=8), st.data())
def test_what_rows_said_before_is_what_they_say(
    case: tuple[ClusterCache, Pod, Nominator, Budgets],
    turns: list[list[tuple[str, Any]]],
    data: st.DataObject,
) -> None:
    cache, asker, nominated, budgets = case
    world = World(cache, nominated)
    keeping = profile_of(*defaults(), NodePorts())
    forgetful = profile_of(*defaults(), NodePorts(), columns=ColumnCache(limit_bytes=0))
    rows = cache.table.order.tolist()
    for number, changes in enumerate(turns):
        for action, what in changes:
            world.change(action, what)
        meta = msgspec.structs.replace(asker.metadata, name=f"p{number}", uid=f"u{number}")
        pod = msgspec.structs.replace(asker, metadata=meta)
        if data.draw(st.booleans()):
            nominated.add(pod, data.draw(st.sampled_from(NODES)))
        protected = budgets if data.draw(st.integers(0, 3)) == 0 else {}
        asked = [row for row in rows if data.draw(st.booleans())]
        said = []
        for profile in (keeping, forgetful):
            search, cycle = dry_run(
                cache, pod, nominated, protected, profile=profile, now=world.now
            )
            assert cycle.what_if is not None
            with mock.patch.object(what_if, "_FEW_ROWS", 0):
                beside = cycle.what_if.nominees_object(cycle, asked)
            said.append((search.try_rows(asked), beside))
        assert said[0] == said[1]


def test_the_answers_of_that_test_are_kept() -> None:
    """Else it would prove nothing: the third pod of a kind asks no row that has not changed."""
    cache = ClusterCache()
    for name in NODES:
        cache.set_node(make_node(name, cpu=2))
        cache.add_pod(make_pod(f"on-{name}", node=name, cpu="2"))
    profile = profile_of(*defaults())
    rows = cache.table.order.tolist()
    asked: list[list[int]] = []
    for number in range(4):
        if number == 3:
            cache.add_pod(make_pod("late", node=NODES[2]))
        search, _ = dry_run(
            cache, make_pod(f"p{number}", cpu="1", priority=9), Nominator(), {}, profile=profile
        )
        with mock.patch.object(search, "_outcomes", wraps=search._outcomes) as outcomes:
            found = search.try_rows(rows)
        assert all(isinstance(outcome, Victims) for outcome in found.values())
        asked.append([row for call in outcomes.call_args_list for row in call.args[0]])
    assert asked == [rows, rows, [], [cache.table.row_of[NODES[2]]]]


@given(cases())
def test_an_overlay_is_the_same_after_pods_came_back_and_left_again(
    case: tuple[ClusterCache, Pod, Nominator, Budgets],
) -> None:
    table = case[0].table
    removed = {row: list(table.pods[row].values()) for row in table.live_rows.tolist()}
    overlay = Overlay(table, {}, removed)
    fresh = Overlay(table, {}, {row: list(pods) for row, pods in removed.items()})
    for number in range(max(map(len, removed.values()), default=0)):
        some = {row: pods[number] for row, pods in fresh.removed.items() if number < len(pods)}
        overlay.put_back(some)
        overlay.take_away(some)
    assert (overlay.pod_count == fresh.pod_count).all()
    for row in removed:
        view, expected = NodeView(table, row, overlay), NodeView(table, row, fresh)
        for name in ("cpu", "memory", "example.com/gpu"):
            assert view.requested(name) == expected.requested(name)
        assert [view.non_zero(index) for index in (0, 1)] == [
            expected.non_zero(index) for index in (0, 1)
        ]
