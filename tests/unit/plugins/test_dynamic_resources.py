"""DynamicResources: a guard for pods with claims, kube-scheduler's nothing for all others."""

from __future__ import annotations

from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.status import Code, Status, unresolvable
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place, made, run_filter, run_scores
from tests.unit.scheduler.scheduler_kit import profile_of

UNSUPPORTED = (
    "Stowplan does not support dynamic resource allocation yet, "
    "and the pod asks for it in spec.resourceClaims"
)


def claiming() -> Pod:
    return pod(resource_claims=[{"name": "gpu", "resourceClaimName": "gpu"}])


def decided(asking: Pod, *before: Plugin) -> Decision:
    cache = in_place([node("small", cpu=1), node("large", cpu=8)])
    plugins = [*before, made("NodeResourcesFit"), made("DynamicResources")]
    return decide(cache.table, compile_pod(asking), profile_of(*plugins, made("DefaultBinder")))


def test_a_pod_with_claims_goes_nowhere_and_says_why() -> None:
    decision = decided(claiming())
    assert decision.node is None
    assert decision.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert decision.unschedulable_plugins == {"DynamicResources"}
    assert decision.message == (
        f"0/2 nodes are available: {UNSUPPORTED}. no new claims to deallocate"
    )


def test_filter_alone_rejects_it_as_well() -> None:
    cache = in_place([node("n")])
    answers = run_filter(made("DynamicResources"), claiming(), cache)
    assert answers["n"] == unresolvable(UNSUPPORTED).by("DynamicResources")
    assert run_filter(made("DynamicResources"), pod(), cache)["n"].is_success


def test_without_claims_it_adds_a_score_of_nothing() -> None:
    decision = decided(pod())
    assert decision.node == "large"
    assert decision.scores is not None
    assert [score.by_plugin["DynamicResources"] for score in decision.scores.top(2)] == [0, 0]
    assert run_scores(made("DynamicResources"), pod(), in_place([node(), node()])) == [0, 0]


def test_without_claims_there_is_nothing_to_give_back() -> None:
    decision = decided(pod(cpu=100))
    assert decision.message == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate"
    )
    assert decision.unschedulable_plugins == {"NodeResourcesFit"}


class Refusing(Plugin):
    name = "Refusing"

    def pre_filter(self, cycle: object) -> Status:
        return unresolvable("no")


class Nowhere(Plugin):
    name = "Nowhere"

    def pre_filter(self, cycle: object) -> PreFilterResult:
        return PreFilterResult(frozenset())


def test_upstreams_words_when_it_was_never_asked() -> None:
    assert decided(pod(), Refusing()).message == "0/2 nodes are available: no. not found"
    assert decided(pod(), Nowhere()).message == (
        "0/2 nodes are available: node(s) didn't satisfy plugin Nowhere. not found"
    )


def test_nothing_brings_a_pod_with_claims_back() -> None:
    assert made("DynamicResources").events() == ()
