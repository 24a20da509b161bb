"""Terms added up over classes of pods: what a change of the pods costs and changes."""

from __future__ import annotations

import pytest

from stowplan.api.selectors import compile_label_set
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.class_weights import FEW_TERMS, add_term_weights
from stowplan.cluster.pod_affinity import AffinityTerm
from stowplan.cluster.pod_classes import CounterKey, PodClasses
from stowplan.cluster.table import Int64Array
from stowplan.testing import node, pod

ZONE = "topology.kubernetes.io/zone"
TERMS = [
    (
        1,
        AffinityTerm(
            namespaces=frozenset({"default"}),
            selector=compile_label_set({"app": f"app-{number}"}),
            topology_key=ZONE,
        ),
    )
    for number in range(FEW_TERMS + 1)
]


def counted_by(term: AffinityTerm) -> CounterKey:
    return CounterKey(term.namespaces, term.selector)


def weights(cache: ClusterCache) -> dict[str, int]:
    table = cache.table
    into: dict[str, Int64Array] = {}
    add_term_weights(table, TERMS, counted_by, into, lambda: "these terms")
    values = table.labels.values(ZONE).values
    return {values[n]: int(sum_) for n, sum_ in enumerate(into.get(ZONE, [])[:-1]) if sum_}


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache()
    for name in "ab":
        cache.set_node(node(name, zone=f"zone-{name}"))
    cache.add_pod(pod("first", uid="first", node="a", labels={"app": "app-1"}))
    return cache


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[CounterKey]:
    """The terms that are evaluated over all classes."""
    asked: list[CounterKey] = []
    matching = PodClasses.matching

    def counting(self: PodClasses, key: CounterKey) -> object:
        asked.append(key)
        return matching(self, key)

    monkeypatch.setattr(PodClasses, "matching", counting)
    return asked


def test_a_pod_that_comes_or_goes_evaluates_no_term_again(
    cache: ClusterCache, evaluated: list[CounterKey]
) -> None:
    assert weights(cache) == {"zone-a": 1}
    evaluated.clear()
    cache.add_pod(pod(node="b", labels={"app": "app-1"}))
    assert weights(cache) == {"zone-a": 1, "zone-b": 1}
    cache.remove_pod("first")
    assert weights(cache) == {"zone-b": 1}
    assert evaluated == []


def test_a_new_class_is_added_up_alone(cache: ClusterCache, evaluated: list[CounterKey]) -> None:
    weights(cache)
    evaluated.clear()
    cache.add_pod(pod(node="b", labels={"app": "app-2", "more": "x"}))
    assert weights(cache) == {"zone-a": 1, "zone-b": 1}
    assert evaluated == []


def test_many_new_classes_begin_again(cache: ClusterCache, evaluated: list[CounterKey]) -> None:
    weights(cache)
    evaluated.clear()
    for number in range(60):
        cache.add_pod(pod(node="b", labels={"app": f"app-{number}", "more": str(number)}))
    assert weights(cache) == {"zone-a": 1, "zone-b": 60}
    assert len(evaluated) == len(TERMS)


def test_a_node_label_that_changes_moves_the_sums(cache: ClusterCache) -> None:
    weights(cache)
    cache.set_node(node("a", zone="zone-c"))
    assert weights(cache) == {"zone-c": 1}
