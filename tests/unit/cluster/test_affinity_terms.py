"""Terms that standing pods carry, found by the pod that they speak of."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.cluster.affinity_terms import TermFamily
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.work import DecisionDeferred
from stowplan.testing import node, pod

Json = dict[str, Any]


def term(selector: Json | None, key: str = "zone", **more: Any) -> Json:
    return {"labelSelector": selector, "topologyKey": key, **more}


def hating(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def app(name: str) -> Json:
    return {"matchLabels": {"app": name}}


def cluster(*pods: Pod) -> ClusterCache:
    cache = ClusterCache()
    for index in range(3):
        cache.set_node(node(f"n{index}"))
    for each in pods:
        cache.add_pod(each)
    return cache


def counts(cache: ClusterCache, family: TermFamily, about: Pod) -> list[dict[str, int]]:
    """Of each group that speaks of a pod, how many carry its term on which node."""
    return [
        {cache.table.names[row]: count for row, count in group.counts.items()}
        for group in family.about(about, {}).groups
    ]


def test_pods_with_the_same_term_are_one_group() -> None:
    cache = cluster(
        pod(node="n0", affinity=hating(term(app("web")))),
        pod(node="n0", affinity=hating(term(app("web")))),
        pod(node="n1", affinity=hating(term(app("web")), term(app("db")))),
        pod(node="n2"),
    )
    family = cache.table.affinity_terms.required_anti
    assert len(family) == 2
    assert counts(cache, family, pod(labels={"app": "web"})) == [{"n0": 2, "n1": 1}]
    assert counts(cache, family, pod(labels={"app": "db", "x": "y"})) == [{"n1": 1}]
    assert counts(cache, family, pod(labels={"app": "other"})) == []
    assert counts(cache, family, pod()) == []


def test_a_term_that_a_pod_has_twice_counts_twice() -> None:
    cache = cluster(pod(node="n0", affinity=hating(term(app("web")), term(app("web")))))
    family = cache.table.affinity_terms.required_anti
    assert counts(cache, family, pod(labels={"app": "web"})) == [{"n0": 2}]


def test_groups_end_with_their_last_pod() -> None:
    cache = cluster(
        pod(uid="a", node="n0", affinity=hating(term(app("web")))),
        pod(uid="b", node="gone", affinity=hating(term(app("web")))),
    )
    family = cache.table.affinity_terms.required_anti
    assert counts(cache, family, pod(labels={"app": "web"})) == [{"n0": 1, "gone": 1}]
    cache.remove_pod("a")
    assert counts(cache, family, pod(labels={"app": "web"})) == [{"gone": 1}]
    cache.remove_pod("b")
    assert len(family) == 0
    assert not family._files


def test_kinds_are_kept_apart() -> None:
    wish = term(app("web"))
    both: Json = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [wish],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 4, "podAffinityTerm": wish}
            ],
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 4, "podAffinityTerm": wish},
                {"weight": 9, "podAffinityTerm": wish},
            ],
        },
    }
    index = cluster(pod(node="n0", affinity=both)).table.affinity_terms
    assert (len(index.required), len(index.required_anti)) == (1, 0)
    assert sorted(group.weight for group in index.preferred) == [-9, -4, 4]


def test_terms_are_filed_under_the_label_that_tells_most() -> None:
    cache = cluster()
    family = cache.table.affinity_terms.required_anti
    for number in range(5):
        selector = {"matchLabels": {"env": "prod", "app": f"a{number}"}}
        cache.add_pod(pod(node="n0", affinity=hating(term(selector))))
    files = [group.files for group in family]
    # The first has no choice to learn from.
    assert files[1:] == [((("app", f"a{number}"), "default"),) for number in range(1, 5)]
    several = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}
    cache.add_pod(pod(node="n0", affinity=hating(term(several))))
    for value in ("x", "y"):
        assert counts(cache, family, pod(labels={"app": value})) == [{"n0": 1}]


def test_namespaces_and_values_are_not_filed_as_a_product() -> None:
    values = {"key": "app", "operator": "In", "values": [f"v{n}" for n in range(300)]}
    names = [f"ns-{n}" for n in range(200)]
    cache = cluster(
        pod(node="n0", affinity=hating(term({"matchExpressions": [values]}, namespaces=names)))
    )
    family = cache.table.affinity_terms.required_anti
    (group,) = family
    assert len(group.files) == 300
    assert counts(cache, family, pod(namespace="ns-7", labels={"app": "v9"})) == [{"n0": 1}]
    assert counts(cache, family, pod(namespace="other", labels={"app": "v9"})) == []


def test_what_is_large_goes_with_its_pod() -> None:
    values = {"key": "app", "operator": "In", "values": [f"v{n}" for n in range(300)]}
    cache = cluster(
        pod("p", uid="p", node="n0", affinity=hating(term({"matchExpressions": [values]})))
    )
    family = cache.table.affinity_terms.required_anti
    (group,) = family
    asker = pod(labels={"app": "v9"})
    assert list(family.about(asker, {}).groups) == [group]
    cache.remove_pod("p")
    assert len(family._log) == 0
    assert not family.about(asker, {}).groups
    assert not family.about(asker, {}).weights


def test_pods_that_no_term_can_tell_apart_share_what_was_found() -> None:
    cache = cluster(pod(node="n0", affinity=hating(term(app("web"), "zone"))))
    family = cache.table.affinity_terms.required_anti
    found = family.about(pod(labels={"app": "web", "unread": "1"}), {})
    assert family.about(pod(labels={"app": "web", "unread": "2"}), {"team": "a"}) is found
    assert family.about(pod(labels={"app": "db"}), {}) is not found
    cache.add_pod(pod("q", uid="q", node="n1", affinity=hating(term(app("web"), "zone"))))
    assert family.about(pod(labels={"app": "web"}), {}) is found, "it followed the change"


@pytest.mark.parametrize("carriers", [1, 300])
def test_sums_whose_update_was_interrupted_are_added_up_again(carriers: int) -> None:
    """The first column of a label costs work, and may be what a decision is deferred at."""
    cache = cluster(pod(node="n0", affinity=hating(term(app("web"), "zone"))))
    cache.set_node(node("n0", labels={"zone": "a", "rack": "r"}))
    table, asker = cache.table, pod(labels={"app": "web"})
    family = table.affinity_terms.required_anti
    family.about(asker, {})
    for number in range(carriers):
        uid = f"p{number}"
        terms = hating(term(app("web"), "rack"), term(app("web"), "zone"))
        cache.add_pod(pod(uid, uid=uid, node="n0", affinity=terms))
    table.work.limit(0)
    with pytest.raises(DecisionDeferred):
        family.about(asker, {})
    table.work.unlimit()
    weights = family.about(asker, {}).weights
    assert {key: int(sums.sum()) for key, sums in weights.items()} == {
        "zone": carriers + 1,
        "rack": carriers,
    }


def test_terms_that_require_no_value_are_always_looked_at() -> None:
    exists = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    cache = cluster(
        pod(node="n0", affinity=hating(term(exists), term({}, "zone"), term(None, "rack")))
    )
    family = cache.table.affinity_terms.required_anti
    assert len(family) == 3
    assert len(family.about(pod(labels={"app": "web"}), {}).groups) == 2
    assert len(family.about(pod(), {}).groups) == 1


def test_namespaces() -> None:
    selector = {"matchLabels": {"stage": "prod"}}
    cache = cluster(
        pod(node="n0", namespace="a", affinity=hating(term(app("web")))),
        pod(node="n1", namespace="b", affinity=hating(term(app("web"), namespaces=["a", "b"]))),
        pod(
            node="n2", namespace="c", affinity=hating(term(app("web"), namespaceSelector=selector))
        ),
    )
    family = cache.table.affinity_terms.required_anti

    def carriers(namespace: str, labels: dict[str, str] | None) -> set[str]:
        about = pod(namespace=namespace, labels={"app": "web"})
        return {
            cache.table.names[row]
            for group in family.about(about, labels).groups
            for row in group.counts
        }

    assert carriers("a", {}) == {"n0", "n1"}
    assert carriers("b", {"stage": "prod"}) == {"n1", "n2"}
    assert carriers("c", None) == set()


def test_a_pod_that_changes_in_place() -> None:
    cache = cluster(pod("p", uid="p", node="n0", affinity=hating(term(app("web")))))
    family = cache.table.affinity_terms.required_anti
    (group,) = family
    position = group.position
    cache.update_pod(
        pod("p", uid="p", node="n0", labels={"x": "y"}, affinity=hating(term(app("web"))))
    )
    assert list(family) == [group]
    assert group.position == position, "a change of labels alone is not logged"
    cache.update_pod(pod("p", uid="p", node="n0", affinity=hating(term(app("db")))))
    assert counts(cache, family, pod(labels={"app": "db"})) == [{"n0": 1}]
    cache.update_pod(pod("p", uid="p", node="n0"))
    assert len(family) == 0
