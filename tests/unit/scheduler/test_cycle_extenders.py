"""Extenders: the cycle asks in the middle of its work and goes on with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from stowplan.api.objects import Node, Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import NodeView
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import Code
from stowplan.scheduler.cycle import decide, decide_steps
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.extender_requests import (
    Answer,
    Failed,
    FilterAnswer,
    FilterRequest,
    PrioritizeAnswer,
    PrioritizeRequest,
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
    preempts: bool = False
    is_ignorable: bool = False
    #: What it fails with, if it does.
    fails: str = ""

    def is_interested(self, pod: Pod) -> bool:
        return self.interested

    def answer(self, request: FilterRequest) -> Answer:
        if self.fails:
            return Failed(self.fails)
        out = {*self.drops, *self.failed, *self.unresolvable}
        kept = [name for name in request.nodes if name not in out]
        return FilterAnswer(kept, self.failed, self.unresolvable)


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
    turn: int = 0,
    percentage: int = 100,
) -> tuple[Decision, list[tuple[str, str, list[str]]]]:
    """The decision, and each request as (kind, extender, node names)."""
    table = cluster(nodes or [node("a"), node("b"), node("c")]).table
    asking = asking or pod()
    profile = profile_of(*plugins, percentage=percentage)
    steps = decide_steps(
        table, compile_pod(asking), profile, cursor=cursor, turn=turn, extenders=extenders
    )
    requests: list[tuple[str, str, list[str]]] = []
    answer: Answer | None = None
    try:
        while True:
            request = next(steps) if answer is None else steps.send(answer)
            assert request.pod is asking
            if isinstance(request, FilterRequest):
                extender = request.extender
                assert isinstance(extender, Extender)
                requests.append(("filter", extender.name, list(request.nodes)))
                answer = extender.answer(request)
            else:
                assert isinstance(request, PrioritizeRequest)
                asked = [each for each in request.extenders if isinstance(each, Extender)]
                requests += [("prioritize", each.name, list(request.nodes)) for each in asked]
                answer = PrioritizeAnswer([None if each.fails else each.scores for each in asked])
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
        "c": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    }, "of c nothing was said, so nobody is evicted there"


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
    assert decision.node in ("a", "c")
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


def test_an_extender_that_fails_fails_the_attempt_in_its_own_words() -> None:
    broken = Extender("one", filters=True, fails="no route")
    decision, requests = play([broken, filtering("two")], *defaults(), cursor=1)
    assert [name for _, name, _ in requests] == ["one"]
    assert (decision.node, decision.status.code) == (None, Code.ERROR)
    assert decision.message == "no route"
    assert decision.cursor == 1, "the search was over"


def test_one_that_is_ignorable_counts_as_if_it_were_not_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = Extender("one", filters=True, fails="no route", is_ignorable=True)
    with caplog.at_level("INFO"):
        decision, requests = play([broken, filtering("two", "a", "b")], *defaults())
    assert requests == [("filter", "one", ["a", "b", "c"]), ("filter", "two", ["a", "b", "c"])]
    assert decision.node == "c"
    (told,) = caplog.records
    assert told.message == "Skipping extender as it returned error and has ignorable flag set"
    assert told.__dict__["kv"] == {"extender": "one", "err": "no route"}


def test_a_failure_about_the_nominated_node_only_is_not_the_end() -> None:
    """Upstream logs it and searches all nodes; there the extender fails for good, or does not."""
    asking = pod(nominated_node="b")
    broken = Extender("one", filters=True, fails="no route")
    decision, requests = play([broken], *defaults(), asking=asking)
    assert requests == [("filter", "one", ["b"]), ("filter", "one", ["a", "b", "c"])]
    assert decision.message == "no route"


def test_a_node_that_nobody_sent_is_an_error() -> None:
    class Liar(Extender):
        def answer(self, request: FilterRequest) -> Answer:
            return FilterAnswer(["a", "z"])

    decision, _ = play([Liar("one", filters=True)], *defaults())
    assert decision.message == (
        'extender "one" claims a filtered node "z" which is not found in the input node list'
    )


def test_what_an_extender_says_of_nodes_it_was_not_asked_about_counts_too() -> None:
    """Upstream takes its word over the plugin's; of nodes that do not exist nothing is told."""
    extender = filtering("gpu", failed={"a": "no gpu", "b": "no gpu", "c": "no gpu", "z": "?"})
    decision, _ = play([extender], *defaults(), nodes=[node("a", cpu=0), node("b"), node("c")])
    assert decision.message == "0/3 nodes are available: 3 no gpu."


def test_the_order_of_an_extenders_answer_is_the_order_of_the_search() -> None:
    class Turning(Extender):
        def answer(self, request: FilterRequest) -> Answer:
            return FilterAnswer([*reversed(request.nodes), request.nodes[0]])

    _, requests = play([Turning("one", filters=True), scoring("two")], *defaults())
    assert requests[1] == ("prioritize", "two", ["c", "b", "a"])


def test_an_extender_that_fails_to_score_has_no_say() -> None:
    broken = Extender("one", scores={"a": 99}, prioritizes=True, fails="no route")
    scorer = plugin("Scorer", score={"a": 1, "b": 2})
    decision, _ = play([broken, scoring("two", c=100)], scorer)
    assert decision.node == "c"
    assert decision.scores is not None
    assert [name for name, _ in decision.scores.by_plugin] == ["Scorer", "two"]


def test_ties_among_nodes_that_extenders_scored_are_drawn() -> None:
    """Upstream's Randomizer: it is given to every node that an extender answered for."""
    scorer = plugin("Scorer", score={"a": 5, "b": 5, "c": 5})

    def winners(*extenders: Extender) -> set[str | None]:
        return {play(extenders, scorer, turn=turn)[0].node for turn in range(40)}

    assert winners() == {"a"}
    assert winners(scoring("one", a=0, b=0, c=0)) == {"a", "b", "c"}
    assert winners(scoring("one", b=0, c=0)) == {"b", "c"}, "those without a number come last"
    assert winners(filtering("one")) == {"a", "b", "c"}, "it has scored all, with nothing"
    assert winners(Extender("one", prioritizes=True, fails="no route")) == {"a"}
    assert winners(Extender("one", filters=True, interested=False)) == {"a"}


def test_absurd_scores_wrap_around_as_in_go() -> None:
    decision, _ = play([scoring("one", a=1 << 63, b=(1 << 63) - 1)], plugin("S", score={"c": 1}))
    assert decision.node == "b"
    assert decision.scores is not None
    assert decision.scores.totals.tolist() == [-(1 << 63), (1 << 63) - 1, 1]


def test_without_extenders_nobody_is_asked() -> None:
    table = cluster([node("a")]).table
    assert decide(table, compile_pod(pod()), profile_of(*defaults())).node == "a"


@pytest.mark.parametrize("copies", [False, True])
def test_whether_prefilter_narrowed_does_not_depend_on_the_identity_of_a_mask(
    copies: bool,
) -> None:
    """A table may replace its arrays at any time; texts must not change with that."""

    class Picky(Plugin):
        name = "Picky"

        def filter(self, pod: Pod, view: NodeView, cycle: Cycle) -> str | bool:
            if copies:
                cycle.table.valid = cycle.table.valid.copy()
            return "not b" if view.name == "b" else True

    asking = pod(nominated_node="b")
    decision, _ = play([filtering("ext", "a", "c")], Picky(), asking=asking)
    assert decision.message == "0/3 nodes are available: 1 not b."


def test_extenders_may_refuse_all_nodes_before_the_one_that_breaks_a_filter() -> None:
    def look(pod: Pod, view: NodeView) -> str | bool:
        if view.name == "n150":
            raise KeyError("rack")
        return "odd" if view.name == "n007" else True

    names = [f"n{number:03}" for number in range(300)]
    full = dict.fromkeys({*names[:101]} - {"n007"}, "full")
    decision, requests = play(
        [filtering("ext", failed=full)],
        plugin("Racks", filter=look),
        nodes=[node(name) for name in names],
        percentage=10,
    )
    assert [len(nodes) for _, _, nodes in requests] == [100]
    assert decision.status.code is Code.UNSCHEDULABLE
    assert decision.message == "0/300 nodes are available: 1 odd, 100 full."
    assert decision.cursor == 101
