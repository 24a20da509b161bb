"""Answers of rows to what-if questions: how long each holds."""

from __future__ import annotations

import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.framework.nominees import NO_NOMINEES, NOT_SHARED
from stowplan.framework.status import unschedulable
from stowplan.framework.what_if_cache import WhatIfCache
from stowplan.testing import node, pod

STARTED = "2026-01-01T00:00:00Z"


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache()
    for number in range(32):
        cache.set_node(node(f"n{number}"))
        cache.add_pod(pod(f"p{number}", uid=f"p{number}", node=f"n{number}"))
    return cache


def asked(cache: ClusterCache, *, reads_details: bool = False) -> WhatIfCache:
    """Every row has said its own number."""
    answers = WhatIfCache(cache.table, reads_details=reads_details)
    rows = range(32)
    answers.learn(dict.fromkeys(rows, NO_NOMINEES), {row: str(row) for row in rows})
    return answers


def known(answers: WhatIfCache) -> set[int]:
    return set(answers.known(dict.fromkeys(range(32), NO_NOMINEES)))


def test_answers_hold_while_nothing_changes(cache: ClusterCache) -> None:
    answers = asked(cache)
    assert answers.follow(cache.table)
    assert known(answers) == set(range(32))


def test_a_row_whose_pods_change_is_forgotten(cache: ClusterCache) -> None:
    answers = asked(cache)
    cache.remove_pod("p3")
    cache.add_pod(pod(node="n5"))
    assert answers.follow(cache.table)
    assert known(answers) == set(range(32)) - {3, 5}


def test_a_row_where_a_pod_begins_to_run_is_forgotten(cache: ClusterCache) -> None:
    """Preemption prefers victims that began last."""
    answers = asked(cache)
    started = pod("p3", uid="p3", node="n3")
    cache.update_pod(
        pod("p3", uid="p3", node="n3", status=type(started.status)(start_time=STARTED))
    )
    assert answers.follow(cache.table)
    assert known(answers) == set(range(32)) - {3}


def test_annotations_forget_a_row_only_if_a_filter_reads_them(cache: ClusterCache) -> None:
    specs, details = asked(cache), asked(cache, reads_details=True)
    cache.update_pod(pod("p3", uid="p3", node="n3", annotations={"a": "b"}))
    assert specs.follow(cache.table)
    assert details.follow(cache.table)
    assert known(specs) == set(range(32))
    assert known(details) == set(range(32)) - {3}


def test_a_node_that_changes_ends_them_all(cache: ClusterCache) -> None:
    answers = asked(cache)
    cache.set_node(node("n3", labels={"a": "b"}))
    assert not answers.follow(cache.table)


def test_an_answer_holds_for_the_same_nominations_only(cache: ClusterCache) -> None:
    answers = WhatIfCache(cache.table, reads_details=False)
    answers.learn({1: 11, 2: NO_NOMINEES}, {1: "one", 2: "two"})
    assert answers.known({1: 11, 2: NO_NOMINEES}) == {1: "one", 2: "two"}
    assert answers.known({1: 12, 2: 13}) == {}


def test_an_answer_beside_nominees_that_one_pod_sees_is_not_kept(cache: ClusterCache) -> None:
    answers = WhatIfCache(cache.table, reads_details=False)
    answers.learn({1: NOT_SHARED}, {1: "one"})
    assert answers.known({1: NOT_SHARED}) == {}


def test_equal_statuses_become_one_object(cache: ClusterCache) -> None:
    answers = WhatIfCache(cache.table, reads_details=False)
    answers.learn({1: 0, 2: 0}, {1: unschedulable("no"), 2: unschedulable("no")})
    said = answers.known({1: 0, 2: 0})
    assert said[1] is said[2]


def test_refusals_hold_for_the_same_rows_until_one_changes(cache: ClusterCache) -> None:
    answers, said = asked(cache), [(unschedulable("no room"), 3)]
    answers.learn_refusals([0, 1, 2], said)
    assert answers.follow(cache.table)
    assert answers.refusals([0, 1, 2]) == said
    assert answers.refusals([0, 1]) is None
    cache.remove_pod("p2")
    assert answers.follow(cache.table)
    assert answers.refusals([0, 1, 2]) is None
