"""The rules by which every derived value is refreshed or rebuilt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.derived import Derived, DerivedRows, few_rows
from stowplan.cluster.journal import ChangeLog
from stowplan.testing import node, pod


class Total(Derived[int]):
    """The sum of all numbers that were ever logged."""

    MOST_CHANGES = 3

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []
        self.total = 0
        self.rebuilt = self.refreshed = 0
        self.breaks = False

    def rebuild(self) -> None:
        self.rebuilt += 1
        self.total = sum(self.numbers)

    def refresh(self, changes: list[int]) -> None:
        self.refreshed += 1
        for change in changes:
            self.total += change
            if self.breaks:
                raise ValueError("broken on purpose")


class Numbers:
    def __init__(self) -> None:
        self.log: ChangeLog[int] = ChangeLog()
        self.total = Total()

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.total.numbers.append(number)
            self.log.append(number)

    def read(self, generation: int = 0) -> tuple[int, int, int]:
        self.total.update(generation, self.log)
        return self.total.total, self.total.rebuilt, self.total.refreshed


def test_the_first_update_rebuilds() -> None:
    numbers = Numbers()
    numbers.add(1, 2)
    assert numbers.total.update(0, numbers.log), "the owner must state its size"
    assert numbers.read() == (3, 1, 0)


def test_no_change_costs_nothing() -> None:
    numbers = Numbers()
    assert numbers.read() == numbers.read() == (0, 1, 0)


def test_few_changes_refresh() -> None:
    numbers = Numbers()
    numbers.read()
    numbers.add(1, 2, 3)
    assert not numbers.total.update(0, numbers.log)
    assert numbers.read() == (6, 1, 1)


def test_more_changes_than_the_value_allows_rebuild() -> None:
    numbers = Numbers()
    numbers.read()
    numbers.add(1, 2, 3, 4)
    assert numbers.read() == (10, 2, 0)


def test_another_generation_rebuilds() -> None:
    numbers = Numbers()
    numbers.read(generation=1)
    assert numbers.read(generation=2) == (0, 2, 0)
    assert numbers.read(generation=2) == (0, 2, 0)


def test_changes_that_the_log_has_dropped_rebuild() -> None:
    numbers = Numbers()
    numbers.read()
    numbers.add(5)
    numbers.log.keep_newest(0)
    assert numbers.read() == (5, 2, 0)


def test_a_log_that_restarts_rebuilds() -> None:
    numbers = Numbers()
    numbers.read()
    numbers.log.restart()
    assert numbers.read() == (0, 2, 0)


def test_another_log_rebuilds_although_as_much_happened_in_it() -> None:
    """So a value that belongs to another table or to an evicted counter is never used."""
    numbers = Numbers()
    numbers.add(1)
    numbers.read()
    numbers.log = ChangeLog()
    numbers.add(2)
    assert numbers.read() == (3, 2, 0)


def test_a_refresh_that_breaks_rebuilds_next_time() -> None:
    numbers = Numbers()
    numbers.read()
    numbers.add(1, 2)
    numbers.total.breaks = True
    with pytest.raises(ValueError, match="on purpose"):
        numbers.read()
    numbers.total.breaks = False
    assert numbers.read() == (3, 2, 1)


def test_several_logs_are_followed_together() -> None:
    first, second = logs = ChangeLog[int](), ChangeLog[int]()
    value: Derived[int] = Derived(None, logs)
    second.append(2)
    first.append(1)
    assert value.changes(None, logs) == [1, 2]
    value.confirm(None)
    second.append(3)
    assert value.changes(None, logs) == [3]
    value.confirm(None)
    second.restart()
    assert value.changes(None, logs) is None


def test_changes_that_are_not_confirmed_rebuild_next_time() -> None:
    """What should have applied them was interrupted, or chose to rebuild and was interrupted."""
    first, second = logs = ChangeLog[int](), ChangeLog[int]()
    value: Derived[int] = Derived(None, logs)
    assert value.changes(None, logs) == [] == value.changes(None, logs)
    first.append(1)
    assert value.changes(None, logs) == [1]
    assert value.changes(None, logs) is None
    value.stamp(None, logs)
    first.append(2)
    second.restart()
    assert value.changes(None, logs) is None
    assert value.changes(None, logs) is None, "although those of the first log are known"


def test_without_a_refresh_of_its_own_a_value_is_rebuilt() -> None:
    class Simple(Derived[int]):
        rebuilt = 0

        def rebuild(self) -> None:
            self.rebuilt += 1

    value, log = Simple(), ChangeLog[int]()
    value.update(None, log)
    log.append(1)
    value.update(None, log)
    assert value.rebuilt == 2


# Values by row


@pytest.fixture
def cache() -> ClusterCache:
    cache = ClusterCache()
    for number in range(32):
        cache.set_node(node(f"n{number}"))
    cache.add_pod(pod("there", uid="there", node="n0"))
    return cache


def test_a_pod_that_comes_or_goes_changes_its_row(cache: ClusterCache) -> None:
    value = DerivedRows(cache.table)
    assert value.changed_rows(cache.table) == []
    cache.add_pod(pod(node="n3"))
    cache.remove_pod("there")
    rows = sorted((cache.table.row_of["n0"], cache.table.row_of["n3"]))
    assert value.changed_rows(cache.table) == rows
    value.confirm_rows(cache.table)
    assert value.changed_rows(cache.table) == []


def test_annotations_and_status_change_a_row_only_for_values_that_read_them(
    cache: ClusterCache,
) -> None:
    specs = DerivedRows(cache.table)
    details = DerivedRows(cache.table, reads_details=True)
    late = DerivedRows(cache.table)
    late.follow_details(cache.table)
    cache.update_pod(pod("there", uid="there", node="n0", phase="Running"))
    assert specs.changed_rows(cache.table) == []
    assert details.changed_rows(cache.table) == [cache.table.row_of["n0"]]
    assert late.changed_rows(cache.table) == [cache.table.row_of["n0"]]


def test_a_node_that_comes_changes_or_goes_rebuilds(cache: ClusterCache) -> None:
    changes: list[Callable[[], None]] = [
        lambda: cache.set_node(node("new")),
        lambda: cache.set_node(node("new", labels={"a": "b"})),
        lambda: cache.remove_node("new"),
    ]
    for change in changes:
        value = DerivedRows(cache.table)
        assert value.has_same_nodes(cache.table)
        change()
        assert not value.has_same_nodes(cache.table)
        assert value.changed_rows(cache.table) is None


def test_a_table_that_grows_rebuilds_even_if_only_for_a_ghost(cache: ClusterCache) -> None:
    value = DerivedRows(cache.table)
    capacity = cache.table.capacity
    number = 0
    while cache.table.capacity == capacity:
        assert value.changed_rows(cache.table) is not None
        value.confirm_rows(cache.table)
        cache.add_pod(pod(node=f"unknown-{number}"))
        number += 1
    assert value.changed_rows(cache.table) is None


def test_another_table_rebuilds(cache: ClusterCache) -> None:
    other = ClusterCache()
    other.set_node(node("n0"))
    assert DerivedRows(cache.table).changed_rows(other.table) is None
    assert DerivedRows(other.table).changed_rows(cache.table) is None


def test_a_quarter_of_the_rows_rebuilds(cache: ClusterCache) -> None:
    table = cache.table
    journals = (table.pod_journal,)
    assert few_rows(list(range(11)), journals, table) == list(range(11))
    assert few_rows(list(range(12)), journals, table) is None
    assert few_rows(None, journals, table) is None


def test_rows_of_two_journals_are_distinct_and_in_order(cache: ClusterCache) -> None:
    table = cache.table
    value = DerivedRows(table, reads_details=True)
    for row in (3, 1):
        table.pod_journal.mark(row)
        table.detail_journal.mark(row)
    assert value.changed_rows(table) == [1, 3]
