"""Shapes in search order: what is found once is found again, until something changes."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.profile import Profile
from stowplan.framework.shapes import Accepted, Scored
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.ranking import Ranking, find, is_found_again
from stowplan.scheduler.selection import chosen_place
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, plugin, profile_of


class Setup:
    def __init__(self, *, nodes: int = 12) -> None:
        self.cache: ClusterCache = cluster(
            node(f"n{number}", cpu=4, unschedulable=number == 3) for number in range(nodes)
        )
        self.profile: Profile = profile_of(*defaults())

    def cycle(self) -> Cycle:
        return Cycle(self.cache.table, compile_pod(pod(cpu=1)))

    def accepted(self) -> Accepted:
        steps = [step for step in self.profile.filters if step.name != "NodeAffinity"]
        return self.profile.shapes.accepted(steps, self.cycle())[0]

    def scored(self) -> Scored:
        steps = [step for step in self.profile.scores if step.name != "NodeAffinity"]
        return self.profile.shapes.scored(steps, self.cycle(), self.accepted())[0]

    def fill(self, name: str, cpu: int = 4) -> int:
        self.cache.add_pod(pod(node=name, cpu=cpu))
        return self.cache.table.row_of[name]


@pytest.fixture
def setup() -> Setup:
    made = Setup()
    for _ in range(4):
        made.scored()
    return made


def _found(setup: Setup, *, start: int = 0, limit: int = 12) -> tuple[list[int], int]:
    rows, passed = find(setup.accepted(), setup.cache.table.order, start=start, limit=limit)
    return rows.tolist(), passed


def test_where_the_search_starts_and_ends_matters(setup: Setup) -> None:
    order = setup.cache.table.order.tolist()
    fits = [row for row in order if row != 3]
    assert _found(setup) == (fits, 12)
    assert _found(setup, start=5) == (fits[4:] + fits[:4], 12)
    assert _found(setup, start=5, limit=2) == (fits[4:6], 2)
    assert _found(setup, limit=3) == (fits[:3], 4)
    assert _found(setup) == (fits, 12)


def test_the_same_rows_are_the_same_array_until_one_is_full(setup: Setup) -> None:
    accepted = setup.accepted()
    rows, _ = find(accepted, setup.cache.table.order, start=0, limit=12)
    setup.fill("n5", cpu=1)
    assert setup.accepted() is accepted
    again, _ = find(accepted, setup.cache.table.order, start=0, limit=12)
    assert again is rows
    assert is_found_again(rows, accepted)
    full = setup.fill("n5", cpu=3)
    assert setup.accepted() is accepted
    fewer, _ = find(accepted, setup.cache.table.order, start=0, limit=12)
    assert full in rows.tolist()
    assert full not in fewer.tolist()
    assert not is_found_again(rows, accepted)


def test_a_cordoned_row_stays_out_whatever_its_pods_do(setup: Setup) -> None:
    accepted = setup.accepted()
    row = setup.fill("n3", cpu=1)
    assert setup.accepted() is accepted
    assert not accepted.alive[row]


@pytest.mark.parametrize("change", ["set", "add", "remove"])
def test_changes_of_nodes_start_over(setup: Setup, change: str) -> None:
    accepted, scored = setup.accepted(), setup.scored()
    if change == "remove":
        setup.cache.remove_node("n1")
    else:
        setup.cache.set_node(node("n1" if change == "set" else "new", cpu=8))
    assert setup.accepted() is not accepted
    assert setup.scored() is not scored
    assert setup.accepted().alive.sum() == {"set": 11, "add": 12, "remove": 10}[change]


def test_a_ranking_follows_its_scores(setup: Setup) -> None:
    cycle, table = setup.cycle(), setup.cache.table
    rows, _ = find(setup.accepted(), table.order, start=0, limit=12)
    ranking = Ranking(rows, setup.scored(), cycle)
    assert ranking.best_place() == 0
    for name in ("n0", "n2", "n3", "n0"):
        setup.fill(name, cpu=1)
        scored = setup.scored()
        assert ranking.follow(table, scored)
        fresh = Ranking(rows, scored, cycle)
        assert ranking.totals().tolist() == fresh.totals().tolist()
        assert ranking.best_place() == fresh.best_place()
        parts = [part for _, part in scored.parts if part is not None]
        assert np.array_equal(scored.sums, np.sum(parts, axis=0))
    setup.cache.set_node(node("n9", cpu=9))
    assert not ranking.follow(table, setup.scored())


def test_scores_that_are_not_kept_are_added(setup: Setup) -> None:
    rows, _ = find(setup.accepted(), setup.cache.table.order, start=0, limit=12)
    ranking = Ranking(rows, setup.scored(), setup.cycle())
    equal = ranking.totals()
    assert len(set(equal.tolist())) == 1
    more = np.zeros(len(rows), np.int64)
    more[[4, 7]] = 3
    assert ranking.best_place(more) == chosen_place(equal + more, seed=None, turn=0)
    assert ranking.best_place(more) in (4, 7)
    assert ranking.totals(more).tolist() == (equal + more).tolist()
    # They are this decision's alone.
    assert ranking.totals().tolist() == equal.tolist()


def test_a_score_out_of_range_is_told_the_long_way() -> None:
    wild = plugin("Wild", score=lambda _, view: 101 if view.pod_count == 2 else 1)
    cache = cluster([node("a"), node("b")])
    profile = profile_of(wild, *defaults())
    for number in range(5):
        decision = decide(cache.table, compile_pod(pod(uid=f"u{number}")), profile)
        if decision.node is None:
            assert "Wild" in decision.message
            assert "invalid score 101" in decision.message
            break
        cache.assume(decision.pod, decision.node)
    else:
        pytest.fail("no node ever had two pods")
