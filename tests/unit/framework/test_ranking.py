"""Shapes in search order: what is found once is found again, until something changes."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.journal import Rows
from stowplan.cluster.pod_info import compile_pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.profile import Profile
from stowplan.framework.ranking import Ranking, ranking_of
from stowplan.framework.selection import chosen_place
from stowplan.framework.shapes import FeasibleRows, SearchKey, WeightedScores
from stowplan.scheduler.cycle import decide
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, plugin, profile_of

#: Any search; rankings of one search are compared with each other.
KEY: SearchKey = (0, 0, 12)


class Setup:
    def __init__(self, *, nodes: int = 12) -> None:
        self.cache: ClusterCache = cluster(
            node(f"n{number}", cpu=4, unschedulable=number == 3) for number in range(nodes)
        )
        self.profile: Profile = profile_of(*defaults())

    def cycle(self) -> Cycle:
        return Cycle(self.cache.table, compile_pod(pod(cpu=1)))

    def feasible(self) -> FeasibleRows:
        steps = [step for step in self.profile.filters if step.name != "NodeAffinity"]
        return self.profile.shapes.feasible_rows(steps, self.cycle())[0]

    def scores(self) -> WeightedScores:
        steps = [step for step in self.profile.scores if step.name != "NodeAffinity"]
        return self.profile.shapes.weighted_scores(steps, self.cycle(), self.feasible())[0]

    def fill(self, name: str, cpu: int = 4) -> int:
        self.cache.add_pod(pod(node=name, cpu=cpu))
        return self.cache.table.row_of[name]


@pytest.fixture
def setup() -> Setup:
    made = Setup()
    for _ in range(4):
        made.scores()
    return made


def _search(setup: Setup, *, start: int = 0, limit: int = 12) -> tuple[Rows, int, SearchKey | None]:
    return setup.feasible().search(setup.cache.table.order, start=start, limit=limit)


def _found(setup: Setup, *, start: int = 0, limit: int = 12) -> tuple[list[int], int]:
    rows, searched, _ = _search(setup, start=start, limit=limit)
    return rows.tolist(), searched


def test_where_the_search_starts_and_ends_matters(setup: Setup) -> None:
    order = setup.cache.table.order.tolist()
    fits = [row for row in order if row != 3]
    assert _found(setup) == (fits, 12)
    assert _found(setup, start=5) == (fits[4:] + fits[:4], 12)
    assert _found(setup, start=5, limit=2) == (fits[4:6], 2)
    assert _found(setup, limit=3) == (fits[:3], 4)
    assert _found(setup) == (fits, 12)


def test_a_repeated_search_is_cached_until_a_row_is_full(setup: Setup) -> None:
    feasible = setup.feasible()
    rows, _, key = _search(setup)
    assert key is None, "nothing is known about the first search"
    setup.fill("n5", cpu=1)
    assert setup.feasible() is feasible
    again, _, key = _search(setup)
    assert again is rows
    assert key is not None
    full = setup.fill("n5", cpu=3)
    assert setup.feasible() is feasible
    fewer, _, other = _search(setup)
    assert other is None
    assert full in rows.tolist()
    assert full not in fewer.tolist()
    assert _search(setup)[2] not in (None, key)


def test_a_cordoned_row_stays_out_whatever_its_pods_do(setup: Setup) -> None:
    feasible = setup.feasible()
    row = setup.fill("n3", cpu=1)
    assert setup.feasible() is feasible
    assert not feasible.alive[row]


@pytest.mark.parametrize("change", ["set", "add", "remove"])
def test_changes_of_nodes_start_over(setup: Setup, change: str) -> None:
    feasible, scores = setup.feasible(), setup.scores()
    if change == "remove":
        setup.cache.remove_node("n1")
    else:
        setup.cache.set_node(node("n1" if change == "set" else "new", cpu=8))
    assert setup.feasible() is not feasible
    assert setup.scores() is not scores
    assert setup.feasible().alive.sum() == {"set": 11, "add": 12, "remove": 10}[change]


@pytest.mark.parametrize("filled", [("n0",), ("n0", "n1", "n2", "n3", "n4", "n5")])
def test_a_ranking_follows_its_scores(setup: Setup, filled: tuple[str, ...]) -> None:
    cycle = setup.cycle()
    rows, _, _ = _search(setup)
    scores = setup.scores()
    ranking = ranking_of(scores, KEY, rows, cycle)
    assert ranking.best_place() == 0
    for _ in range(3):
        for name in filled:
            setup.fill(name, cpu=1)
        assert setup.scores() is scores
        assert ranking_of(scores, KEY, rows, cycle) is ranking
        fresh = Ranking(KEY, rows, scores, cycle)
        assert ranking.totals().tolist() == fresh.totals().tolist()
        assert ranking.best_place() == fresh.best_place() != 0
        parts = [part for _, part in scores.parts if part is not None]
        assert np.array_equal(scores.sums, np.sum(parts, axis=0))
    setup.cache.set_node(node("n9", cpu=9))
    assert setup.scores().ranking is None


def test_a_row_that_is_not_feasible_never_wins(setup: Setup) -> None:
    """n3 is cordoned, and in the end the only node without pods."""
    rows, _, _ = _search(setup)
    scores = setup.scores()
    ranking = ranking_of(scores, KEY, rows, setup.cycle())
    for number in range(12):
        row = setup.fill(f"n{number}", cpu=1)
        if row == 3:
            setup.cache.remove_pod(next(iter(setup.cache.table.pods[row])))
        assert setup.scores() is scores
    assert scores.sums[3] > scores.sums[rows].max()
    assert ranking.best_place() == 0


def test_scores_that_are_not_kept_are_added(setup: Setup) -> None:
    rows, _, _ = _search(setup)
    ranking = Ranking(KEY, rows, setup.scores(), setup.cycle())
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
