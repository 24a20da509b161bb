"""kube-scheduler's order of doing things, point by point: PreFilter, Filter, Score.

Nominations, PostFilter and extenders have files of their own, as have broken plugins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import Int64Array
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import (
    SKIP,
    Code,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
    wait,
)
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import (
    cluster,
    defaults,
    plugin,
    profile_of,
    rejecting,
    run,
    without_place,
)


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


def three() -> list[Node]:
    return [node("a"), node("b"), node("c")]


# PreFilter


def test_a_plugin_that_skips_in_pre_filter_is_not_asked_to_filter() -> None:
    picky = plugin("Picky", pre_filter=SKIP, filter=False)
    assert run(three(), pod(), picky).node is not None
    awake = plugin("Picky", pre_filter=None, filter=False)
    assert run(three(), pod(), awake).node is None


def test_unschedulable_lets_the_other_pre_filters_run_and_the_last_word_wins() -> None:
    asked: list[str] = []

    def note(cycle: Cycle) -> None:
        asked.append("Third")

    decision = run(
        three(),
        pod(),
        plugin("First", pre_filter=unschedulable("one")),
        plugin("Second", pre_filter=unschedulable("two")),
        plugin("Third", pre_filter=note),
    )
    assert asked == ["Third"]
    assert decision.message == "0/3 nodes are available: two."
    assert decision.unschedulable_plugins == {"Second"}
    assert decision.status.code is Code.UNSCHEDULABLE


def test_unresolvable_ends_pre_filter_at_once() -> None:
    asked: list[str] = []

    def note(cycle: Cycle) -> None:
        asked.append("asked")

    decision = run(
        three(),
        pod(),
        plugin("Narrow", pre_filter=only("a")),
        plugin("Soft", pre_filter=unschedulable("soft")),
        plugin("Hard", pre_filter=unresolvable("hard")),
        plugin("Late", pre_filter=note),
    )
    assert asked == []
    assert decision.message == "0/3 nodes are available: hard."
    assert decision.unschedulable_plugins == {"Hard"}
    assert decision.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_rejection_keeps_the_names_of_those_who_narrowed() -> None:
    decision = run(
        three(),
        pod(),
        plugin("Narrow", pre_filter=only("a")),
        plugin("No", pre_filter=unschedulable("no")),
    )
    assert decision.unschedulable_plugins == {"Narrow", "No"}


@pytest.mark.parametrize("status", [error("it broke"), wait("it broke"), pending("it broke")])
def test_any_other_status_of_pre_filter_is_an_error(status: Status) -> None:
    decision = run(three(), pod(), plugin("Odd", pre_filter=status))
    assert decision.status.code is Code.ERROR
    assert decision.message == 'running PreFilter plugin "Odd": it broke'
    assert decision.unschedulable_plugins == set()


def test_pre_filters_narrow_the_nodes_together() -> None:
    seen: list[str] = []

    def look(pod: Pod, node: NodeView) -> bool:
        seen.append(node.name)
        return True

    decision = run(
        three(),
        pod(),
        plugin("AB", pre_filter=only("a", "b", "elsewhere")),
        plugin("BC", pre_filter=only("b", "c")),
        plugin("All", pre_filter=PreFilterResult()),
        plugin("Look", filter=look),
    )
    assert decision.node == "b"
    assert seen == ["b"]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"X": only()}, "node(s) didn't satisfy plugin X"),
        (
            {"Z": only("a"), "A": only("b"), "Never": only("c")},
            "node(s) didn't satisfy plugin(s) [A Z] simultaneously",
        ),
    ],
)
def test_pre_filters_that_have_no_node_in_common(
    results: dict[str, PreFilterResult], message: str
) -> None:
    plugins = [plugin(name, pre_filter=answer) for name, answer in results.items()]
    decision = run(three(), pod(), plugin("Soft", pre_filter=unschedulable("soft")), *plugins)
    assert decision.message == f"0/3 nodes are available: {message}."
    assert decision.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert decision.unschedulable_plugins == {"A", "Z"} & results.keys() or {"X"}


# Filter


def test_the_first_failure_of_a_node_is_its_answer() -> None:
    asked: list[tuple[str, str]] = []

    def refuse(name: str, *nodes: str) -> Plugin:
        def look(pod: Pod, node: NodeView) -> str | bool:
            asked.append((name, node.name))
            return name if node.name in nodes else True

        return plugin(name, filter=look)

    decision = run(
        three(), pod(), refuse("one", "a"), refuse("two", "a", "b"), refuse("three", "c")
    )
    assert decision.message == "0/3 nodes are available: 1 one, 1 three, 1 two."
    assert asked == [
        *(("one", name) for name in "abc"),
        *(("two", name) for name in "bc"),
        ("three", "c"),
    ]


def test_a_pending_filter_is_remembered_as_pending() -> None:
    decision = run([node()], pod(), plugin("Soon", filter=pending("soon")))
    assert decision.pending_plugins == {"Soon"}
    assert decision.message == "0/1 nodes are available: 1 soon."


def test_the_only_feasible_node_is_taken_unscored() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("one node needs no score")

    scorer = plugin("Scorer", pre_score=never, score=never, normalize=never)
    decision = run(three(), pod(), plugin("Picky", filter=rejecting("a", "c")), scorer)
    assert decision.node == "b"
    assert decision.scores is None
    assert (decision.feasible_nodes, decision.evaluated_nodes) == (1, 3)


# Score


def test_weights_multiply_and_zero_means_one() -> None:
    plugins = [
        plugin("One", score={"a": 30, "b": 10}),
        plugin("Three", score={"b": 5}),
        plugin("Zero", score={"c": 24}),
    ]
    decision = run(three(), pod(), *plugins, weights={"One": 1, "Three": 3, "Zero": 0})
    assert decision.scores is not None
    assert decision.scores.totals.tolist() == [30, 25, 24]
    assert [(name, column.tolist()) for name, column in decision.scores.by_plugin] == [
        ("One", [30, 10, 0]),
        ("Three", [0, 15, 0]),
        ("Zero", [0, 0, 24]),
    ]


def test_scores_are_normalised_over_the_feasible_nodes_only() -> None:
    seen: list[list[int]] = []

    def halve(cycle: Cycle, scores: Int64Array) -> Int64Array:
        seen.append(scores.tolist())
        return scores // 2

    scorer = plugin("Scorer", score={"a": 200, "b": 80, "c": 40}, normalize=halve)
    decision = run(three(), pod(), plugin("Picky", filter=rejecting("a")), scorer)
    assert seen == [[80, 40]]
    assert decision.scores is not None
    assert decision.scores.totals.tolist() == [40, 20]


def test_a_plugin_that_skips_in_pre_score_adds_nothing() -> None:
    skips = plugin("Skips", pre_score=SKIP, score=100)
    decision = run(three(), pod(), skips, plugin("Other", score={"c": 1}))
    assert decision.node == "c"
    assert decision.scores is not None
    assert [name for name, _ in decision.scores.by_plugin] == ["Other"]


def test_pre_score_is_given_the_feasible_rows() -> None:
    seen: list[list[str]] = []

    def look(cycle: Cycle, rows: np.ndarray[Any, Any]) -> None:
        seen.append([cycle.table.names[row] for row in rows])

    picky = plugin("Picky", filter=rejecting("b"), pre_score=look, score=0)
    assert run(three(), pod(), picky, cursor=1).node == "c"
    assert seen == [["c", "a"]]


@pytest.mark.parametrize("score", [-1, 101, 1000])
def test_a_score_out_of_range_is_its_plugins_error(score: int) -> None:
    decision = run(three(), pod(), plugin("Fine", score=100), plugin("Wild", score={"b": score}))
    assert decision.status.code is Code.ERROR
    assert without_place(decision.message) == (
        'applying score defaultWeights on Score plugins: plugin "Wild" returns an invalid score '
        f"{score}, it should in the range of [0, 100] after normalizing"
    )


def test_ties_are_broken_by_the_place_in_the_search() -> None:
    """Of tied maxima the first in the heap's pre-order wins: places 0, 1, 3, 4, 2, 5, 6 of 7."""
    nodes = [node(f"n{i}") for i in range(7)]
    scores = {f"n{i}": 5 for i in (2, 4, 6)}
    scorer = plugin("Scorer", score=scores)
    assert run(nodes, pod(), scorer).node == "n4"
    # Searched from n3 on, n2 is at place 6, n4 at place 1 and n6 at place 3.
    assert run(nodes, pod(), scorer, cursor=3).node == "n4"
    # Searched from n5 on, n6 is at place 1, n2 at 4 and n4 at 6.
    assert run(nodes, pod(), scorer, cursor=5).node == "n6"


# How many nodes, and from where


def test_without_scores_the_first_node_that_fits_will_do() -> None:
    picky = plugin("Picky", filter=rejecting("a"))
    decision = run(three(), pod(), picky)
    assert (decision.node, decision.evaluated_nodes, decision.cursor) == ("b", 2, 2)
    decision = run(three(), pod(), picky, cursor=2)
    assert (decision.node, decision.evaluated_nodes, decision.cursor) == ("c", 2, 1)


@pytest.mark.parametrize(
    ("total", "percentage", "found"),
    [(1000, 0, 420), (1000, 30, 300), (120, 30, 100), (90, 30, 90)],
)
def test_the_search_stops_early_and_goes_on_there(total: int, percentage: int, found: int) -> None:
    nodes = [node(f"n{i}") for i in range(total)]
    table = cluster(nodes).table
    profile = profile_of(*defaults(), percentage=percentage)
    cursor = 0
    for _ in range(4):
        decision = decide(table, compile_pod(pod()), profile, cursor=cursor)
        assert (decision.feasible_nodes, decision.evaluated_nodes) == (found, found)
        assert decision.node == f"n{cursor}", "all are equal: the first of the search wins"
        assert decision.cursor == (cursor + found) % total
        cursor = decision.cursor


def test_nodes_that_do_not_fit_are_passed_over_and_counted() -> None:
    nodes = [node(f"n{i}", unschedulable=i % 3 == 0) for i in range(300)]
    decision = run(nodes, pod(), *defaults(), percentage=30, cursor=1)
    # A hundred that fit, from n1 on: every third does not, and n151 ends it unseen.
    assert (decision.feasible_nodes, decision.evaluated_nodes) == (100, 150)
    assert decision.cursor == 151


def test_sampling_counts_the_narrowed_nodes_and_the_cursor_all() -> None:
    nodes = [node(f"n{i}") for i in range(300)]
    narrow = plugin("Narrow", pre_filter=only(*(f"n{i}" for i in range(0, 300, 2))))
    decision = run(nodes, pod(), narrow, *defaults(), percentage=30, cursor=290)
    assert (decision.feasible_nodes, decision.cursor) == (100, 90)
    assert decision.scores is not None
    names = [decision.scores.table.names[row] for row in decision.scores.rows]
    # The search begins at the 290th of 150 nodes, counted round.
    assert (names[0], names[-1]) == ("n280", "n178")


def test_the_cursor_moves_when_nothing_fits_and_stays_when_pre_filter_rejects() -> None:
    nodes = three()
    assert run(nodes, pod(), plugin("No", filter=False), cursor=1).cursor == 1, "once around"
    narrow = plugin("Narrow", pre_filter=only("a", "b"), filter=False)
    assert run(nodes, pod(), narrow, cursor=2).cursor == 1
    assert run(nodes, pod(), plugin("No", pre_filter=unschedulable()), cursor=2).cursor == 2


def test_a_decision_is_stamped_with_the_table_it_was_made_on() -> None:
    cache = cluster(three())
    before = cache.table.version
    decision = run(cache.table, pod(), *defaults())
    assert decision.table_version == before
    cache.add_pod(pod(node="a"))
    assert run(cache.table, pod(), *defaults()).table_version > before
