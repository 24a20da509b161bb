"""A pod's affinity to other pods, compiled."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.pod_affinity import NO_TERMS, pod_terms, prefers
from stowplan.testing import pod

Json = dict[str, Any]

WEB = {"matchLabels": {"app": "web"}}


def required(*terms: Json) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}


def preferred(*weighted: tuple[int, Json]) -> Json:
    terms = [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def wishing(near: Json | None = None, far: Json | None = None, **more: Any) -> Pod:
    affinity = {"podAffinity": near, "podAntiAffinity": far}
    return pod(affinity={key: value for key, value in affinity.items() if value}, **more)


def test_pods_without_wishes_have_no_terms() -> None:
    assert pod_terms(pod()) is NO_TERMS
    assert pod_terms(pod(affinity={"nodeAffinity": {}})) is NO_TERMS
    assert pod_terms(wishing(required(), preferred())) == NO_TERMS


def test_pods_of_one_template_share_their_terms() -> None:
    one, other = (wishing(required({"labelSelector": WEB, "topologyKey": "k"})) for _ in range(2))
    assert one.uid != other.uid
    assert pod_terms(one) is pod_terms(other)
    elsewhere = wishing(required({"labelSelector": WEB, "topologyKey": "k"}), namespace="prod")
    assert pod_terms(elsewhere) != pod_terms(one)


def test_anti_affinity_has_weights_below_zero() -> None:
    term = {"labelSelector": WEB, "topologyKey": "k"}
    terms = pod_terms(wishing(preferred((3, term)), preferred((5, term), (7, term))))
    assert [weight for weight, _ in terms.preferred] == [3, -5, -7]
    assert len({term for _, term in terms.preferred}) == 1


@pytest.mark.parametrize(
    ("more", "matched"),
    [
        ({}, {"own"}),
        ({"namespaces": []}, {"own"}),
        ({"namespaces": ["prod"]}, {"prod"}),
        ({"namespaces": ["own", "prod"]}, {"own", "prod"}),
        ({"namespaceSelector": {}}, {"own", "prod", "bare"}),
        ({"namespaceSelector": {"matchLabels": {"stage": "prod"}}}, {"prod"}),
        (
            {"namespaces": ["bare"], "namespaceSelector": {"matchLabels": {"stage": "prod"}}},
            {"prod", "bare"},
        ),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]
                }
            },
            {"own", "bare"},
        ),
    ],
)
def test_namespaces_of_a_term(more: Json, matched: set[str]) -> None:
    owner = wishing(required({"labelSelector": WEB, "topologyKey": "k", **more}), namespace="own")
    (term,) = pod_terms(owner).required
    labels: dict[str, Json | None] = {"own": {}, "prod": {"stage": "prod"}, "bare": None}
    others = {name: pod(namespace=name, labels={"app": "web"}) for name in labels}
    assert {name for name in labels if term.matches(others[name], labels[name])} == matched
    assert not any(term.matches(pod(namespace=name), labels[name]) for name in labels)


def test_absent_selector_matches_nobody_and_an_empty_one_everybody() -> None:
    absent, empty = pod_terms(
        wishing(required({"topologyKey": "k"}, {"topologyKey": "k", "labelSelector": {}}))
    ).required
    assert not absent.matches(pod(labels={"app": "web"}), {})
    assert empty.matches(pod(), {})


def test_one_invalid_term_takes_its_kind_with_it() -> None:
    good = {"labelSelector": WEB, "topologyKey": "k"}
    bad = {"labelSelector": {"matchLabels": {"app": "no good"}}, "topologyKey": "k"}
    strange = {
        "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]},
        "topologyKey": "k",
    }
    terms = pod_terms(wishing(required(good, bad), {**required(good), **preferred((1, strange))}))
    assert terms.required == ()
    assert len(terms.required_anti) == 1
    assert terms.preferred == ()
    first, second = terms.errors
    assert first.startswith('requiredAffinityTerms: values[0][app]: Invalid value: "no good": ')
    assert second == ('preferredAntiAffinityTerms: "Like" is not a valid label selector operator')


def test_prefers() -> None:
    term = {"labelSelector": WEB, "topologyKey": "k"}
    assert not prefers(None)
    assert not prefers(wishing(required(term), preferred()).spec.affinity)
    assert prefers(wishing(None, preferred((1, term))).spec.affinity)
