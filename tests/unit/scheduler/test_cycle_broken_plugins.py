"""A plugin that raises, or answers nonsense, fails its own pod with its own name, and no more."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.table import Int32Array
from stowplan.cluster.views import NodeView, Overlay
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import RowSet
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import Code, Status, error, unschedulable, wait
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.cycle import decide, judge
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import (
    cluster,
    defaults,
    plugin,
    profile_of,
    raises,
    run,
    without_place,
)

BROKEN = "ValueError: broken on purpose"


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"pre_filter": raises}, f'running PreFilter plugin "Bad": {BROKEN}'),
        (
            {"pre_filter": True},
            'running PreFilter plugin "Bad": answered True; expected None or a Status',
        ),
        ({"filter": raises}, f'running "Bad" filter plugin: {BROKEN}'),
        ({"filter": error("no luck")}, 'running "Bad" filter plugin: no luck'),
        ({"filter": wait("no luck")}, 'running "Bad" filter plugin: no luck'),
        ({"filter": error()}, 'running "Bad" filter plugin: Error'),
        (
            {"filter": 3},
            'running "Bad" filter plugin: answered 3; expected True, False, a reason or a Status',
        ),
        ({"filter_columns": raises}, f'running "Bad" filter plugin: {BROKEN}'),
        ({"pre_score": raises, "score": 1}, f'running PreScore plugin "Bad": {BROKEN}'),
        (
            {"pre_score": unschedulable("no"), "score": 1},
            'running PreScore plugin "Bad": no',
        ),
        (
            {"pre_score": "no", "score": 1},
            "running PreScore plugin \"Bad\": answered 'no'; expected None or a Status",
        ),
        ({"score": raises}, f'running Score plugins: plugin "Bad" failed with: {BROKEN}'),
        (
            {"score": lambda pod, node: None},
            'running Score plugins: plugin "Bad" failed with: answered None for node a; '
            "expected an integer",
        ),
        ({"score_columns": raises}, f'running Score plugins: plugin "Bad" failed with: {BROKEN}'),
        (
            {"score": 1, "normalize": raises},
            f'running Normalize on Score plugins: plugin "Bad" failed with: {BROKEN}',
        ),
        (
            {"score": 1, "normalize": lambda cycle, scores: None},
            'running Normalize on Score plugins: plugin "Bad" failed with: '
            "normalize must answer an array of 2 scores",
        ),
        (
            {"score": 1, "normalize": lambda cycle, scores: scores[:1]},
            'running Normalize on Score plugins: plugin "Bad" failed with: '
            "normalize must answer an array of 2 scores",
        ),
    ],
)
def test_a_broken_plugin_is_named(methods: dict[str, Any], message: str) -> None:
    decision = run([node("a"), node("b")], pod(), *defaults(), plugin("Bad", **methods))
    assert decision.node is None
    assert decision.status.code is Code.ERROR
    # Words of the plugin's own, and errors that it returns, have no place in its code.
    is_words = any(isinstance(each, Status) for each in methods.values())
    told = decision.message if is_words else without_place(decision.message)
    assert told == message
    assert decision.status.message == decision.message
    assert decision.unschedulable_plugins == set(), "nothing but time brings the pod back"
    assert decision.nominated_node == "", "upstream clears the nomination after errors"


def test_a_filter_that_breaks_on_one_node_breaks_the_attempt() -> None:
    def look(pod: Pod, node: NodeView) -> bool:
        if node.name == "b":
            raise KeyError("rack")
        return True

    decision = run([node("a"), node("b")], pod(), *defaults(), plugin("Racks", filter=look))
    assert without_place(decision.message) == "running \"Racks\" filter plugin: KeyError: 'rack'"


def test_a_filter_is_not_asked_about_nodes_that_are_out() -> None:
    def look(pod: Pod, node: NodeView) -> bool:
        if node.name == "b":
            raise KeyError("rack")
        return True

    nodes = [node("a"), node("b", unschedulable=True)]
    assert run(nodes, pod(), *defaults(), plugin("Racks", filter=look)).node == "a"


def test_a_plugin_that_breaks_over_a_nominated_pod_is_named() -> None:
    nominator = Nominator()
    nominator.add(pod(priority=1), "a")
    bad = plugin("Bad", pre_filter=None, what_if=raises)
    decision = run([node("a")], pod(), bad, nominated=nominator)
    assert without_place(decision.message) == f'running AddPod on PreFilter plugin "Bad": {BROKEN}'


def test_of_several_nodes_that_break_a_plugin_the_first_speaks() -> None:
    """Whichever was nominated first, and whether a node is only asked about or searched for."""

    def look(_pod: Pod, view: NodeView) -> bool:
        if view.changes:
            raise KeyError(view.name)
        return True

    nominator = Nominator()
    for name in ("c", "b"):
        nominator.add(pod(priority=1), name)
    table = cluster([node("a"), node("b"), node("c")]).table
    profile = profile_of(*defaults(), plugin("Racks", filter=look))
    info = compile_pod(pod())
    for decision in (
        judge(table, info, profile, nominated=nominator),
        decide(table, info, profile, nominated=nominator),
    ):
        assert without_place(decision.message) == "running \"Racks\" filter plugin: KeyError: 'b'"


def test_a_plugin_that_breaks_on_the_nominated_node_is_named() -> None:
    bad = plugin("Bad", filter=raises)
    decision = run([node("a")], pod(nominated_node="a"), bad)
    assert without_place(decision.message) == f'running "Bad" filter plugin: {BROKEN}'


class _BadColumns(Plugin):
    """Columns that are kept, from a plugin that breaks where its subclass says so."""

    name = "Bad"
    reads = Reads.NODE

    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        out[rows] = 7

    def sign(self, info: PodInfo) -> Hashable:
        return ()


class _GoodColumns(_BadColumns):
    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        out[rows] = 0


class _BadSign(_GoodColumns):
    def sign(self, info: PodInfo) -> Hashable:
        raise ValueError("broken on purpose")


class _UnhashableSign(_GoodColumns):
    def sign(self, info: PodInfo) -> Hashable:
        return [1]  # type: ignore[return-value]  # wrong on purpose


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (
            _BadColumns(),
            "filter_columns writes ids, but nothing says what they mean. Fix: list the statuses in"
            " `verdicts`, or have a method verdict(cycle, verdict_id)",
        ),
        (_BadSign(), BROKEN),
        (_UnhashableSign(), "TypeError: unhashable type: 'list'"),
    ],
)
def test_columns_that_break_name_their_plugin(bad: Plugin, why: str) -> None:
    decision = run([node("a")], pod(), bad)
    assert without_place(decision.message) == f'running "Bad" filter plugin: {why}'


class _BreaksBesideNominees(_GoodColumns):
    """Understands overlays, but for one row; says how many rows it was asked about at a time."""

    overlays = True

    def __init__(self, row: int | None) -> None:
        super().__init__()
        self.row = row
        self.asked: list[int] = []

    def filter_columns(
        self, cycle: Cycle, rows: RowSet, out: Int32Array, overlay: Overlay | None
    ) -> None:
        if overlay is not None:
            touched = overlay.rows.tolist()
            self.asked.append(len(touched))
            if self.row in touched:
                raise ValueError("broken on purpose")
        out[rows] = 0


def test_columns_that_break_beside_one_nominee_are_asked_row_by_row() -> None:
    nominator = Nominator()
    for name in "bcd":
        nominator.add(pod(priority=1), name)
    nodes = [node(name) for name in "abcd"]
    good, bad = _BreaksBesideNominees(None), _BreaksBesideNominees(2)
    scores = plugin("Scores", score=1)  # so that all nodes are looked at
    assert run(nodes, pod(), good, scores, nominated=nominator).node == "a"
    assert good.asked == [3], "all at once"
    decision = run(nodes, pod(), bad, scores, nominated=nominator)
    assert without_place(decision.message) == f'running "Bad" filter plugin: {BROKEN}'
    assert bad.asked[:3] == [3, 1, 1], "all at once, then b, then c, which breaks it"


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [(0, 2), (4, 2), (2, 2), (3, 2)],
)
def test_the_next_search_begins_at_the_node_that_broke_a_filter(cursor: int, expected: int) -> None:
    def look(pod: Pod, node: NodeView) -> bool:
        if node.name == "c":
            raise KeyError("rack")
        return node.name != "b"

    nodes = [node(name) for name in "abcde"]
    decision = run(nodes, pod(), *defaults(), plugin("Racks", filter=look), cursor=cursor)
    assert decision.status.code is Code.ERROR
    assert decision.cursor == expected


def test_a_search_that_ends_before_the_broken_node_does_not_see_it() -> None:
    def look(pod: Pod, node: NodeView) -> bool:
        if node.name == "n150":
            raise KeyError("rack")
        return True

    nodes = [node(f"n{number:03}") for number in range(300)]
    searching = [*defaults(), plugin("Racks", filter=look)]
    decision = run(nodes, pod(), *searching, percentage=10)
    assert (decision.feasible_nodes, decision.cursor) == (100, 100)
    assert decision.node is not None
    later = run(nodes, pod(), *searching, percentage=10, cursor=100)
    assert (later.status.code, later.cursor) == (Code.ERROR, 150)


def test_columns_that_break_leave_the_cursor_alone() -> None:
    nodes = [node(name) for name in "abc"]
    assert run(nodes, pod(), _BadSign(), cursor=1).cursor == 1


def test_a_plugin_that_breaks_only_on_the_nominated_node_does_not_stop_the_search() -> None:
    def look(pod: Pod, node: NodeView) -> bool:
        if node.name == "b" and pod.status.nominated_node_name == "b":
            asked.append(node.name)
            if len(asked) == 1:
                raise KeyError("rack")
        return True

    asked: list[str] = []
    nodes = [node("a"), node("b")]
    decision = run(nodes, pod(nominated_node="b"), *defaults(), plugin("Racks", filter=look))
    assert decision.node == "a"
    assert decision.feasible_nodes == 2


def test_of_several_broken_plugins_one_that_scores_is_named() -> None:
    first = plugin("First", score=1, normalize=raises)
    decision = run([node("a"), node("b")], pod(), first, plugin("Second", score=raises))
    assert (
        without_place(decision.message)
        == f'running Score plugins: plugin "Second" failed with: {BROKEN}'
    )


def test_the_next_pod_is_decided_as_if_nothing_had_been() -> None:
    def look(pod: Pod, node: NodeView) -> bool:
        if pod.metadata.name == "cursed":
            raise ValueError("broken on purpose")
        return True

    profile = profile_of(*defaults(), plugin("Superstitious", filter=look))
    table = cluster([node("a"), node("b")]).table
    names = ("first", "cursed", "last")
    nodes = [decide(table, compile_pod(pod(name)), profile).node for name in names]
    assert nodes == ["a", None, "a"]


def test_a_post_filter_that_breaks_is_told_beside_the_reasons() -> None:
    """The pod is still unschedulable, and the plugins that rejected it still bring it back."""
    decision = run([node(cpu=0)], pod(), *defaults(), plugin("Bad", post_filter=raises))
    assert without_place(decision.message) == (
        f'0/1 nodes are available: 1 Insufficient cpu. running PostFilter plugin "Bad": {BROKEN}'
    )
    assert decision.status.is_rejected
    assert decision.unschedulable_plugins == {"NodeResourcesFit"}
    nonsense = run([node(cpu=0)], pod(), *defaults(), plugin("Bad", post_filter="what?"))
    assert without_place(nonsense.message).endswith(
        "running PostFilter plugin \"Bad\": answered 'what?'; expected None or a Status"
    )
