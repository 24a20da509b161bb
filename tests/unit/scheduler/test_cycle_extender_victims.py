"""Extenders and preemption: they hear who would have to go, and may take nodes or pods back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.candidates import PostFilterSteps, Victims
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Plugin, PostFilterResult
from stowplan.framework.status import SUCCESS, Code, Status
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.scheduler.cycle import decide_steps
from stowplan.scheduler.decision import Decision
from stowplan.scheduler.extender_requests import Answer, Failed, PreemptAnswer, PreemptRequest
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import defaults, profile_of, without_place

Said = Mapping[str, tuple[Sequence[str], int]]
IMPORTANT = pod("important", cpu="4", priority=5)
NOTHING = "preemption: no candidate node for preemption"


@dataclass
class Extender:
    says: Callable[[PreemptRequest], Answer]
    name: str = "ext"
    preempts: bool = True
    interested: bool = True
    is_ignorable: bool = False
    filters: bool = False
    prioritizes: bool = False

    def is_interested(self, pod: Pod) -> bool:
        return self.interested


def saying(said: Said) -> Callable[[PreemptRequest], Answer]:
    return lambda _: PreemptAnswer(said)


def everything(request: PreemptRequest) -> Answer:
    return PreemptAnswer(
        {
            name: ([info.pod.uid for info in victims.pods], victims.violations)
            for name, victims in request.victims.items()
        }
    )


def failing(_: PreemptRequest) -> Answer:
    return Failed("no route")


def crowd() -> ClusterCache:
    """Two full nodes; that of the less important pods is the cheaper one."""
    cache = ClusterCache()
    for name, priority in (("cheap", 0), ("dear", 3)):
        cache.set_node(node(name, cpu=4))
        for number in (1, 2):
            key = f"{name}{number}"
            cache.add_pod(pod(key, uid=key, node=name, cpu="2", priority=priority))
    return cache


def play(
    *extenders: Extender, asking: Plugin | None = None
) -> tuple[Decision, list[dict[str, list[str]]]]:
    """The decision, and whom each extender heard of, by node."""
    cache = crowd()
    handle = Handle(table=cache.table, catalog=cache.catalog, rng=Random(1))
    preempting = asking or DefaultPreemption(handle=handle)
    steps = decide_steps(
        cache.table,
        compile_pod(IMPORTANT),
        profile_of(*defaults(), preempting),
        extenders=extenders,
    )
    heard: list[dict[str, list[str]]] = []
    try:
        request = next(steps)
        while True:
            assert isinstance(request, PreemptRequest)
            heard.append(
                {
                    name: [info.pod.metadata.name for info in victims.pods]
                    for name, victims in request.victims.items()
                }
            )
            assert isinstance(request.extender, Extender)
            request = steps.send(request.extender.says(request))
    except StopIteration as finished:
        decision: Decision = finished.value
        return decision, heard


def evicted(decision: Decision) -> tuple[str, list[str]]:
    assert decision.eviction is not None, decision.message
    assert decision.nominated_node == decision.eviction.node
    return decision.eviction.node, [each.metadata.name for each in decision.eviction.victims]


def test_who_agrees_changes_nothing() -> None:
    decision, (heard,) = play(Extender(everything))
    assert {name: sorted(pods) for name, pods in heard.items()} == {
        "cheap": ["cheap1", "cheap2"],
        "dear": ["dear1", "dear2"],
    }
    node, victims = evicted(decision)
    assert (node, sorted(victims)) == ("cheap", ["cheap1", "cheap2"])


def test_a_node_may_be_taken_off_the_list_and_pods_be_spared() -> None:
    decision, heard = play(Extender(saying({"dear": (["dear2"], 0)})), Extender(everything, "two"))
    assert heard[1] == {"dear": ["dear2"]}, "the next one hears what is left"
    assert evicted(decision) == ("dear", ["dear2"])


def test_violated_budgets_count_as_the_extender_says() -> None:
    said = {"cheap": (["cheap1"], 1), "dear": (["dear1"], 0)}
    assert evicted(play(Extender(saying(said)))[0]) == ("dear", ["dear1"])


def test_nothing_left() -> None:
    decision, heard = play(Extender(saying({})), Extender(everything, "two"))
    assert len(heard) == 1, "of no nodes nobody is asked"
    assert decision.eviction is None
    assert decision.nominated_node is None, "a nomination that the pod has stays"
    assert decision.message == f"0/2 nodes are available: 2 Insufficient cpu. {NOTHING}"


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        (failing, "no route"),
        (saying({"gone": (["cheap1"], 0)}), 'nodeinfo not found for node name "gone"'),
        (
            saying({"cheap": (["stranger"], 0)}),
            "extender: ext claims to preempt pod (UID: &{stranger}) on node: cheap,"
            " but the pod is not found on that node",
        ),
        (saying({"cheap": ([], 0)}), 'expected at least one victim pod on node "cheap"'),
    ],
)
def test_an_answer_that_cannot_be(says: Callable[[PreemptRequest], Answer], problem: str) -> None:
    decision, _ = play(Extender(says))
    assert decision.eviction is None
    assert decision.message.endswith(f"Insufficient cpu. preemption: {problem}")
    assert decision.status.code is Code.UNSCHEDULABLE, "why it does not fit is still the reason"


@pytest.mark.parametrize("says", [failing, saying({"cheap": (["stranger"], 0)})])
def test_one_that_is_ignorable_is_skipped(says: Callable[[PreemptRequest], Answer]) -> None:
    decision, _ = play(Extender(says, is_ignorable=True))
    assert evicted(decision)[0] == "cheap"


def test_a_node_without_victims_is_left_out_where_the_extender_is_ignorable() -> None:
    said = {"cheap": ([], 0), "dear": (["dear1"], 0)}
    assert evicted(play(Extender(saying(said), is_ignorable=True))[0]) == ("dear", ["dear1"])


def test_who_has_no_such_verb_or_no_interest_is_not_asked() -> None:
    quiet = Extender(failing, preempts=False)
    uninterested = Extender(failing, interested=False)
    decision, heard = play(quiet, uninterested)
    assert heard == []
    assert evicted(decision)[0] == "cheap"


class Asking(Plugin):
    """Asks twice, and breaks if it is told to."""

    name = "Asking"

    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.breaks = breaks
        self.told: list[object] = []

    def post_filter(self, *_: object) -> PostFilterResult:
        raise AssertionError("with extenders it is asked step by step")

    def post_filter_steps(self, *_: object) -> PostFilterSteps:
        for name in ("cheap", "dear"):
            told = yield {name: Victims(())}
            self.told.append(told)
        if self.breaks:
            raise KeyError("oh")
        return PostFilterResult(SUCCESS, "cheap")


def test_any_plugin_may_ask_as_often_as_it_likes() -> None:
    asking = Asking(breaks=False)
    decision, heard = play(Extender(failing), asking=asking)
    assert heard == [{"cheap": []}, {"dear": []}]
    assert [told.code for told in asking.told if isinstance(told, Status)] == [Code.ERROR] * 2
    assert decision.nominated_node == "cheap"


def test_one_that_breaks_is_told_with_its_name() -> None:
    decision, _ = play(Extender(everything), asking=Asking(breaks=True))
    told = without_place(decision.message)
    assert told.endswith("running PostFilter plugin \"Asking\": KeyError: 'oh'")
