"""The text of a failure, and what a decision keeps for whoever asks later."""

from __future__ import annotations

import pytest

from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.plugin import PostFilterResult, PreFilterResult
from stowplan.framework.score_sheet import NodeScore
from stowplan.framework.status import Code, fit_error, unresolvable, unschedulable
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, plugin, profile_of, run


@pytest.mark.parametrize(
    ("total", "reasons", "text"),
    [
        (12, {"b": 2, "a": 10}, "0/12 nodes are available: 10 a, 2 b."),
        (30, {"a": 9, "b": 10, "c": 11}, "0/30 nodes are available: 10 b, 11 c, 9 a."),
        (2, {"Zebra": 1, "ant": 1}, "0/2 nodes are available: 1 Zebra, 1 ant."),
        (3, {"x": 1, "x y": 1, "x, y": 1}, "0/3 nodes are available: 1 x, 1 x y, 1 x, y."),
        (4, {}, "0/4 nodes are available:"),
    ],
)
def test_reasons_are_sorted_as_text(total: int, reasons: dict[str, int], text: str) -> None:
    assert fit_error(total, reasons) == text


def test_the_message_counts_every_reason_of_every_node() -> None:
    nodes = [
        *(node(f"full{i}", cpu="100m", memory="64Mi", pods=0) for i in range(11)),
        node("cordoned", unschedulable=True),
        node("tainted", taints=["a=b:NoSchedule"]),
        node("tainted-and-small", cpu=0, taints=["a=b:NoExecute"]),
    ]
    decision = run(nodes, pod(cpu="200m"), *defaults())
    assert decision.message == (
        "0/14 nodes are available: 1 node(s) were unschedulable, 11 Insufficient cpu, "
        "11 Insufficient memory, 11 Too many pods, 2 node(s) had untolerated taint(s)."
    )
    assert decision.unschedulable_plugins == {
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
    }
    assert decision.node is None
    assert decision.status.is_rejected


def test_a_pre_filter_rejection_replaces_the_nodes_reasons() -> None:
    broken = plugin("Claims", pre_filter=unresolvable('persistentvolumeclaim "x" not found'))
    decision = run([node("a", cpu=0), node("b")], pod(), broken, *defaults())
    assert decision.message == ('0/2 nodes are available: persistentvolumeclaim "x" not found.')
    assert decision.unschedulable_plugins == {"Claims"}


def test_the_post_filter_text_comes_last_without_a_period() -> None:
    answer = PostFilterResult(unschedulable("preemption: 0/1 nodes are available."))
    room = plugin("Room", post_filter=answer)
    decision = run([node(cpu=0)], pod(), *defaults(), room)
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available."
    )
    gone = plugin("Gone", pre_filter=unresolvable("gone"))
    assert run([node()], pod(), gone, room).message == (
        "0/1 nodes are available: gone. preemption: 0/1 nodes are available."
    )


def test_nodes_that_pre_filter_left_out_are_told_as_absent() -> None:
    only = plugin("Picky", pre_filter=PreFilterResult(frozenset({"a", "nowhere"})))
    decision = run([node("a", cpu=0), node("b"), node("c", cpu=0)], pod(), only, *defaults())
    assert decision.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Picky]."
    )
    assert decision.unschedulable_plugins == {"Picky", "NodeResourcesFit"}


def test_no_named_node_exists() -> None:
    only = plugin("Picky", pre_filter=PreFilterResult(frozenset({"nowhere"})))
    decision = run([node("a"), node("b")], pod(), only, *defaults(), cursor=1)
    assert decision.message == (
        "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [Picky]."
    )
    assert decision.cursor == 1, "no node was looked at"


def test_a_plugin_without_reasons_leaves_the_message_open() -> None:
    silent = plugin("Silent", filter=unschedulable())
    assert run([node()], pod(), silent).message == "0/1 nodes are available:"


def test_without_nodes_there_is_nothing_to_explain() -> None:
    def never(*_: object) -> None:
        raise AssertionError("no plugin is asked when there are no nodes")

    decision = run([], pod(), plugin("Never", pre_filter=never, filter=never, post_filter=never))
    assert decision.message == "no nodes available to schedule pods"
    assert decision.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert decision.unschedulable_plugins == set(), "the queue takes that for an error"
    assert decision.nominated_node == "", "a nomination to a node that is gone ends"


def test_each_rows_answer() -> None:
    cache = cluster([node("a", cpu=0), node("b", unschedulable=True), node("c", cpu="150m")])
    cache.add_pod(pod(node="c", cpu="100m"))
    table = cache.table
    decision = run(table, pod(), *defaults())
    assert decision.diagnosis is not None
    statuses = {
        table.names[row]: decision.diagnosis.status_of(row) for row in table.live_rows.tolist()
    }
    never, now = Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE
    assert {name: (s.code, s.reasons, s.plugin) for name, s in statuses.items()} == {
        "a": (never, ("Insufficient cpu",), "NodeResourcesFit"),
        "b": (never, ("node(s) were unschedulable",), "NodeUnschedulable"),
        "c": (now, ("Insufficient cpu",), "NodeResourcesFit"),
    }


def test_rows_that_filter_never_saw_have_pre_filters_answer() -> None:
    """Preemption asks each node's code: what PreFilter rejected must not look like a success."""
    table = cluster([node("a", cpu=0), node("b")]).table
    row = table.live_row("b")
    assert row is not None
    only = plugin("Picky", pre_filter=PreFilterResult(frozenset({"a"})))
    narrowed = run(table, pod(), only, *defaults()).diagnosis
    assert narrowed is not None
    assert narrowed.status_of(row) == unresolvable("node(s) didn't satisfy plugin(s) [Picky]")
    for rejection in (unschedulable("later"), unresolvable("never")):
        rejected = run(table, pod(), plugin("No", pre_filter=rejection)).diagnosis
        assert rejected is not None
        assert rejected.status_of(row) == rejection.by("No")


def test_a_failure_reads_the_same_after_the_cluster_has_moved_on() -> None:
    """Columns are cached and shared with the table: a kept decision must own what it says."""
    cache = cluster([node("a", cpu=0), node("b", cpu="1")])
    profile = profile_of(*defaults())
    big = compile_pod(pod(cpu="2"))
    decisions = [decide(cache.table, big, profile) for _ in range(3)]
    texts = {decision.message for decision in decisions}
    assert texts == {"0/2 nodes are available: 2 Insufficient cpu."}
    for change in (None, node("b", cpu="4"), node("c", unschedulable=True)):
        if change is None:
            cache.remove_node("a")
        else:
            cache.set_node(change)
        decide(cache.table, big, profile)
        for decision in decisions:
            assert decision.diagnosis is not None
            assert {decision.diagnosis.message()} == texts


def test_the_score_sheet_tells_the_best_nodes_by_plugin() -> None:
    one = plugin("One", score={"a": 10, "b": 50, "c": 50})
    two = plugin("Two", score={"a": 100, "b": 10, "c": 20})
    decision = run([node("a"), node("b"), node("c")], pod(), one, two, weights={"One": 2, "Two": 1})
    assert decision.scores is not None
    assert decision.scores.top(2) == [
        NodeScore("a", 120, {"One": 20, "Two": 100}),
        NodeScore("c", 120, {"One": 100, "Two": 20}),
    ]
    assert decision.node == "a", "it comes first in the heap"
    assert (decision.evaluated_nodes, decision.feasible_nodes) == (3, 3)
