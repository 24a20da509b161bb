"""DefaultPreemption and PodDisruptionBudgets: protected pods are evicted last."""

from __future__ import annotations

import pytest

from stowplan.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
)
from stowplan.testing import node, pod
from tests.unit.plugins.preemption_kit import Crowd, victims


def test_a_protected_pod_is_spared_before_a_more_important_one() -> None:
    crowd = Crowd("n1")
    crowd.stand("protected", "n1", "2", priority=1, labels={"app": "db"})
    crowd.stand("plain", "n1", "2", priority=2)
    crowd.protect({"app": "db"}, 0)
    assert victims(crowd.decide(pod("p", cpu=2, priority=9))) == ["plain"]


@pytest.mark.parametrize(("allowed", "disrupted"), [(1, ()), (0, ("protected",))])
def test_a_budget_that_has_room_protects_nobody(allowed: int, disrupted: tuple[str, ...]) -> None:
    crowd = Crowd("n1")
    crowd.stand("protected", "n1", "2", priority=1, labels={"app": "db"})
    crowd.stand("plain", "n1", "2", priority=2)
    crowd.protect({"app": "db"}, allowed, *disrupted)
    assert victims(crowd.decide(pod("p", cpu=2, priority=9))) == ["protected"]


class TestOverlappingBudgets:
    """A pod uses up every budget that covers it, not only the first that is violated."""

    def crowd(self, order: str) -> Crowd:
        """`exhausted` covers the first pod of n1; `shared` both, and allows one of them to go."""
        crowd = Crowd("n1", "n2")
        crowd.stand("first", "n1", "2", priority=3, labels={"app": "db", "role": "main"})
        crowd.stand("second", "n1", "2", priority=2, labels={"app": "db"})
        # Only the number of violations speaks for n2.
        crowd.stand("other", "n2", "4", priority=4, labels={"app": "web"})
        crowd.protect({"app": "web"}, 0, name="web")
        budgets: dict[str, tuple[dict[str, str], int]] = {
            "exhausted": ({"role": "main"}, 0),
            "shared": ({"app": "db"}, 1),
        }
        for name in order.split():
            crowd.protect(*budgets[name], name=name)
        return crowd

    @pytest.mark.parametrize("order", ["exhausted shared", "shared exhausted"])
    def test_the_node_with_fewer_violations(self, order: str) -> None:
        assert victims(self.crowd(order).decide(pod("p", cpu=4, priority=9))) == ["other"]

    def test_a_pod_that_one_of_them_has_counted(self) -> None:
        crowd = self.crowd("exhausted")
        crowd.protect({"app": "db"}, 1, "first", name="shared")
        # n1 has one violation as well, and its pods are less important.
        assert victims(crowd.decide(pod("p", cpu=4, priority=9))) == ["first", "second"]


@pytest.mark.parametrize(
    ("selector", "namespace"),
    [
        (None, "default"),
        (LabelSelector(), "default"),
        (LabelSelector(match_labels={}, match_expressions=()), "default"),
        (
            LabelSelector(
                match_labels={"app": "db"},
                match_expressions=(LabelSelectorRequirement(key="app", operator="Like"),),
            ),
            "default",
        ),
        (LabelSelector(match_labels={"app": "db"}), "another"),
    ],
)
def test_budgets_that_cover_no_pod(selector: LabelSelector | None, namespace: str) -> None:
    crowd = Crowd("n1")
    crowd.stand("less", "n1", "2", priority=1, labels={"app": "db"})
    crowd.stand("more", "n1", "2", priority=2)
    crowd.protect(selector, 0, namespace=namespace)
    assert victims(crowd.decide(pod("p", cpu=2, priority=9))) == ["less"]


def test_a_pod_without_labels_has_no_budget() -> None:
    crowd = Crowd("n1")
    crowd.stand("less", "n1", "2", priority=1)
    crowd.stand("more", "n1", "2", priority=2)
    absent = LabelSelectorRequirement(key="app", operator="DoesNotExist")
    crowd.protect(LabelSelector(match_expressions=(absent,)), 0)
    assert victims(crowd.decide(pod("p", cpu=2, priority=9))) == ["less"]


def test_of_nodes_with_violated_budgets_no_more_than_enough_are_candidates() -> None:
    names = [f"n{number}" for number in range(20)]
    crowd = Crowd(*names, minCandidateNodesPercentage=10, minCandidateNodesAbsolute=3)
    for number, name in enumerate(names):
        crowd.stand(f"p{number}", name, "4", priority=number, labels={"app": "db"})
    crowd.protect({"app": "db"}, 0)
    tried = {victims(crowd.decide(pod("p", priority=99)))[0] for _ in range(40)}
    assert len(tried) > 5
    # One without a violation is found wherever the search begins.
    crowd.stand("free", "n20", "4", priority=50)
    crowd.cache.set_node(node("n20", cpu=4))
    tried = {victims(crowd.decide(pod("p", priority=99)))[0] for _ in range(40)}
    assert tried == {"free"}
