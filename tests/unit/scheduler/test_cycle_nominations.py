"""Nominations: the node that is promised to the pod, and the pods that nodes are promised to."""

from __future__ import annotations

import pytest

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import SKIP
from stowplan.queue.nominator import Nominator
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, plugin, run


def three() -> list[Node]:
    return [node("a"), node("b"), node("c")]


# The nominated node


def test_the_nominated_node_is_taken_before_better_ones() -> None:
    best = plugin("Best", score={"a": 100})
    decision = run(three(), pod(nominated_node="c"), *defaults(), best, cursor=2)
    assert decision.node == "c"
    assert decision.cursor == 2, "the search has not begun"
    assert (decision.feasible_nodes, decision.evaluated_nodes) == (1, 1)


@pytest.mark.parametrize("name", ["full", "gone"])
def test_a_nominated_node_that_will_not_do_is_searched_past(name: str) -> None:
    nodes = [node("full", cpu=0), node("b"), node("c")]
    decision = run(nodes, pod(nominated_node=name), *defaults())
    assert decision.node == "b"
    assert decision.evaluated_nodes == 3


def test_a_nominated_node_that_fails_counts_once_in_the_message() -> None:
    nodes = [node("full", cpu=0), node("b", unschedulable=True)]
    decision = run(nodes, pod(nominated_node="full"), *defaults())
    assert decision.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    )


def test_a_nominated_node_outside_the_narrowed_set_is_told_by_its_filters() -> None:
    """Upstream's accident: who refused it is then listed among those who narrowed."""
    nodes = [node("a", unschedulable=True), node("full", cpu=0), node("c")]
    narrow = plugin("Narrow", pre_filter=PreFilterResult(frozenset({"a"})))
    decision = run(nodes, pod(nominated_node="full"), narrow, *defaults())
    assert decision.message == (
        "0/3 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't satisfy plugin(s) [Narrow NodeResourcesFit], "
        "1 node(s) were unschedulable."
    )
    assert decision.cursor == 2, "both counted"


def test_a_nominated_node_that_was_refused_moves_the_cursor_once() -> None:
    nodes = [node("a"), node("full", cpu=0), node("c")]
    asking = pod(nominated_node="full")
    no_scores = [p for p in defaults() if not hasattr(p, "score")]
    fit = plugin("Fit", filter={"full": "full"})
    for cursor, expected in ((0, "a"), (1, "c"), (2, "c")):
        decision = run(nodes, asking, *no_scores, fit, cursor=cursor)
        assert decision.node == expected
    # Searched from "a" on, "full" is the second: seen, and counted once.
    assert run(nodes, asking, *no_scores, fit, cursor=0).evaluated_nodes == 2
    # Searched from "c" on, "a" ends it and "full" is never seen, yet was refused before.
    assert run(nodes, asking, *no_scores, fit, cursor=2).evaluated_nodes == 2


# Nominated pods


def nominations(**pods: Pod) -> Nominator:
    nominator = Nominator()
    for name, other in pods.items():
        nominator.add(other, name)
    return nominator


@pytest.mark.parametrize(("priority", "expected"), [(6, None), (5, None), (4, "a")])
def test_nominated_pods_of_the_same_or_higher_priority_keep_their_room(
    priority: int, expected: str | None
) -> None:
    promised = nominations(a=pod(cpu="3", priority=priority))
    decision = run([node("a", cpu="4")], pod(cpu="2", priority=5), *defaults(), nominated=promised)
    assert decision.node == expected
    if expected is None:
        assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."
        assert decision.unschedulable_plugins == {"NodeResourcesFit"}


def test_a_pod_is_not_in_its_own_way() -> None:
    mine = pod(cpu="3", priority=5)
    assert run([node("a", cpu="4")], mine, *defaults(), nominated=nominations(a=mine)).node == "a"


def test_a_nominated_pod_blocks_the_nominated_node_of_another() -> None:
    promised = nominations(a=pod(cpu="3", priority=9))
    mine = pod(cpu="2", nominated_node="a")
    nodes = [node("a", cpu="4"), node("b", cpu="4")]
    assert run(nodes, mine, *defaults(), nominated=promised).node == "b"


class NeedsCompany(Plugin):
    """Goes only where another pod stands: the second of the two passes must find one there."""

    name = "NeedsCompany"

    def filter(self, pod: Pod, node: NodeView) -> bool | str:
        return True if node.pods else "nobody there"


def test_both_passes_must_succeed() -> None:
    """With the nominated pod there would be company, but it has not come yet."""
    promised = nominations(a=pod(priority=9))
    alone = run([node("a")], pod(), NeedsCompany(), nominated=promised)
    assert alone.message == "0/1 nodes are available: 1 nobody there."
    cache = cluster([node("a")], [pod(node="a")])
    assert run(cache.table, pod(), NeedsCompany(), nominated=promised).node == "a"


class CountsOthers(Plugin):
    """Keeps a count in the cycle that what-if pods change; at most two may be there."""

    name = "CountsOthers"

    class Count:
        def __init__(self, value: int) -> None:
            self.value = value

        def clone(self) -> CountsOthers.Count:
            return CountsOthers.Count(self.value)

    def pre_filter(self, cycle: Cycle) -> None:
        cycle.write(self.Count, self.Count(0))

    def what_if(self, cycle: Cycle, other: PodInfo, row: int, delta: int) -> None:
        cycle.read(self.Count).value += delta

    def filter(self, pod: Pod, node: NodeView, cycle: Cycle) -> bool | str:
        return True if cycle.read(self.Count).value < 2 else "too many promised"


def test_what_if_changes_a_clone_of_the_plugins_notes() -> None:
    promised = Nominator()
    for name in ("a", "a", "b"):
        promised.add(pod(priority=1), name)
    scorer = plugin("Scorer", score=0)
    decision = run(three(), pod(), CountsOthers(), scorer, nominated=promised)
    assert decision.feasible_nodes == 2
    assert decision.cycle.read(CountsOthers.Count).value == 0
    crowded = run([node("a")], pod(), CountsOthers(), nominated=promised)
    assert crowded.message == "0/1 nodes are available: 1 too many promised."


def test_a_nomination_to_a_node_that_does_not_exist_is_nobodys_business() -> None:
    promised = nominations(gone=pod(cpu="3", priority=9))
    assert run([node("a")], pod(), *defaults(), nominated=promised).node == "a"


def test_a_skipping_plugin_is_not_asked_about_nominated_pods() -> None:
    asked: list[str] = []
    heard = plugin("Heard", pre_filter=None, what_if=lambda *_: asked.append("Heard"))
    skips = plugin("Skips", pre_filter=SKIP, what_if=lambda *_: asked.append("Skips"))
    nominator = Nominator()
    nominator.add(pod(priority=5), "a")
    assert run(three(), pod(), heard, skips, nominated=nominator).node is not None
    assert asked == ["Heard"]
