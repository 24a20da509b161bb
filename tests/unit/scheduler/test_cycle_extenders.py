"""Extenders: the cycle asks in the middle of its work and goes on with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import Code
from stowplan.scheduler.cycle import decide, decide_steps
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.extender_requests import (
    Answer,
    FilterAnswer,
    FilterRequest,
    PrioritizeAnswer,
    PrioritizeRequest,
    Request,
)
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, plugin, profile_of, rejecting


@dataclass
class Extender:
    """A configured extender, and what its server would answer."""

    name: str = "ext"
    drops: frozenset[str] = frozenset()
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    filters: bool = False
    prioritizes: bool = False
    interested: bool = True

    def is_interested(self, pod: Pod) -> bool:
        return self.interested

    def answer(self, request: Request) -> Answer:
        if isinstance(request, PrioritizeRequest):
            return PrioritizeAnswer(self.scores)
        out = {*self.drops, *self.failed, *self.unresolvable}
        return FilterAnswer(frozenset(request.nodes) - out, self.failed, self.unresolvable)


def filtering(
    name: str = "ext",
    *drops: str,
    failed: dict[str, str] | None = None,
    unresolvable: dict[str, str] | None = None,
) -> Extender:
    return Extender(name, frozenset(drops), failed or {}, unresolvable or {}, filters=True)


def scoring(name: str = "ext", **scores: int) -> Extender:
    return Extender(name, scores=scores, prioritizes=True)


def play(
    extenders: Sequence[Extender],
    *plugins: Plugin,
    nodes: Sequence[Node] = (),
    asking: Pod | None = None,
    cursor: int = 0,
) -> tuple[Decision, list[tuple[str, str, list[str]]]]:
    """The decision, and each request as (kind, extender, node names)."""
    table = cluster(nodes or [node("a"), node("b"), node("c")]).table
    asking = asking or pod()
    profile = profile_of(*plugins)
    steps = decide_steps(table, compile_pod(asking), profile, cursor=cursor, extenders=extenders)
    requests: list[tuple[str, str, list[str]]] = []
    answer: Answer | None = None
    try:
        while True:
            request = next(steps) if answer is None else steps.send(answer)
            assert request.pod is asking
            kind = "filter" if isinstance(request, FilterRequest) else "prioritize"
            extender = request.extender
            assert isinstance(extender, Extender)
            requests.append((kind, extender.name, list(request.nodes)))
            answer = extender.answer(request)
    except StopIteration as finished:
        decision: Decision = finished.value
        return decision, requests


def test_extenders_are_asked_one_after_the_other_about_what_is_left() -> None:
    picky = plugin("Picky", filter=rejecting("c"))
    decision, requests = play(
        [filtering("one", "a"), scoring("two"), filtering("three")], picky, cursor=1
    )
    assert requests == [("filter", "one", ["b", "a"]), ("filter", "three", ["b"])]
    assert decision.node == "b"
    assert decision.feasible_nodes == 1
    assert decision.cursor == 1, "nodes count when they have passed the plugins"


def test_who_is_not_interested_is_not_asked() -> None:
    extender = Extender(filters=True, prioritizes=True, interested=False)
    decision, requests = play([extender], *defaults())
    assert requests == []
    assert decision.node == "a"


def test_nobody_is_asked_about_no_nodes() -> None:
    decision, requests = play(
        [filtering("one", "a", "b", "c"), filtering("two")], plugin("Any", filter=True)
    )
    assert [name for _, name, _ in requests] == ["one"]
    assert decision.node is None
    _, requests = play([filtering()], plugin("No", filter=False))
    assert requests == []


def test_what_extenders_rejected_is_told_and_any_event_brings_it_back() -> None:
    extender = filtering(
        "gpu", "c", failed={"a": "no gpu", "b": "no gpu"}, unresolvable={"b": "never a gpu"}
    )
    decision, _ = play([extender], plugin("Any", filter=True))
    assert decision.message == "0/3 nodes are available: 1 never a gpu, 1 no gpu."
    assert decision.unschedulable_plugins == {"Extender"}
    diagnosis, table = decision.diagnosis, decision.cycle.table
    assert diagnosis is not None
    codes = {table.names[row]: diagnosis.status_of(row).code for row in table.live_rows.tolist()}
    assert codes == {
        "a": Code.UNSCHEDULABLE,
        "b": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "c": Code.UNSCHEDULABLE,
    }


def test_extenders_and_plugins_are_told_together() -> None:
    extender = filtering("gpu", failed={"b": "no gpu", "c": "no gpu"})
    nodes = [node("a", cpu=0), node("b"), node("c")]
    decision, _ = play([extender], *defaults(), nodes=nodes)
    assert decision.message == "0/3 nodes are available: 1 Insufficient cpu, 2 no gpu."
    assert decision.unschedulable_plugins == {"NodeResourcesFit", "Extender"}


def test_scores_of_extenders_are_added() -> None:
    scorer = plugin("Scorer", score={"a": 60, "b": 50})
    decision, requests = play([scoring("one", b=5, c=1), scoring("two", b=10)], scorer)
    assert requests == [
        ("prioritize", "one", ["a", "b", "c"]),
        ("prioritize", "two", ["a", "b", "c"]),
    ]
    assert decision.node == "b"
    assert decision.scores is not None
    assert decision.scores.totals.tolist() == [60, 65, 1]
    assert decision.scores.top(1)[0].by_plugin == {"Scorer": 50, "one": 5, "two": 10}


def test_one_node_is_not_prioritised() -> None:
    decision, requests = play([scoring("one", b=5)], plugin("Picky", filter=rejecting("a", "b")))
    assert requests == []
    assert decision.node == "c"


@pytest.mark.parametrize("interested", [True, False])
@pytest.mark.parametrize("kind", ["filters", "prioritizes"])
def test_with_extenders_one_node_is_not_enough(kind: str, interested: bool) -> None:
    """Without score plugins the first node will do, unless some extender is to have a say."""
    extender = Extender(interested=interested, scores={"c": 1})
    setattr(extender, kind, True)
    decision, _ = play([extender], plugin("Any", filter=True))
    assert decision.feasible_nodes == 3
    assert play([], plugin("Any", filter=True))[0].feasible_nodes == 1


def test_an_extender_may_refuse_the_nominated_node() -> None:
    """Then all others are searched, as if there had been no nomination."""
    asking = pod(nominated_node="b")
    decision, requests = play([filtering("one", "b")], *defaults(), asking=asking)
    assert requests == [("filter", "one", ["b"]), ("filter", "one", ["a", "b", "c"])]
    assert decision.node == "a"
    decision, requests = play([filtering("one", "a")], *defaults(), asking=asking)
    assert requests == [("filter", "one", ["b"])]
    assert decision.node == "b"


def test_a_narrowed_set_and_an_extender() -> None:
    narrow = plugin("Narrow", pre_filter=PreFilterResult(frozenset({"a", "b"})))
    decision, requests = play([filtering("one", failed={"a": "x", "b": "x"})], narrow, *defaults())
    assert requests == [("filter", "one", ["a", "b"])]
    assert decision.message == (
        "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [Narrow], 2 x."
    )


def test_without_extenders_nobody_is_asked() -> None:
    table = cluster([node("a")]).table
    assert decide(table, compile_pod(pod()), profile_of(*defaults())).node == "a"
