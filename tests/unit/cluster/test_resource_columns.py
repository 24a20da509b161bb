"""Offers and held amounts by resource: dense for what nodes offer, sparse for everything else."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.api.quantity import INT64_MAX
from stowplan.cluster.exact_sums import LARGE, ExactSums
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.cluster.resource_columns import ResourceColumns
from stowplan.cluster.table import CPU_ROW, NodeTable
from stowplan.testing import node, pod

GPU = "example.com/gpu"
NIC = "example.com/nic"


def names(count: int) -> list[str]:
    return [f"example.com/r{number}" for number in range(count)]


def standing(uid: str, **requests: int) -> PodInfo:
    return compile_pod(pod(uid, uid=uid, cpu=None, memory=None, requests=dict(requests)))


def stored(resources: ResourceColumns) -> tuple[int, ...]:
    """Everything that could be left behind."""
    few = resources._few_offers, resources._few_held
    return (resources.nbytes, len(resources._index), *(len(each) for each in few))


def is_as_new(resources: ResourceColumns, capacity: int) -> bool:
    """Whether nothing is stored; matrices may keep the room of one name more."""
    new = ResourceColumns(capacity)
    return stored(resources)[1:] == stored(new)[1:] and resources.nbytes <= 2 * new.nbytes


def test_what_no_node_offers_has_no_index_and_goes_with_the_pod() -> None:
    table = NodeTable()
    row = table.set_node(node("a"))
    before = stored(table.resources)
    many = dict.fromkeys(names(2000), 3)
    table.add_pod("a", standing("p", **many))
    assert table.resources.nbytes == before[0]
    assert table.resources.held_on("example.com/r7", row) == 3
    table.add_pod("elsewhere", standing("q", **many))
    table.remove_pod(row, "p")
    assert table.resources.held_on("example.com/r7", row) == 0
    table.remove_pod(table.row_of["elsewhere"], "q")
    assert stored(table.resources) == before


def test_amounts_of_0_are_not_stored() -> None:
    table = NodeTable()
    table.set_node(node("a", resources={GPU: 0}))
    before = stored(table.resources)
    table.add_pod("a", standing("p", **dict.fromkeys(names(100), 0)))
    assert stored(table.resources) == before
    assert not table.resources.is_offered(GPU)


def test_a_resource_that_a_node_begins_and_ceases_to_offer() -> None:
    table = NodeTable()
    a, b = (table.set_node(node(name)) for name in "ab")
    table.add_pod("a", standing("p", **{GPU: 2}))
    table.add_pod("b", standing("q", **{GPU: 5}))
    before = stored(table.resources)
    table.set_node(node("a", resources={GPU: 4}))
    table.set_node(node("b", resources={GPU: 6}))
    assert table.resources.offered(GPU)[[a, b]].tolist() == [4, 6]
    assert table.resources.held(GPU)[[a, b]].tolist() == [2, 5]
    table.add_pod("a", standing("more", **{GPU: 1}))
    table.set_node(node("a"))
    assert table.resources.offered(GPU)[[a, b]].tolist() == [0, 6]
    table.remove_node("b")
    assert not table.resources.is_offered(GPU)
    assert table.resources.held(GPU)[[a, b]].tolist() == [3, 5]
    table.remove_pod(a, "more")
    assert stored(table.resources) == before


def test_indices_are_used_again_and_the_matrices_shrink() -> None:
    resources = ResourceColumns(8)
    resources.hold(3, [("cpu", 7), (GPU, 1)], 1)
    resources.set_offers(3, {"cpu": 9, NIC: 2})
    for turn in range(50):
        resources.set_offers(1, {f"example.com/turn{turn}": 1})
    assert len(resources.allocatable) == 8
    resources.set_offers(1, dict.fromkeys(names(60), 5))
    assert len(resources.allocatable) == 64
    resources.set_offers(1, {"memory": 4, GPU: 8})
    assert len(resources.allocatable) <= 16
    assert resources.offers_of(1) == {"memory": 4, GPU: 8}
    assert [resources.offered(name)[[1, 3]].tolist() for name in ("cpu", "memory", NIC, GPU)] == [
        [0, 9],
        [4, 0],
        [0, 2],
        [8, 0],
    ]
    assert [resources.held(name)[3] for name in ("cpu", GPU)] == [7, 1]
    assert resources.allocatable[CPU_ROW, 3] == 9


def test_growth_is_amortised() -> None:
    resources = ResourceColumns(8)
    shapes = set()
    for number, name in enumerate(names(61)):
        resources.set_offers(1, {**resources.offers_of(1), name: number + 1})
        shapes.add(resources.allocatable.shape)
    assert shapes == {(size, 8) for size in (4, 8, 16, 32, 64)}


def test_a_node_with_thousands_of_resources_of_its_own() -> None:
    """As a broken device plugin makes them; matrices of 4,096 rows for each would take 640 MB."""
    table = NodeTable(capacity=4_096)
    own = dict.fromkeys(names(5000), 2)
    row = table.set_node(node("odd", resources=own))
    table.add_pod("odd", standing("p", **{"example.com/r4999": 1}))
    assert table.resources.nbytes <= 64 * 4_096 * 2 * 8
    assert table.resources.offered_on("example.com/r4999", row) == 2
    assert table.resources.held("example.com/r4999")[row] == 1
    assert np.flatnonzero(table.resources.offered("example.com/r4999")).tolist() == [row]
    table.remove_node("odd")
    table.remove_pod(row, "p")
    assert is_as_new(table.resources, 4_096)


def test_many_resources_of_many_nodes_are_dense_until_few_nodes_are_left() -> None:
    resources = ResourceColumns(64)
    common = dict.fromkeys(names(100), 1)
    for row in range(8):
        resources.set_offers(row, common)
    assert len(resources._index) == 103
    resources.grow(1_024)
    assert len(resources._index) == 64, "8 of 1,024 rows are too few"
    for row in range(8):
        assert all(resources.offered_on(name, row) == 1 for name in common)
        resources.set_offers(row, {})
    assert is_as_new(resources, 1_024)


def test_sums_that_an_int64_does_not_hold() -> None:
    sums = ExactSums(2, 4)
    for _ in range(3):
        sums.add(1, 2, INT64_MAX)
    assert sums.values[1, 2] == INT64_MAX
    assert sums.exact(1, 2) == 3 * INT64_MAX
    assert sums.exact_column(1).tolist() == [0, 0, 3 * INT64_MAX, 0]
    sums.add(1, 2, 1 - 2 * INT64_MAX)
    assert sums.values[1, 2] == INT64_MAX
    sums.add(1, 2, 5 - INT64_MAX)
    assert sums.values[1, 2] == 6
    assert not sums.large


def test_large_sums_survive_every_change_of_their_index() -> None:
    resources = ResourceColumns(4)
    for _ in range(2):
        resources.hold(1, [(GPU, INT64_MAX)], 1)
    assert resources.held(GPU)[1] == INT64_MAX
    resources.set_offers(0, {NIC: 1})
    resources.set_offers(1, {GPU: 1})
    resources.set_offers(0, {})
    resources.set_offers(2, dict.fromkeys(names(9), 1))
    resources.set_offers(2, {})
    resources.grow(8)
    assert resources.held_on(GPU, 1) == 2 * INT64_MAX
    assert resources.held_exactly(GPU)[1] == 2 * INT64_MAX
    assert resources.held(GPU)[1] == INT64_MAX
    assert resources.is_large("cpu")
    resources.set_offers(1, {})
    assert not resources.is_large("cpu")
    for _ in range(2):
        resources.hold(1, [(GPU, INT64_MAX)], -1)
    assert is_as_new(resources, 8)


@pytest.mark.parametrize("amount", [LARGE - 1, LARGE, INT64_MAX])
def test_two_pods_of_the_largest_request_fill_a_node(amount: int) -> None:
    table = NodeTable()
    row = table.set_node(node("a", resources={GPU: 1}))
    for uid in "pq":
        table.add_pod("a", compile_pod(pod(uid, uid=uid, cpu=f"{amount}m", requests={GPU: amount})))
    assert table.requested[CPU_ROW, row] == min(2 * amount, INT64_MAX)
    assert table.non_zero[CPU_ROW, row] == min(2 * amount, INT64_MAX)
    table.remove_pod(row, "p")
    assert table.requested[CPU_ROW, row] == table.resources.held(GPU)[row] == amount
    table.remove_pod(row, "q")
    assert not table.requested[:, row].any()
    assert not table.non_zero[:, row].any()
