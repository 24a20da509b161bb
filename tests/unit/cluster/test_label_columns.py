"""When a label column is built, written through, numbered again and evicted."""

from __future__ import annotations

from stowplan.cluster import bytes_lru
from stowplan.cluster.label_columns import ABSENT, LabelColumns


class Labelled:
    """Things with labels, and their columns."""

    def __init__(self, *labels: dict[str, str], limit_bytes: int = 1 << 20) -> None:
        self.labels: list[dict[str, str]] = [{} for _ in labels]
        self.columns = LabelColumns(self.labels.__getitem__, 8, limit_bytes=limit_bytes)
        for index, new in enumerate(labels):
            self.write(index, **new)

    def write(self, index: int, **new: str) -> None:
        old, self.labels[index] = self.labels[index], new
        self.columns.write(index, old, new)

    def shown(self, key: str) -> list[str | None]:
        column = self.columns.find(key)
        return [
            None if number == ABSENT else column.values.values[number]
            for number in column.value_ids[: len(self.labels)]
        ]


def test_a_value_that_changes_is_written_through_and_changes_the_version() -> None:
    things = Labelled({"zone": "a"}, {"zone": "b"})
    assert things.shown("zone") == ["a", "b"]
    before = things.columns.version("zone")
    things.write(0, zone="c")
    assert things.shown("zone") == ["c", "b"]
    assert things.columns.version("zone") != before


def test_a_label_that_goes_is_absent() -> None:
    things = Labelled({"zone": "a"}, {"zone": "b"})
    things.shown("zone")
    things.write(0)
    assert things.shown("zone") == [None, "b"]


def test_other_labels_leave_the_version_alone() -> None:
    things = Labelled({"zone": "a"}, {"zone": "b"})
    before = things.columns.version("zone")
    things.write(0, zone="a", disk="ssd")
    assert things.columns.version("zone") == before


def test_a_key_that_nothing_carries_has_version_0_and_no_bytes() -> None:
    things = Labelled({"zone": "a"})
    assert things.columns.version("rack") == 0
    assert things.shown("rack") == [None]
    assert things.columns.tells_apart("rack")
    assert things.columns.nbytes == 0


def test_the_last_carrier_that_goes_drops_the_column_and_changes_the_set_of_keys() -> None:
    things = Labelled({"zone": "a"})
    things.shown("zone")
    keys = things.columns.keys_version
    things.write(0)
    assert things.columns.keys_version != keys
    assert (things.columns.version("zone"), things.columns.nbytes) == (0, 0)


def test_growth_rebuilds_columns_under_another_version() -> None:
    things = Labelled({"zone": "a"}, {"zone": "b"})
    before = things.columns.version("zone")
    things.columns.grow(16)
    assert things.shown("zone") == ["a", "b"]
    assert len(things.columns.column("zone")) == 16
    assert things.columns.version("zone") != before


def test_an_evicted_column_comes_back_under_another_version() -> None:
    """Its value ids may be others."""
    things = Labelled({"zone": "b", "rack": "r"}, {"zone": "a"}, limit_bytes=1)
    things.shown("zone")
    before = things.columns.version("zone")
    things.write(0, zone="a", rack="r")
    things.shown("rack")
    assert things.shown("zone") == ["a", "a"]
    assert things.columns.version("zone") != before


def test_a_column_that_is_not_asked_for_is_evicted_in_time() -> None:
    things = Labelled({"zone": "a"})
    things.shown("zone")
    things.columns.advance(bytes_lru.IDLE_TICKS)
    assert things.columns.nbytes == 0
    assert things.shown("zone") == ["a"]


def test_whether_values_tell_apart_follows_the_values() -> None:
    things = Labelled({"host": "a"}, {"host": "b"})
    assert things.columns.tells_apart("host")
    things.write(1, host="a")
    assert not things.columns.tells_apart("host")


def test_numbers_follow_new_values() -> None:
    things = Labelled({"size": "1"}, {"size": "x"})
    assert things.columns.numbers("size")[0].tolist() == [1, 0]
    things.write(1, size="7")
    numbers, are_numbers = things.columns.numbers("size")
    assert numbers[things.columns.column("size")[1]] == 7
    assert are_numbers.tolist() == [True, False, True]
