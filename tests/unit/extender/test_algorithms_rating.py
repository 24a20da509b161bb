"""LeastUsed, BAR and LeastUsedBAR, with the scores worked out by hand beside each case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stowplan.extender.algorithms import BAR, HierBAR, LeastUsed, LeastUsedBAR
from stowplan.extender.data import Resource

from .kit import stage
from .memory_provider import MemoryProvider, asked, gauge

CPU, MEM = Resource.CPU, Resource.MEM
TWO = (CPU, MEM)
FOUR = (CPU, MEM, Resource.MEMBW_READ, Resource.MEMBW_WRITE)

#: Three pods are there; with the fourth
#:   cpu  4*1 of 8   = 1/2 used, 1/2 free
#:   mem  4*1 of 16  = 1/4 used, 3/4 free
#:   the node reads 40/10 = 4 times as fast as it writes, so as one number bandwidth is
#:   4*(3 + 4*0.5) = 20 of 40 + 4*10 = 80 = 1/4 used, 3/4 free
PROVIDER = MemoryProvider(
    {"n": {"cpu": 8.0, "mem": 16.0, "membw_read": 40.0, "membw_write": 10.0}},
    {"a": {"cpu": 1.0, "mem": 1.0, "membw_read": 3.0, "membw_write": 0.5}},
    {"n": {"a": 3}},
)
ONE_EACH = {CPU: 1.0, MEM: 1.0}


def score(algorithm: Any) -> int:
    [rated] = algorithm.prioritize(asked("a", "n"))
    assert rated.Host == "n"
    return int(rated.Score)


@pytest.mark.parametrize(
    ("dimensions", "weights", "expected"),
    [
        # The default weights are 1 for cpu, mem and membw_flat: (1/2 + 3/4) / 3 = 0.4167.
        (TWO, None, 4),
        # One for each of the four dimensions and one for membw_flat, of which cpu, mem and
        # membw_flat have a term: (1/2 + 3/4 + 3/4) / 5 = 0.4.
        (FOUR, None, 4),
        # (1/2 + 3/4) / 2 = 0.625.
        (TWO, ONE_EACH, 6),
        # (3*1/2 + 1*3/4) / 4 = 0.5625.
        (TWO, {CPU: 3.0, MEM: 1.0}, 5),
        # (0*1/2 + 1*3/4) / 1 = 0.75.
        (TWO, {CPU: 0.0, MEM: 1.0}, 7),
        # (1/2 + 3/4 + 2*3/4) / 4 = 0.6875.
        (FOUR, {CPU: 1.0, MEM: 1.0, Resource.MEMBW_FLAT: 2.0}, 6),
        # (1/2) / 2 = 0.25: one dimension, and membw_flat in the divisor.
        ((CPU,), None, 2),
    ],
)
def test_least_used(dimensions: Any, weights: Any, expected: int) -> None:
    assert score(LeastUsed(PROVIDER, dimensions, weights)) == expected


@pytest.mark.parametrize(
    ("dimensions", "weights", "expected"),
    [
        # Two dimensions: 1 - |1/2 - 1/4| = 0.75.
        (TWO, None, 7),
        # Weights play no part there.
        (TWO, {CPU: 9.0}, 7),
        # One dimension is in balance with itself: 1.
        ((CPU,), None, 10),
        # Three (cpu, mem, membw_flat): the mean is (1/2 + 1/4 + 1/4) / 3 = 1/3, the squares
        # (1/6)² + (1/12)² + (1/12)² = 1/36 + 2/144 = 1/24, and 1 - (1/24)/3 = 71/72 = 0.986.
        (FOUR, None, 9),
        # 36 times the first square: 1 + 2/144 = 73/72, and 1 - (73/72)/3 = 143/216 = 0.662.
        (FOUR, {CPU: 36.0}, 6),
    ],
)
def test_bar(dimensions: Any, weights: Any, expected: int) -> None:
    assert score(BAR(PROVIDER, dimensions, weights)) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # 0.4167 + 0.75 = 1.1667 of at most 2, times 5.
        ({}, 5),
        # 2*0.4167 + 0.75 = 1.5833 of at most 3, times 10/3.
        ({"least_used_weight": 2}, 5),
        # A weight below 0 lowers the result: -0.4167 + 0.75 = 0.3333 of at most 1, times 10.
        ({"least_used_weight": -1}, 3),
        # 0.625 + 0.75 = 1.375.
        ({"least_used_weights": ONE_EACH}, 6),
        # The WCA scheduler's, which is above 10.
        ({"least_used_weights": ONE_EACH, "max_node_score": 10.0}, 13),
        # 0.4 + 71/72 = 1.386.
        ({"dimensions": FOUR}, 6),
        # 0.4 + 143/216 = 1.062.
        ({"dimensions": FOUR, "bar_weights": {CPU: 36.0}}, 5),
    ],
)
def test_least_used_bar(more: Any, expected: int) -> None:
    assert score(LeastUsedBAR(PROVIDER, **more)) == expected


@pytest.mark.parametrize("kind", [LeastUsedBAR, HierBAR])
def test_sums_use_the_whole_range_and_no_more(kind: type[LeastUsedBAR]) -> None:
    # Nothing is used by a pod that needs nothing: (1 + 1)/2 + (1 - 0) = 2.
    provider = MemoryProvider({"n": {"cpu": 1.0, "mem": 1.0}}, {"a": {"cpu": 0.0, "mem": 0.0}})
    algorithm = kind(provider)
    algorithm.least_used_weights = dict(ONE_EACH)
    assert score(algorithm) == 10


@pytest.mark.parametrize("kind", [LeastUsedBAR, HierBAR])
async def test_two_good_nodes_keep_their_order_on_the_wire(kind: type[LeastUsedBAR]) -> None:
    # Free are 89 and 58 of 100, balanced: 0.89*2/3 + 1 = 1.59 and 0.58*2/3 + 1 = 1.39.
    nodes = {"n1": {"cpu": 100.0, "mem": 100.0}, "n2": {"cpu": 100.0, "mem": 100.0}}
    apps = {"a": {"cpu": 1.0, "mem": 1.0}}
    provider = MemoryProvider(nodes, apps, {"n1": {"a": 10}, "n2": {"a": 41}})
    pod = {"metadata": {"name": "x", "labels": {"app": "a"}}}
    async with stage(kind(provider)) as served:
        body = json.dumps({"Pod": pod, "NodeNames": ["n1", "n2"]}).encode()
        scores = {each["Host"]: each["Score"] for each in
                  (await served.ask("/prioritize", body)).content}  # fmt: skip
    assert scores == {"n1": 7, "n2": 6}


def test_an_overfull_node_is_rated_below_0() -> None:
    # 4*1 of 2 CPUs = 2 used, -1 free; 1/4 of memory: (-1 + 3/4) / 2 = -0.125, cut to -1.
    nodes = {"n": {"cpu": 2.0, "mem": 16.0}}
    provider = MemoryProvider(nodes, PROVIDER.apps, PROVIDER.pods)
    assert score(LeastUsed(provider, least_used_weights=ONE_EACH)) == -1


def test_nodes_fit_or_not_as_for_fit() -> None:
    provider = MemoryProvider({"n": {"cpu": 3.0, "mem": 16.0}}, PROVIDER.apps, PROVIDER.pods)
    reason = {"n": "Could not fit node for dimensions: missing (cpu: 1.0)."}
    for algorithm in (LeastUsed(provider), BAR(provider), LeastUsedBAR(provider)):
        assert algorithm.filter(asked("a", "n")).FailedNodes == reason


def test_what_is_unknown_or_empty_has_a_score() -> None:
    nodes = {
        # There is no memory: all of it is used. (1/2 + 0) / 3 = 0.1667.
        "no-memory": {"cpu": 2.0, "mem": 0.0},
        # Only CPU is known: (1/2) / 3 = 0.1667.
        "half": {"cpu": 2.0},
        "nothing": {},
    }
    provider = MemoryProvider(nodes, PROVIDER.apps)
    rated = LeastUsed(provider).prioritize(asked("a", "nothing", "half", "no-memory", "stranger"))
    assert str(rated) == "[half=1, no-memory=1, nothing=0, stranger=0]"
    # |1/2 - 1| = 1/2; one dimension: 1.
    rated = BAR(provider).prioritize(asked("a", "nothing", "half", "no-memory", "stranger"))
    assert str(rated) == "[half=10, no-memory=5, nothing=0, stranger=0]"
    rated = LeastUsedBAR(provider).prioritize(asked("a", "nothing"))
    assert str(rated) == "[nothing=0]"


def test_gauges_of_the_scores() -> None:
    algorithm = LeastUsedBAR(PROVIDER, least_used_weight=2)
    algorithm.prioritize(asked("a", "n"))
    shown = algorithm.metrics
    assert gauge(shown, "bar_requested_fraction", app="a", resource="cpu") == 0.5
    assert gauge(shown, "bar_requested_fraction", app="a", resource="mem") == 0.25
    assert gauge(shown, "bar_least_used_score", app="a", node="n") == pytest.approx(5 / 12)
    assert gauge(shown, "bar_mean", app="a", node="n") == 0.375
    assert gauge(shown, "bar_variance", app="a", node="n") == 0.25
    assert gauge(shown, "bar_score", app="a", node="n") == 0.75
    assert gauge(shown, "bar_result", app="a", node="n") == pytest.approx(19 / 12)


@pytest.mark.parametrize(
    ("dimensions", "weights", "problem"),
    [
        (TWO, {CPU: 1.0}, "least_used_weights has no weight for mem"),
        (
            FOUR,
            {CPU: 1.0, MEM: 1.0, Resource.MEMBW_READ: 1.0, Resource.MEMBW_WRITE: 1.0},
            "least_used_weights has no weight for membw_flat",
        ),
        (TWO, {CPU: 0.0, MEM: 0.0}, "the sum of least_used_weights must be above 0"),
    ],
)
def test_weights_that_cannot_be_used(dimensions: Any, weights: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        LeastUsed(PROVIDER, dimensions, weights)


def test_names() -> None:
    assert str(LeastUsed(PROVIDER)) == "LeastUsed(2)"
    assert str(BAR(PROVIDER, FOUR)) == "BAR(4)"
    assert str(LeastUsedBAR(PROVIDER, FOUR)) == "LeastUsedBAR(4,luw=1.00)"
    assert str(LeastUsedBAR(PROVIDER, FOUR, alias="LU_BAR")) == "LU_BAR"
