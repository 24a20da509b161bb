"""DefaultPreemption: who may evict whom, which node is chosen, and what is said if none is."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from stowplan.api.objects import (
    Condition,
    Pod,
    PodStatus,
)
from stowplan.clock import VirtualClock
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import NodeView
from stowplan.errors import ConfigError
from stowplan.framework.candidates import Victims
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import Status, error
from stowplan.framework.what_if import WhatIf
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.plugins.default_preemption.dry_run import DryRun
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod
from tests.unit.plugins.preemption_kit import Crowd, victims
from tests.unit.scheduler.scheduler_kit import defaults, profile_of


def test_the_least_important_pods_that_make_room_have_to_go() -> None:
    crowd = Crowd("n1")
    crowd.stand("important", "n1", "1", priority=50)
    crowd.stand("old", "n1", "1", start="2026-01-01T00:00:01Z")
    crowd.stand("young", "n1", "1", start="2026-01-01T00:00:02Z")
    crowd.stand("large", "n1", "1", priority=7)
    decision = crowd.decide(pod("p", cpu=2, priority=100))
    assert victims(decision) == ["old", "young"]
    assert decision.eviction is not None
    assert decision.eviction.node == decision.nominated_node == "n1"
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_pods_of_the_same_priority_stay() -> None:
    crowd = Crowd("n1", "n2")
    crowd.stand("a", "n1", "4", priority=5)
    crowd.stand("b", "n2", "4", priority=9)
    decision = crowd.decide(pod("p", cpu=1, priority=5))
    assert decision.eviction is None
    assert decision.nominated_node == ""
    assert decision.message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
        "2 No preemption victims found for incoming pod."
    )


def test_a_node_that_no_eviction_helps_is_not_tried() -> None:
    crowd = Crowd("n1")
    crowd.cache.set_node(node("n2", cpu=4, taints=["k:NoSchedule"]))
    crowd.stand("a", "n1", "4")
    crowd.stand("b", "n2", "4")
    decision = crowd.decide(pod("p", cpu=5, priority=5))
    assert decision.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


class Broken(Plugin):
    """Comes after the other filters: it is asked only about nodes that they find good."""

    name = "Broken"

    def filter(self, pod: Pod, node: NodeView) -> Status:
        return error(f"no answer on {node.labels['rack']}")


@pytest.mark.parametrize(
    ("racks", "said"),
    [
        ("a", "no answer on a"),
        ("aa", "no answer on a"),
        ("aba", "[no answer on a, no answer on b]"),
    ],
)
def test_errors_of_the_search_are_each_told_once(racks: str, said: str) -> None:
    crowd = Crowd()
    crowd.handle.rng = Random(2)
    for number, rack in enumerate(racks):
        crowd.cache.set_node(node(f"n{number}", cpu=4, labels={"rack": rack}))
        crowd.stand(f"p{number}", f"n{number}", "4")
    profile = profile_of(*defaults(), Broken(), crowd.plugin)
    wanted = compile_pod(pod("p", cpu=1, priority=5))
    decision = decide(crowd.cache.table, wanted, profile, nominated=crowd.nominated)
    assert decision.eviction is None
    wrapped = said.replace("no answer", 'running "Broken" filter plugin: no answer')
    assert decision.message.endswith(f"Insufficient cpu. preemption: {wrapped}")


def test_a_pod_that_fits_not_even_alone_costs_nobody() -> None:
    crowd = Crowd("n1")
    crowd.stand("equal", "n1", "2", priority=5)
    crowd.stand("lower", "n1", "2")
    decision = crowd.decide(pod("p", cpu=3, priority=5))
    assert decision.eviction is None
    assert decision.message.endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_never_means_never() -> None:
    crowd = Crowd("n1")
    crowd.stand("a", "n1", "4")
    decision = crowd.decide(pod("p", priority=5, preemption_policy="Never"))
    assert decision.eviction is None
    assert decision.nominated_node is None
    assert decision.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


LEAVING = PodStatus(
    conditions=(Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler"),)
)


@pytest.mark.parametrize(
    ("status", "terminating", "waits"),
    [(LEAVING, True, True), (LEAVING, False, False), (PodStatus(), True, False)],
)
def test_while_victims_leave_nobody_else_dies(
    status: PodStatus, terminating: bool, waits: bool
) -> None:
    crowd = Crowd("n1")
    crowd.stand("leaving", "n1", "2", status=status, terminating=terminating)
    crowd.stand("other", "n1", "2")
    waiting = pod("p", cpu=4, priority=5, nominated_node="n1")
    decision = crowd.decide(waiting)
    text = "preemption: not eligible due to a terminating pod on the nominated node."
    assert (text in decision.message) == waits
    assert (decision.eviction is None) == waits
    if waits:
        assert decision.nominated_node is None


class TestChoice:
    """Every rule decides where those before it do not."""

    def test_fewest_violated_budgets(self) -> None:
        crowd = Crowd("n1", "n2")
        crowd.stand("protected", "n1", "4", priority=1, labels={"app": "db"})
        crowd.stand("plain", "n2", "4", priority=2)
        crowd.protect({"app": "db"}, 0)
        assert victims(crowd.decide(pod("p", priority=9))) == ["plain"]

    def test_lowest_of_the_highest_priorities(self) -> None:
        crowd = Crowd("n1", "n2")
        crowd.stand("a", "n1", "4", priority=3)
        crowd.stand("b", "n2", "2", priority=2)
        crowd.stand("c", "n2", "2", priority=2)
        assert victims(crowd.decide(pod("p", cpu=4, priority=9))) == ["b", "c"]

    def test_smallest_sum_of_priorities(self) -> None:
        crowd = Crowd("n1", "n2")
        crowd.stand("a", "n1", "2", priority=3)
        crowd.stand("b", "n1", "2", priority=-2)
        crowd.stand("c", "n2", "2", priority=3)
        crowd.stand("d", "n2", "2", priority=-1)
        assert victims(crowd.decide(pod("p", cpu=4, priority=9))) == ["a", "b"]

    def test_fewer_victims_even_of_negative_priority(self) -> None:
        crowd = Crowd("n1", "n2")
        crowd.stand("a", "n1", "2", priority=-5)
        crowd.stand("b", "n1", "2", priority=-5)
        crowd.stand("c", "n2", "4", priority=-5)
        assert victims(crowd.decide(pod("p", cpu=4))) == ["c"]

    def test_the_shortest_run_is_lost(self) -> None:
        crowd = Crowd("n1", "n2")
        crowd.stand("old", "n1", "4", start="2026-01-01T00:00:00Z")
        crowd.stand("young", "n2", "4", start="2026-03-01T00:00:00Z")
        assert victims(crowd.decide(pod("p", priority=9))) == ["young"]


class TestTies:
    def test_pods_that_began_at_the_same_time_go_from_the_last(self) -> None:
        crowd = Crowd("n1")
        for name in "abcd":
            crowd.stand(name, "n1", "1")
        assert victims(crowd.decide(pod("p", cpu=2, priority=9))) == ["c", "d"]

    def test_pods_that_have_not_begun_go_from_the_first(self) -> None:
        crowd = Crowd("n1")
        for name in "abcd":
            crowd.stand(name, "n1", "1", start=None)
        assert victims(crowd.decide(pod("p", cpu=2, priority=9))) == ["b", "a"]

    def test_protected_pods_that_have_not_begun_are_sorted_twice(self) -> None:
        crowd = Crowd("n1")
        labels = {"b": {"app": "db"}, "c": {"app": "db"}}
        pods = {
            name: crowd.stand(name, "n1", "1", start=None, labels=labels.get(name))
            for name in "abcd"
        }
        crowd.protect({"app": "db"}, 0)
        assert victims(crowd.decide(pod("p", cpu=4, priority=9))) == ["a", "d", "b", "c"]
        for name in "ad":
            crowd.cache.remove_pod(pods[name].uid)
        assert victims(crowd.decide(pod("p", cpu=4, priority=9))) == ["c", "b"]


class TestReplicas:
    """What a row said to the pods before holds only as long as it is so."""

    def victims_of_three(self, crowd: Crowd) -> list[str]:
        found = [victims(crowd.decide(pod(f"p{n}", cpu=2, priority=9))) for n in range(3)]
        assert found == [found[0]] * 3
        return found[0]

    def test_a_pod_that_begins_to_run_later_than_was_known(self) -> None:
        crowd = Crowd("n1")
        first = crowd.stand("first", "n1", start="2023-01-01T00:00:00Z")
        crowd.stand("second", "n1", start="2023-01-01T00:00:01Z")
        assert self.victims_of_three(crowd) == ["second"]
        status = PodStatus(start_time="2023-01-01T00:00:02Z")
        crowd.cache.update_pod(msgspec.structs.replace(first, status=status))
        assert self.victims_of_three(crowd) == ["first"]

    def test_a_budget_that_comes(self) -> None:
        crowd = Crowd("n1")
        crowd.stand("first", "n1", start="2023-01-01T00:00:00Z")
        crowd.stand("second", "n1", start="2023-01-01T00:00:01Z", labels={"app": "db"})
        assert self.victims_of_three(crowd) == ["second"]
        crowd.protect({"app": "db"}, 0)
        assert self.victims_of_three(crowd) == ["first"]

    def test_a_pod_that_has_not_begun_beside_one_that_will_by_its_own_clock(self) -> None:
        crowd = Crowd("n1")
        crowd.stand("ahead", "n1", start="2026-01-01T00:00:00Z")
        crowd.stand("not yet", "n1", start=None)
        assert self.victims_of_three(crowd) == ["ahead"]
        assert isinstance(crowd.handle.clock, VirtualClock)
        crowd.handle.clock.advance(1e9)
        assert self.victims_of_three(crowd) == ["not yet"]

    def test_somebody_who_is_promised_the_room(self) -> None:
        crowd = Crowd("n1", "n2")
        crowd.stand("a", "n1", "4", priority=1)
        crowd.stand("b", "n2", "4", priority=2)
        assert self.victims_of_three(crowd) == ["a"]
        crowd.nominated.add(pod("promised", cpu=3, priority=9), "n1")
        assert self.victims_of_three(crowd) == ["b"]


def test_room_that_is_promised_to_others_is_not_room() -> None:
    crowd = Crowd("n1")
    crowd.stand("a", "n1", "4")
    crowd.nominated.add(pod("promised", cpu=3, priority=9), "n1")
    decision = crowd.decide(pod("p", cpu=2, priority=9))
    assert decision.eviction is None
    assert decision.message.endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_enough_candidates_are_enough() -> None:
    names = [f"n{number}" for number in range(20)]
    crowd = Crowd(*names, minCandidateNodesPercentage=10, minCandidateNodesAbsolute=3)
    for number, name in enumerate(names):
        crowd.stand(f"p{number}", name, "4", priority=number)
    tried = {victims(crowd.decide(pod("p", priority=99)))[0] for _ in range(40)}
    # With all of them tried it would always be p0.
    assert len(tried) > 5


def test_less_than_one_candidate_is_none() -> None:
    crowd = Crowd("n1", "n2", minCandidateNodesPercentage=10, minCandidateNodesAbsolute=0)
    crowd.stand("a", "n1", "4")
    crowd.stand("equal", "n2", "4", priority=9)
    decision = crowd.decide(pod("p", priority=9, cpu=1))
    assert decision.message.endswith(
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_a_pod_is_held_while_its_victims_are_told() -> None:
    crowd = Crowd("n1")
    waiting, first, last = pod("p"), pod("first"), pod("last")
    held = crowd.handle.preempting
    store = {last.key: last}
    held.lookup = store.get
    assert isinstance(crowd.plugin, DefaultPreemption)
    assert crowd.plugin.pre_enqueue(waiting) is None
    held.begin(waiting)
    status = crowd.plugin.pre_enqueue(waiting)
    assert status is not None
    assert status.message == "waiting for the preemption for this pod to be finished"
    assert crowd.plugin.pre_enqueue(first) is None
    held.only_left(waiting, last)
    assert crowd.plugin.pre_enqueue(waiting) is not None
    del store[last.key]
    assert crowd.plugin.pre_enqueue(waiting) is None
    held.end(waiting)
    assert not len(held)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            {"minCandidateNodesAbsolute": -1},
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ),
        (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
            "minCandidateNodesAbsolute",
        ),
    ],
)
def test_arguments_are_checked(args: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Crowd("n1", **args)
    assert message in str(caught.value)


class _Brittle(Plugin):
    """Breaks as long as a certain pod stands on the node."""

    name = "Brittle"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        if any(other.metadata.name == "poison" for other in node.pods):
            raise ValueError("broken on purpose")
        return None


def test_who_makes_a_filter_break_by_coming_back_has_to_go() -> None:
    crowd = Crowd("n1")
    crowd.stand("full", "n1", "2")
    crowd.stand("poison", "n1", "1", priority=1)
    profile = profile_of(*defaults(), _Brittle(), crowd.plugin)
    cycle = Cycle(crowd.cache.table, compile_pod(pod("p", cpu=3, priority=9)), WhatIf(profile))
    (outcome,) = DryRun(cycle, {}, 0.0).try_rows([0]).values()
    assert isinstance(outcome, Victims)
    assert [info.pod.metadata.name for info in outcome.pods] == ["poison", "full"]
