"""HierBAR: classes of nodes, with their variances worked out by hand."""

from __future__ import annotations

import math

import pytest

from stowplan.extender.algorithms import HierBAR
from stowplan.extender.data import Resource

from .memory_provider import MemoryProvider, asked, gauge

FOUR = (Resource.CPU, Resource.MEM, Resource.MEMBW_READ, Resource.MEMBW_WRITE)

#: A pod of `a` is 2/32 = 0.0625 of the CPUs and 16/32 = 0.5 of the memory of an even node: the
#: standard deviation of two numbers is their distance over the root of 2, 0.4375/1.4142 = 0.309.
#: Of a node with much memory it is 2/16 = 16/128 = 0.125 both times: 0.
NODES = {
    "even-1": {"cpu": 32.0, "mem": 32.0},
    "roomy": {"cpu": 16.0, "mem": 128.0},
    "even-2": {"cpu": 32.0, "mem": 32.9},
}
APPS = {"a": {"cpu": 2.0, "mem": 16.0}}


def test_the_best_class_stays() -> None:
    result = HierBAR(MemoryProvider(NODES, APPS)).filter(asked("a", "even-2", "roomy", "even-1"))
    assert result.NodeNames == ["roomy"]
    # even-2 is of the shape of even-1 (whole numbers count), whose average memory is 32.45:
    # |0.0625 - 16/32.45| / 1.4142 = (0.4931 - 0.0625) / 1.4142 = 0.3045.
    reason = "Not best class (best_variance=0.00 this=0.30)"
    assert result.FailedNodes == {"even-2": reason, "even-1": reason}


def test_the_next_class_if_the_best_has_nobody_left() -> None:
    # One pod of b takes all CPUs of the node with much memory.
    apps = APPS | {"b": {"cpu": 15.0, "mem": 1.0}}
    provider = MemoryProvider(NODES, apps, {"roomy": {"b": 1}})
    result = HierBAR(provider).filter(asked("a", "even-2", "roomy", "even-1"))
    assert result.NodeNames == ["even-2", "even-1"]
    assert result.FailedNodes == {"roomy": "Could not fit node for dimensions: missing (cpu: 1.0)."}


def test_classes_are_those_of_the_cluster_not_of_the_request() -> None:
    # even-2 alone is asked about, and judged with even-1's capacity in the average.
    algorithm = HierBAR(MemoryProvider(NODES, APPS))
    assert algorithm.filter(asked("a", "even-2")).NodeNames == ["even-2"]
    shown = algorithm.metrics
    assert gauge(shown, "hierbar_node_shape_numbers", shape="cpu=32,mem=32") == 2
    assert gauge(shown, "hierbar_node_shape_numbers", shape="cpu=16,mem=128") == 1
    variance = gauge(
        shown,
        "hierbar_node_shape_app_variance",
        app="a",
        app_requested="cpu=2,mem=16",
        shape="cpu=32,mem=32",
    )
    assert variance == pytest.approx((16 / 32.45 - 0.0625) / math.sqrt(2))


#: Nodes that read 40/10 = 4 and 40/8 = 5 times as fast as they write, and one that reads
#: 100/80 = 1.25 times as fast.
MERGED_NODES = {
    "pmem-1": {"cpu": 40.0, "mem": 1000.0, "membw_read": 40.0, "membw_write": 10.0},
    "dram": {"cpu": 40.0, "mem": 200.0, "membw_read": 100.0, "membw_write": 80.0},
    "pmem-2": {"cpu": 40.0, "mem": 800.0, "membw_read": 40.0, "membw_write": 8.0},
}
#: Of the average of the first two (40 CPUs, 900 GB, reads 40, writes 9, so r = 40/9) it is
#: 4/40 = 0.1, 90/900 = 0.1 and (4 + 0.9*40/9) / (40 + 9*40/9) = 8/80 = 0.1: deviation 0.
#: Of the other it is 0.1, 90/200 = 0.45 and (4 + 0.9*1.25) / (100 + 80*1.25) = 5.125/200 = 0.0256:
#: the mean is 0.1919, the squares 0.0084 + 0.0666 + 0.0276 = 0.1027, and the root of their half is
#: 0.2266.
MERGED_APPS = {"a": {"cpu": 4.0, "mem": 90.0, "membw_read": 4.0, "membw_write": 0.9}}


def test_classes_merged_into_two() -> None:
    algorithm = HierBAR(MemoryProvider(MERGED_NODES, MERGED_APPS), FOUR, merge_threshold=2.0)
    result = algorithm.filter(asked("a", "pmem-2", "dram", "pmem-1"))
    assert result.NodeNames == ["pmem-2", "pmem-1"]
    assert result.FailedNodes == {"dram": "Not best class (best_variance=0.00 this=0.23)"}
    shape = "cpu=40,mem=900,membw_read=40,membw_write=9"
    assert gauge(algorithm.metrics, "hierbar_node_shape_numbers", shape=shape) == 2
    shape = "cpu=40,mem=200,membw_read=100,membw_write=80"
    assert gauge(algorithm.metrics, "hierbar_node_shape_numbers", shape=shape) == 1


def test_a_ratio_at_the_threshold_is_below() -> None:
    # 4 is not above 4: pmem-1 goes with dram, and pmem-2 stays alone.
    algorithm = HierBAR(MemoryProvider(MERGED_NODES, MERGED_APPS), FOUR, merge_threshold=4.0)
    algorithm.filter(asked("a", "pmem-2", "dram", "pmem-1"))
    counts = algorithm.metrics.as_dict()["hierbar_node_shape_numbers"]
    assert counts == {
        (("shape", "cpu=40,mem=800,membw_read=40,membw_write=8"),): 1.0,
        (("shape", "cpu=40,mem=600,membw_read=70,membw_write=45"),): 2.0,
    }


def test_nodes_that_cannot_be_merged_are_not_judged() -> None:
    nodes = MERGED_NODES | {"odd": {"cpu": 40.0, "mem": 900.0}}
    algorithm = HierBAR(MemoryProvider(nodes, MERGED_APPS), FOUR, merge_threshold=2.0)
    assert algorithm.filter(asked("a", "dram", "odd", "pmem-1")).NodeNames == ["odd", "pmem-1"]


def test_unknown_nodes_are_kept() -> None:
    nodes = NODES | {"empty": {}, "no-number": {"cpu": math.nan, "mem": math.inf}}
    algorithm = HierBAR(MemoryProvider(nodes, APPS))
    names = ["stranger", "even-1", "empty", "roomy", "no-number"]
    assert algorithm.filter(asked("a", *names)).NodeNames == [
        "stranger",
        "empty",
        "roomy",
        "no-number",
    ]
    assert algorithm.filter(asked("a", "stranger")).NodeNames == ["stranger"]
    assert algorithm.filter(asked("nobody", "even-1")).NodeNames == ["even-1"]


def test_one_dimension_has_no_proportions() -> None:
    algorithm = HierBAR(MemoryProvider(NODES, APPS), [Resource.CPU])
    assert algorithm.filter(asked("a", "even-1", "roomy")).NodeNames == ["even-1", "roomy"]


def test_rated_as_least_used_bar() -> None:
    # cpu 2/16 and mem 16/128 used, 7/8 free: (7/8 + 7/8) / 3 + (1 - 0) = 1.583, times 5.
    algorithm = HierBAR(MemoryProvider(NODES, APPS))
    assert str(algorithm.prioritize(asked("a", "roomy"))) == "[roomy=7]"


def test_names() -> None:
    provider = MemoryProvider()
    assert str(HierBAR(provider)) == "HierBAR(2)"
    assert str(HierBAR(provider, FOUR, merge_threshold=2.5)) == "HierBAR(4,merge=2.5)"
    assert str(HierBAR(provider, FOUR, alias="hier")) == "hier"
