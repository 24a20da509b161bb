"""All that each algorithm shows on /metrics after one filter and one prioritize, by hand.

One cluster for all of them. Three pods of `a` are on `n`, none on `m`; with one pod more

         n                                        m
    cpu  (3*1 + 1) / 8                    = 1/2   1/4
    mem  (3*1 + 1) / 16                   = 1/4   1/16
    bandwidth, reads and writes as one number, n reading 40/10 = 4 times as fast as it writes and
    m 16/8 = 2 times:
         4*(3 + 4*0.5) / (40 + 4*10)      = 1/4   (3 + 2*0.5) / (16 + 2*8) = 1/8
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from stowplan.extender import Algorithm
from stowplan.extender.algorithms import (
    BAR,
    DramHitRatioProvision,
    Fit,
    HierBAR,
    LeastUsed,
    LeastUsedBAR,
    NOPAlgorithm,
    Score,
    StaticAssigner,
)
from stowplan.extender.data import Resource
from stowplan.extender.metrics import Metric, MetricMetadata, MetricRegistry, MetricType

from .memory_provider import MemoryProvider, asked

CPU, MEM = Resource.CPU, Resource.MEM
FOUR = (CPU, MEM, Resource.MEMBW_READ, Resource.MEMBW_WRITE)
CLUSTER = MemoryProvider(
    {
        "n": {"cpu": 8.0, "mem": 16.0, "membw_read": 40.0, "membw_write": 10.0},
        "m": {"cpu": 4.0, "mem": 16.0, "membw_read": 16.0, "membw_write": 8.0},
    },
    {"a": {"cpu": 1.0, "mem": 1.0, "membw_read": 3.0, "membw_write": 0.5}},
    {"n": {"a": 3}},
    dram_hit_ratio={"n": 0.98, "m": 0.9},
    profiles={"a": 0.5, "b": 1.0, "c": 2.0},
    types={"n": "pmem", "m": "dram"},
)


def by_resource(name: str, *values: float, **labels: str) -> dict[str, float]:
    """One line for each of the four dimensions."""
    who = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return {
        f'{name}{{{who},resource="{resource.value}"}}': value
        for resource, value in zip(FOUR, values, strict=True)
    }


def by_node(name: str, *, n: float, m: float) -> dict[str, float]:
    return {f'{name}{{app="a",node="n"}}': n, f'{name}{{app="a",node="m"}}': m}


FIT = {
    **by_resource("app_requested_resource", 1, 1, 3, 0.5, app="a"),
    **by_resource("node_capacity_resource", 8, 16, 40, 10, node="n"),
    **by_resource("node_capacity_resource", 4, 16, 16, 8, node="m"),
    # Three pods: 3*1, 3*1, 3*3, 3*0.5.
    **by_resource("node_used_resource", 3, 3, 9, 1.5, node="n"),
    **by_resource("node_used_resource", 0, 0, 0, 0, node="m"),
    # 8 - 3, 16 - 3, 40 - (9 + 1.5*4) and 10 - (1.5 + 9/4).
    **by_resource("node_free_resource", 5, 13, 25, 6.25, node="n"),
    **by_resource("node_free_resource", 4, 16, 16, 8, node="m"),
    # 25 + 4*6.25 and 16 + 2*8.
    **by_node("fit_predicted_membw_flat_usage", n=50, m=32),
}
#: Without the name of a node, so that of the last one stays: n, as nodes go by name.
FRACTIONS = {
    'bar_requested_fraction{app="a",resource="cpu"}': 1 / 2,
    'bar_requested_fraction{app="a",resource="mem"}': 1 / 4,
    'bar_requested_fraction{app="a",resource="membw_flat"}': 1 / 4,
}
#: The free parts over the five weights of 1: (1/2 + 3/4 + 3/4) / 5 = 0.4 and
#: (3/4 + 15/16 + 7/8) / 5 = 41/16 / 5 = 0.5125.
LEAST_USED = by_node("bar_least_used_score", n=0.4, m=0.5125)
#: n: the mean is 1/3, from which 1/6, -1/12 and -1/12 are away: (4 + 1 + 1)/144 / 3 = 1/72.
#: m: the mean is (12 + 3 + 6)/48 / 3 = 7/48, from which 5/48, -4/48 and -1/48 are away:
#: (25 + 16 + 1)/2304 / 3 = 7/1152.
BALANCE = {
    **by_node("bar_mean", n=1 / 3, m=7 / 48),
    **by_node("bar_variance", n=1 / 72, m=7 / 1152),
    **by_node("bar_score", n=71 / 72, m=1145 / 1152),
}
SHAPES = {
    "n": "cpu=8,mem=16,membw_read=40,membw_write=10",
    "m": "cpu=4,mem=16,membw_read=16,membw_write=8",
}
NEEDS = "cpu=1,mem=1,membw_read=3,membw_write=0"
#: A pod takes 1/8, 1/16 and (3 + 4*0.5)/80 = 1/16 of an empty n: the mean is 1/12, from which 2/48,
#: -1/48 and -1/48 are away, and the root of (4 + 1 + 1)/2304 / 2 is sqrt(3)/48. Of an empty m it
#: takes what it takes of m as it is: sqrt((25 + 16 + 1)/2304 / 2) = sqrt(21)/48.
CLASSES = {
    f'hierbar_node_shape_numbers{{shape="{SHAPES["n"]}"}}': 1,
    f'hierbar_node_shape_numbers{{shape="{SHAPES["m"]}"}}': 1,
    **{
        f'hierbar_node_shape_app_variance{{app="a",app_requested="{NEEDS}",shape="{SHAPES[node]}"}}':
        math.sqrt(root) / 48
        for node, root in (("n", 3), ("m", 21))
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("algorithm", "scores", "shown"),
    [
        (Fit(CLUSTER, FOUR), "[m=0, n=0]", FIT),
        # 5.125 and 4.
        (LeastUsed(CLUSTER, FOUR), "[m=5, n=4]", FIT | FRACTIONS | LEAST_USED),
        # 9.94 and 9.86.
        (BAR(CLUSTER, FOUR), "[m=9, n=9]", FIT | FRACTIONS | BALANCE),
        # 5 * (0.5125 + 0.9939) = 7.53 and 5 * (0.4 + 0.9861) = 6.93.
        (
            LeastUsedBAR(CLUSTER, FOUR),
            "[m=7, n=6]",
            FIT | FRACTIONS | LEAST_USED | BALANCE
            | by_node("bar_result", n=0.4 + 71 / 72, m=0.5125 + 1145 / 1152),
        ),
        # The square of the CPUs counts twice in the balance, and the least used score twice.
        # Of n (4*2 + 1 + 1)/144 / 3 = 5/216, of m (25*2 + 16 + 1)/2304 / 3 = 67/6912. The factor is
        # 10/3.
        (
            LeastUsedBAR(CLUSTER, FOUR, bar_weights={CPU: 2.0}, least_used_weight=2),
            "[m=6, n=5]",
            FIT | FRACTIONS | LEAST_USED | BALANCE
            | by_node("bar_variance", n=5 / 216, m=67 / 6912)
            | by_node("bar_score", n=211 / 216, m=6845 / 6912)
            | by_node("bar_result", n=0.8 + 211 / 216, m=1.025 + 6845 / 6912),
        ),
        (
            HierBAR(CLUSTER, FOUR),
            "[m=7, n=6]",
            FIT | FRACTIONS | LEAST_USED | BALANCE | CLASSES
            | by_node("bar_result", n=0.4 + 71 / 72, m=0.5125 + 1145 / 1152),
        ),
        (
            DramHitRatioProvision(CLUSTER),
            "[m=0, n=0]",
            {'node_dram_hit_ratio_can_schedule{node="n"}': 1,
             'node_dram_hit_ratio_can_schedule{node="m"}': 0},
        ),
        # The ratio of m plays no part, as it has no persistent memory.
        (
            Score(CLUSTER, FOUR),
            "[m=0, n=0]",
            FIT | {'node_dram_hit_ratio_can_schedule{node="n"}': 1},
        ),
        (StaticAssigner(CLUSTER, {"n": {"a": 4}}), "[m=0, n=0]", {}),
    ],
    ids=str,
)  # fmt: skip
def test_scores_and_all_that_is_shown(
    algorithm: Algorithm, scores: str, shown: dict[str, float]
) -> None:
    algorithm.filter(asked("a", "n", "m"))
    assert str(algorithm.prioritize(asked("a", "n", "m"))) == scores
    registry = algorithm.get_metrics_registry()
    assert registry is not None
    assert values(registry) == pytest.approx(shown)


def values(registry: MetricRegistry) -> dict[str, float]:
    """The lines of the page by what stands before the number, without the prefix of all names."""
    split = (line.rpartition(" ") for line in registry.lines() if not line.startswith("#"))
    return {name.removeprefix("wca_scheduler_"): float(value) for name, _, value in split}


def test_the_class_that_matches_less_is_told_with_both_numbers() -> None:
    # sqrt(3)/48 = 0.036 and sqrt(21)/48 = 0.095.
    result = HierBAR(CLUSTER, FOUR).filter(asked("a", "m", "n"))
    assert result.NodeNames == ["n"]
    assert result.FailedNodes == {"m": "Not best class (best_variance=0.04 this=0.10)"}


def test_nop_shows_nothing() -> None:
    assert NOPAlgorithm().get_metrics_registry() is None


def test_working_set_and_flat_bandwidth_are_dimensions_like_others() -> None:
    # 16 - 2*6 - 6 = -2 of the working set, and 20 - 2*7 - 7 = -1 of the bandwidth.
    node = {"cpu": 8.0, "mem": 16.0, "wss": 16.0, "membw_flat": 20.0}
    app = {"cpu": 1.0, "mem": 2.0, "wss": 6.0, "membw_flat": 7.0}
    dimensions = (CPU, MEM, Resource.WSS, Resource.MEMBW_FLAT)
    full = MemoryProvider({"n": node}, {"a": app}, {"n": {"a": 2}})
    assert Fit(full, dimensions).filter(asked("a", "n")).FailedNodes == {
        "n": "Could not fit node for dimensions: missing (wss: 2.0),(membw_flat: 1.0)."
    }
    # One pod there and one more: 2/8, 4/16, 12/16 and 14/20 are used. The weight of membw_flat is
    # among the four of the dimensions: (0.75 + 0.75 + 0.25 + 0.3) / 4 = 0.5125.
    # The mean is (0.25 + 0.25 + 0.75 + 0.7) / 4 = 0.4875, the squares 2*0.2375² + 0.2625² + 0.2125²
    # = 0.1128 + 0.0689 + 0.0452 = 0.2269, and 1 - 0.2269/4 = 0.9433.
    half = MemoryProvider({"n": node}, {"a": app}, {"n": {"a": 1}})
    assert str(LeastUsed(half, dimensions).prioritize(asked("a", "n"))) == "[n=5]"
    assert str(BAR(half, dimensions).prioritize(asked("a", "n"))) == "[n=9]"
    algorithm = LeastUsedBAR(half, dimensions)
    algorithm.prioritize(asked("a", "n"))
    shown = values(algorithm.metrics)
    assert shown['bar_variance{app="a",node="n"}'] == pytest.approx(0.056718750)
    assert shown['bar_result{app="a",node="n"}'] == pytest.approx(0.5125 + 1 - 0.056718750)
    # There is nothing to be made one number of.
    assert not [name for name in shown if name.startswith("fit_predicted_membw_flat_usage")]


def test_a_registry_keeps_gauges_and_adds_up_counters() -> None:
    registry = MetricRegistry(
        {
            "free": MetricMetadata("What is free.", MetricType.GAUGE),
            "seen": MetricMetadata("What was seen.", MetricType.COUNTER),
        }
    )
    assert registry.get_names() == []
    registry.extend([Metric("free", 2, {"node": "n"}), Metric("seen", 2), Metric("seen", 3)])
    registry.add(Metric("free", 1.5, {"node": "n"}))
    registry.add(Metric("free", 4, {"resource": "cpu", "node": "m"}))
    assert registry.get_names() == ["free", "seen"]
    expected: dict[str, Any] = {
        "free": {(("node", "n"),): 1.5, (("node", "m"), ("resource", "cpu")): 4.0},
        "seen": {(): 5.0},
    }
    assert registry.as_dict() == expected
    for stranger in (registry.add, lambda metric: registry.table(metric.name)):
        with pytest.raises(KeyError, match="other"):
            stranger(Metric("other", 1))
    registry.clean()
    assert (registry.get_names(), registry.as_dict()) == ([], {})
    registry.add(Metric("seen", 1))
    assert registry.as_dict() == {"seen": {(): 1.0}}
