"""A profile that disables the point which prepares another point of the same plugin."""

from __future__ import annotations

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Need, Plugin, points_of
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.cycle import decide, judge
from stowplan.scheduler.decision import Decision
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, plugin


class Prepared(Plugin):
    name = "Prepared"
    needs = (Need("filter", "preFilter", "no notes"), Need("score", "preScore", "no sums"))

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.write("notes", True)

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> bool:
        return bool(cycle.read("notes"))

    def pre_score(self, cycle: Cycle, rows: Rows) -> None:
        cycle.write("sums", 7)

    def score(self, pod: Pod, node: NodeView, cycle: Cycle) -> int:
        return int(cycle.read("sums"))


#: Comes first, and accepts nodes whose name begins with g.
Good = plugin("Good", filter=lambda pod, node: node.name.startswith("g"))


def decisions(*names: str, without: str = "") -> list[Decision]:
    """What the cycle says, with and without what it keeps, and what a judge says."""
    table = cluster([node(name) for name in names]).table
    points: dict[str, list[tuple[Plugin, int]]] = {}
    for each in (Good, Prepared()):
        for point in points_of(type(each)):
            if each is Good or point != without:
                points.setdefault(point, []).append((each, 1))
    profile = Profile("default-scheduler", points)
    nominated = Nominator()
    nominated.add(pod("promised", priority=9), names[-1])
    info = compile_pod(pod("p"))
    return [
        decide(table, info, profile),
        decide(table, info, profile),
        decide(table, info, profile, nominated=nominated),
        judge(table, info, profile),
    ]


def test_with_all_points_it_answers() -> None:
    for decision in decisions("good", "great"):
        assert decision.node is not None, decision.message


def test_filter_fails_without_pre_filter() -> None:
    for decision in decisions("bad", "good", without="preFilter"):
        assert decision.status.code is Code.ERROR
        assert decision.message == 'running "Prepared" filter plugin: no notes'


def test_filter_is_not_asked_about_nodes_that_others_refuse() -> None:
    for decision in decisions("bad", "poor", without="preFilter"):
        assert decision.status.code is Code.UNSCHEDULABLE
        assert "no notes" not in decision.message


def test_score_fails_without_pre_score() -> None:
    for decision in decisions("good", "great", "bad", without="preScore"):
        assert decision.status.code is Code.ERROR
        assert decision.message == 'running Score plugins: plugin "Prepared" failed with: no sums'


def test_one_feasible_node_is_not_scored() -> None:
    *decided, judged = decisions("good", "bad", without="preScore")
    assert [decision.node for decision in decided] == ["good"] * 3
    assert judged.status.code is Code.ERROR


@pytest.mark.parametrize("point", ["filter", "score"])
def test_the_point_that_needs_nothing_more_may_be_disabled(point: str) -> None:
    for decision in decisions("good", "great", without=point):
        assert decision.node is not None, decision.message
