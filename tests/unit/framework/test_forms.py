"""Filter and Score steps: every answer a plugin may give, and the ones it may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.table import NodeTable
from stowplan.cluster.views import Overlay
from stowplan.errors import ConfigError, PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep, ScoreStep, as_status
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    pending,
    unresolvable,
    unschedulable,
    wait,
)
from stowplan.plugin_failures import describe
from stowplan.testing import node, pod


def cycle(nodes: int = 3) -> Cycle:
    table = NodeTable(capacity=4)
    for index in range(nodes):
        table.set_node(node(f"n{index}"))
    return Cycle(table, compile_pod(pod("p")))


def filtering(answer: Any) -> FilterStep:
    class Answers(Plugin):
        name = "Answers"

        def filter(self, pod: Any, node: Any) -> Any:
            return answer(node) if callable(answer) else answer

    return FilterStep(Answers())


def scoring(answer: Any, **more: Any) -> ScoreStep:
    def score(_self: Plugin, pod: Any, node: Any) -> Any:
        return answer(node) if callable(answer) else answer

    return ScoreStep(type("Answers", (Plugin,), {"name": "Answers", "score": score, **more})(), 1)


# Filter, per node


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, SUCCESS),
        (True, SUCCESS),
        (np.True_, SUCCESS),
        (SUCCESS, SUCCESS),
        (False, unschedulable("node(s) didn't satisfy plugin Answers")),
        (np.False_, unschedulable("node(s) didn't satisfy plugin Answers")),
        ("too far", unschedulable("too far")),
        (unschedulable("a", "b"), unschedulable("a", "b")),
        (unresolvable("never"), unresolvable("never")),
        (pending("later"), pending("later")),
        (unschedulable("x").by("Somebody"), unschedulable("x").by("Somebody")),
    ],
)
def test_answers_of_a_filter(answer: Any, expected: Status) -> None:
    status = filtering(answer).status_of_row(cycle(), 1)
    assert status == (expected if expected.is_success else expected.by("Answers"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("broken"), "broken"),
        (SKIP, "Skip"),
        (wait("no"), "no"),
        (3, "answered 3; expected True, False, a reason or a Status"),
        ([], "answered [];"),
    ],
)
def test_forbidden_answers_of_a_filter(answer: Any, message: str) -> None:
    with pytest.raises(PluginError) as caught:
        filtering(answer).status_of_row(cycle(), 1)
    assert str(caught.value).startswith('running "Answers" filter plugin: ')
    assert message in str(caught.value)
    assert (caught.value.plugin, caught.value.point) == ("Answers", "Filter")


def test_raising_filter_names_the_plugin_and_the_problem() -> None:
    def answer(node: Any) -> bool:
        return bool(node.labels["disk"])

    with pytest.raises(PluginError, match='running "Answers" filter plugin: KeyError: ') as caught:
        filtering(answer).fill(cycle(), slice(None), np.zeros(4, np.int32))
    assert isinstance(caught.value.__cause__, KeyError)


def test_per_node_filter_fills_a_column_of_its_distinct_answers() -> None:
    step, run = filtering(lambda node: {"n0": True, "n1": "full", "n2": "full"}[node.name]), cycle()
    out = np.full(4, 9, np.int32)
    step.fill(run, slice(None), out)
    assert out.tolist() == [0, 1, 1, 9], "a row without a node is not asked about"
    assert step.status(run, 1) == unschedulable("full").by("Answers")
    assert not step.is_cached


def test_per_node_filter_is_asked_about_the_given_rows_only() -> None:
    asked: list[str] = []
    step = filtering(lambda node: asked.append(node.name))
    step.fill(cycle(), np.array([2, 0]), np.zeros(4, np.int32))
    assert asked == ["n2", "n0"]


def test_per_node_filter_sees_the_overlay() -> None:
    run = cycle()
    step = filtering(lambda node: node.pod_count == 0)
    overlay = Overlay(run.table, {1: [compile_pod(pod("other"))]})
    assert step.status_of_row(run, 1).is_success
    assert not step.status_of_row(run, 1, overlay).is_success


# How many arguments


def test_the_cycle_is_handed_over_when_there_is_room_for_it() -> None:
    class Two(Plugin):
        name = "Two"

        def filter(self, pod: Any, node: Any) -> Any:
            return True

        def score(self, pod: Any, node: Any, *, factor: int = 2) -> int:
            return factor

    class Three(Plugin):
        name = "Three"

        def filter(self, pod: Any, node: Any, cycle: Any = None) -> Any:
            return isinstance(cycle, Cycle)

        def score(self, pod: Any, node: Any, cycle: Cycle) -> int:
            return int(cycle.read("note"))

    run = cycle()
    run.write("note", 5)
    for plugin, score in ((Two(), 2), (Three(), 5)):
        assert FilterStep(plugin).status_of_row(run, 0).is_success
        out = np.zeros(4, np.int64)
        ScoreStep(plugin, 1).fill(run, slice(None), out)
        assert out.tolist() == [score, score, score, 0]


# Filter, in columns


class InColumns(Plugin):
    name = "InColumns"
    reads = Reads.NODE
    verdicts = (unschedulable("odd"), unresolvable("three"))

    def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
        numbers = np.arange(len(out))
        out[rows] = np.where(numbers == 3, 2, numbers % 2)[rows]


def test_column_filter() -> None:
    step, run = FilterStep(InColumns()), cycle(nodes=4)
    out = np.full(4, 9, np.int32)
    step.fill(run, np.array([1, 2]), out)
    assert out.tolist() == [9, 1, 0, 9]
    step.fill(run, slice(None), out)
    assert out.tolist() == [0, 1, 0, 2]
    assert step.status(run, 2) == unresolvable("three").by("InColumns")
    assert step.is_cached


def test_column_filter_answers_for_one_row() -> None:
    step, run = FilterStep(InColumns()), cycle(nodes=4)
    codes = [step.status_of_row(run, row).code for row in range(4)]
    assert codes == [
        Code.SUCCESS,
        Code.UNSCHEDULABLE,
        Code.SUCCESS,
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ]


def test_raising_column_filter() -> None:
    class Broken(Plugin):
        name = "Broken"

        def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
            raise ZeroDivisionError

    with pytest.raises(PluginError, match='"Broken" filter plugin: ZeroDivisionError'):
        FilterStep(Broken()).fill(cycle(), slice(None), np.zeros(4, np.int32))


def test_verdict_that_means_nothing() -> None:
    told = "filter plugin: filter_columns wrote {}, but `verdicts` has 2. .*test_forms.py:"
    for wrong in (3, -1):
        with pytest.raises(PluginError, match=told.format(wrong)):
            FilterStep(InColumns()).status(cycle(), wrong)


def test_columns_without_verdicts() -> None:
    class Mute(Plugin):
        name = "Mute"

        def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
            out[rows] = 1

    told = "filter_columns writes ids, but nothing says what they mean. Fix: list the statuses in"
    with pytest.raises(PluginError, match=told):
        FilterStep(Mute()).status_of_row(cycle(), 0)


def test_columns_that_are_returned_instead_of_written() -> None:
    class Returns(Plugin):
        name = "Returns"

        def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> Any:
            return np.zeros(len(rows))

        def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> Any:
            return [1 for _ in rows]

    told = r"filter_columns returned ndarray. Fix: write to out\[rows\] instead .*test_forms.py:"
    with pytest.raises(PluginError, match=told):
        FilterStep(Returns()).fill(cycle(), slice(None), np.zeros(4, np.int32))
    with pytest.raises(PluginError, match="score_columns returned list"):
        ScoreStep(Returns(), 1).fill(cycle(), slice(None), np.zeros(4, np.int64))


def test_our_own_errors_name_the_plugin_that_raises_them() -> None:
    class Wrong(Plugin):
        name = "Wrong"

        def filter_columns(self, cycle: Cycle, rows: Any, out: Any, overlay: Any) -> None:
            raise ConfigError("mine", where="there")

        def score_columns(self, cycle: Cycle, rows: Any, out: Any) -> None:
            raise ConfigError("mine", where="there")

    with pytest.raises(
        PluginError, match=r'"Wrong".* ConfigError: there: mine \(.*test_forms.py:\d+\)'
    ):
        FilterStep(Wrong()).fill(cycle(), slice(None), np.zeros(4, np.int32))
    with pytest.raises(
        PluginError, match=r'"Wrong".* ConfigError: there: mine \(.*test_forms.py:\d+\)'
    ):
        ScoreStep(Wrong(), 1).fill(cycle(), slice(None), np.zeros(4, np.int64))


# Score


def test_per_node_score_fills_live_rows() -> None:
    out = np.full(4, -1, np.int64)
    scoring(lambda node: int(node.name[1:]) * 10).fill(cycle(), slice(None), out)
    assert out.tolist() == [0, 10, 20, -1]


@pytest.mark.parametrize("answer", [None, "many", float("nan"), 2**70])
def test_score_that_is_no_integer(answer: Any) -> None:
    with pytest.raises(PluginError, match='running Score plugins: plugin "Answers" failed with: '):
        scoring(answer).fill(cycle(), slice(None), np.zeros(4, np.int64))


@pytest.mark.parametrize("scores", [[0, 100], [50, 50]])
def test_scores_in_range(scores: list[int]) -> None:
    assert scoring(0).finish(cycle(), np.array(scores)).tolist() == scores


@pytest.mark.parametrize(("scores", "wrong"), [([0, 101], 101), ([-1, 3], -1), ([-7, 900], -7)])
def test_scores_out_of_range(scores: list[int], wrong: int) -> None:
    message = f'plugin "Answers" returns an invalid score {wrong}, it should in the range of '
    with pytest.raises(PluginError) as caught:
        scoring(0).finish(cycle(), np.array(scores))
    assert message + "[0, 100] after normalizing" in str(caught.value)


def test_normalized_scores_are_what_counts() -> None:
    def halve(_self: Plugin, cycle: Cycle, scores: Any) -> Any:
        return scores // 2

    step = scoring(0, normalize=halve)
    assert step.finish(cycle(), np.array([200, 10])).tolist() == [100, 5]
    with pytest.raises(PluginError, match="invalid score 101"):
        step.finish(cycle(), np.array([202, 10]))


@pytest.mark.parametrize("answer", [None, [1, 2], np.array([1]), np.zeros((2, 2))])
def test_normalize_must_answer_as_many_scores(answer: Any) -> None:
    step = scoring(0, normalize=lambda _self, cycle, scores: answer)
    with pytest.raises(PluginError, match="normalize must answer an array of 2 scores"):
        step.finish(cycle(), np.array([1, 2]))


def test_raising_normalize() -> None:
    def broken(_self: Plugin, cycle: Cycle, scores: Any) -> Any:
        raise ValueError("no\nscale")

    with pytest.raises(
        PluginError, match=r'running Normalize on .*"Answers" failed with: ValueError: no scale'
    ):
        scoring(0, normalize=broken).finish(cycle(), np.array([1, 2]))


def test_answers_of_other_points() -> None:
    assert as_status(None, "A", "Permit") is SUCCESS
    assert as_status(SKIP, "A", "Permit") is SKIP
    with pytest.raises(PluginError, match="answered True; expected None or a Status"):
        as_status(True, "A", "Permit")


def test_exceptions_in_one_line() -> None:
    assert describe(ValueError("a\n  b")) == "ValueError: a b"
    assert describe(KeyError()) == "KeyError"
