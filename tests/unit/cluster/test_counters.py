"""Counts of pods by selector and row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from stowplan.api.labels import EVERYTHING, NOTHING, CompiledSelector, Requirement
from stowplan.cluster.bytes_lru import IDLE_TICKS
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.counters import PodCounter, PodCounters
from stowplan.cluster.pod_classes import CounterKey, PodClasses
from stowplan.testing import node, pod

WEB = CompiledSelector((Requirement("app", "In", ("web",)),))


def cluster(nodes: int = 3) -> ClusterCache:
    cache = ClusterCache()
    for index in range(nodes):
        cache.set_node(node(f"n{index}"))
    return cache


def put(cache: ClusterCache, where: str, *uids: str, **kwargs: Any) -> None:
    for uid in uids:
        cache.add_pod(pod(uid, uid=uid, node=where, **kwargs))


def ask(
    cache: ClusterCache,
    selector: CompiledSelector,
    namespaces: Iterable[str] | None = ("default",),
    *,
    live: bool = False,
) -> PodCounter:
    names = None if namespaces is None else frozenset(namespaces)
    return cache.table.counters.get(CounterKey(names, selector, live))


def by_name(cache: ClusterCache, counter: PodCounter) -> dict[str, int]:
    return {cache.table.names[row]: count for row, count in counter.counts.items()}


def test_counts_follow_pods() -> None:
    cache = cluster()
    counter = ask(cache, WEB)
    assert (counter.counts, counter.total) == ({}, 0)
    put(cache, "n0", "a", "b", labels={"app": "web"})
    put(cache, "n1", "c", labels={"app": "web", "tier": "x"})
    put(cache, "n1", "d", labels={"app": "db"})
    put(cache, "n2", "e")
    put(cache, "n0", "f", labels={"app": "web"}, namespace="other")
    assert ask(cache, WEB) is counter
    assert (by_name(cache, counter), counter.total) == ({"n0": 2, "n1": 1}, 3)
    put(cache, "n1", "d", labels={"app": "web"})
    put(cache, "n0", "a", labels={})
    assert by_name(cache, ask(cache, WEB)) == {"n0": 1, "n1": 2}
    for uid in "bcd":
        cache.remove_pod(uid)
    assert ask(cache, WEB) is counter
    assert (counter.counts, counter.total) == ({}, 0)


def test_assumed_pods_count_and_move() -> None:
    cache = cluster()
    ask(cache, WEB)
    cache.assume(pod("a", uid="a", labels={"app": "web"}), "n0")
    assert by_name(cache, ask(cache, WEB)) == {"n0": 1}
    put(cache, "n1", "a", labels={"app": "web"})
    assert by_name(cache, ask(cache, WEB)) == {"n1": 1}


def test_live_leaves_out_pods_that_are_being_deleted() -> None:
    cache = cluster()

    def totals() -> tuple[int, int]:
        return ask(cache, WEB).total, ask(cache, WEB, live=True).total

    put(cache, "n0", "a", "b", labels={"app": "web"})
    assert totals() == (2, 2)
    put(cache, "n0", "b", labels={"app": "web"}, terminating=True)
    assert totals() == (2, 1)
    put(cache, "n0", "c", labels={"app": "web"}, terminating=True)
    assert totals() == (3, 1)
    cache.remove_pod("b")
    assert totals() == (2, 1)


@pytest.mark.parametrize(
    ("selector", "namespaces", "expected"),
    [
        pytest.param(EVERYTHING, ["default"], 3, id="empty-selector-counts-all"),
        pytest.param(EVERYTHING, None, 4, id="all-namespaces"),
        pytest.param(NOTHING, None, 0, id="absent-selector-counts-none"),
        pytest.param(WEB, [], 0, id="no-namespace"),
        pytest.param(WEB, ["default", "other", "empty"], 2, id="several-namespaces"),
        pytest.param(
            CompiledSelector((Requirement("app", "In", ("db", "web")),)), None, 3, id="in"
        ),
        pytest.param(CompiledSelector((Requirement("app", "Exists"),)), None, 3, id="exists"),
        pytest.param(
            CompiledSelector((Requirement("app", "NotIn", ("web",)),)), None, 2, id="not-in"
        ),
        pytest.param(CompiledSelector((Requirement("app", "DoesNotExist"),)), None, 1, id="absent"),
        pytest.param(WEB.adding([Requirement("tier", "In", ("x",))]), None, 1, id="conjunction"),
    ],
)
@pytest.mark.parametrize("ask_first", [True, False])
def test_selectors(
    selector: CompiledSelector, namespaces: list[str] | None, expected: int, ask_first: bool
) -> None:
    cache = cluster()
    if ask_first:
        ask(cache, selector, namespaces)
    put(cache, "n0", "a", labels={"app": "web", "tier": "x"})
    put(cache, "n1", "b", labels={"app": "db"})
    put(cache, "n1", "c")
    put(cache, "n2", "d", labels={"app": "web"}, namespace="other")
    counter = ask(cache, selector, namespaces)
    assert counter.total == sum(counter.counts.values()) == expected


def test_terms_are_joined() -> None:
    tier = CompiledSelector((Requirement("tier", "In", ("x",)),))
    a, ab = frozenset({"a"}), frozenset({"a", "b"})
    assert CounterKey.all_of([(a, WEB), (ab, tier)]) == CounterKey.all_of([(ab, tier), (a, WEB)])
    joined = CounterKey.all_of([(None, WEB), (ab, tier)], live=True)
    assert joined.namespaces == ab
    assert joined.live
    assert joined.selector == WEB.adding(tier.requirements)
    assert CounterKey.all_of([(a, WEB), (a, NOTHING)]).selector.nothing
    assert CounterKey.all_of([(a, NOTHING), (a, WEB)]).selector.nothing
    assert CounterKey.all_of([]) == CounterKey(None, EVERYTHING)


def test_equal_keys_share_a_counter() -> None:
    cache = cluster()
    assert ask(cache, WEB) is ask(cache, CompiledSelector(WEB.requirements))
    assert ask(cache, WEB) is not ask(cache, WEB, live=True)
    assert len(cache.table.counters) == 2


def test_readers_follow_the_log() -> None:
    cache = cluster()
    put(cache, "n0", "a", labels={"app": "web"})
    counter = ask(cache, WEB)
    start = counter.position
    assert counter.since(start) == []
    put(cache, "n1", "b", labels={"app": "web"})
    cache.remove_pod("a")
    assert ask(cache, WEB) is counter
    rows = cache.table.row_of
    assert counter.since(start) == [(rows["n1"], 1), (rows["n0"], -1)]
    assert counter.since(counter.position) == []


def test_log_is_bounded_and_says_so() -> None:
    counter = PodCounter(CounterKey(None, EVERYTHING), PodClasses())
    start = counter.position
    for index in range(5000):
        counter.change(index % 7, 1)
    assert counter.position == start + 5000
    assert counter.since(start) is None
    assert counter.since(start + 4990) == [(index % 7, 1) for index in range(4990, 5000)]


def test_dense_column() -> None:
    cache = cluster()
    counter = ask(cache, WEB)
    assert not counter.dense(cache.table.capacity).any()
    put(cache, "n2", "a", "b", labels={"app": "web"})
    column = ask(cache, WEB).dense(cache.table.capacity)
    assert len(column) == cache.table.capacity
    assert column[cache.table.row_of["n2"]] == column.sum() == 2


def test_ghost_rows_count_too() -> None:
    cache = cluster()
    counter = ask(cache, WEB)
    put(cache, "unknown", "a", labels={"app": "web"})
    assert by_name(cache, ask(cache, WEB)) == {"unknown": 1}
    cache.remove_node("n0")
    cache.remove_pod("a")
    assert ask(cache, WEB) is counter
    assert counter.counts == {}


def test_least_recently_asked_for_is_evicted() -> None:
    cache = cluster()
    keys = [
        CounterKey(None, CompiledSelector((Requirement("app", "In", (value,)),)))
        for value in ("a", "b", "c")
    ]
    one = PodCounter(keys[0], cache.table.pod_classes).nbytes + keys[0].nbytes
    counters = cache.table.counters = PodCounters(cache.table.pod_classes, limit_bytes=5 * one // 2)
    first, second = counters.get(keys[0]), counters.get(keys[1])
    assert counters.get(keys[0]) is first
    counters.get(keys[2])
    assert [counter.key for counter in counters] == [keys[0], keys[2]]
    put(cache, "n0", "x", labels={"app": "b"})
    again = counters.get(keys[1])
    assert again is not second
    assert again.total == 1
    assert counters.nbytes <= 5 * one // 2


def test_counters_that_are_not_asked_for_are_evicted_in_time() -> None:
    cache = cluster()
    ask(cache, WEB)
    for index in range(IDLE_TICKS + 512):
        put(cache, "n0", f"p{index % 5}", labels={"turn": str(index)})
    assert len(cache.table.counters) == 0
    assert cache.table.counters.nbytes == 0


def test_a_burst_of_changes_is_counted_again() -> None:
    cache = cluster()
    counter = ask(cache, WEB)
    for index in range(1000):
        put(cache, f"n{index % 3}", f"p{index}", labels={"app": "web", "index": str(index)})
    again = ask(cache, WEB)
    assert again is not counter
    assert (again.total, sorted(again.counts.values())) == (1000, [333, 333, 334])


def test_classes_go_with_their_pods() -> None:
    cache = cluster()
    classes = cache.table.pod_classes
    for index in range(300):
        put(cache, "n0", f"p{index}", labels={"app": "web", f"key-{index}": "x"})
    assert len(classes) == 300
    selector = CompiledSelector((Requirement("key-7", "Exists"), Requirement("app", "Exists")))
    assert ask(cache, selector).total == 1
    assert ask(cache, WEB).total == 300
    for index in range(300):
        cache.remove_pod(f"p{index}")
    assert len(classes) == 0
    assert classes.nbytes < 2000
    assert ask(cache, WEB).total == 0
