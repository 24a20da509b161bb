"""When a cached value is admitted, and when it is evicted."""

from __future__ import annotations

import weakref

import pytest

from stowplan.cluster import bytes_lru
from stowplan.cluster.bytes_lru import BytesLru, SecondUseLru, bytes_of


def values(lru: BytesLru[str, int], keys: str) -> list[int | None]:
    return [lru.get(key) for key in keys]


def test_the_least_recently_used_is_evicted_above_the_budget() -> None:
    lru: BytesLru[str, int] = BytesLru(100)
    lru.put("a", 1, 40)
    lru.put("b", 2, 40)
    assert lru.get("a") == 1
    lru.put("c", 3, 40)
    assert values(lru, "abc") == [1, None, 3]


def test_an_eighth_of_the_budget_is_evicted_at_a_time() -> None:
    lru: BytesLru[str, int] = BytesLru(80)
    for number, key in enumerate("abcdefghi"):
        lru.put(key, number, 10)
    assert (len(lru), lru.nbytes) == (7, 70)
    assert values(lru, "abc") == [None, None, 2]


def test_the_newest_value_stays_even_if_it_is_larger_than_the_budget() -> None:
    lru: BytesLru[str, int] = BytesLru(10)
    lru.put("a", 1, 5)
    lru.put("b", 2, 11)
    assert values(lru, "ab") == [None, 2]


def test_a_newer_value_replaces_the_older_and_its_size() -> None:
    lru: BytesLru[str, int] = BytesLru(100)
    for number in range(5):
        lru.put("a", number, 60)
    lru.put("b", 9, 40)
    assert values(lru, "ab") == [4, 9]
    assert lru.nbytes == 100


def test_a_value_that_grows_evicts_others() -> None:
    lru: BytesLru[str, int] = BytesLru(100)
    lru.put("a", 1, 50)
    lru.put("b", 2, 50)
    lru.resize("b", 60)
    assert (values(lru, "ab"), lru.nbytes) == ([None, 2], 60)


def test_a_dropped_value_frees_its_bytes() -> None:
    lru: BytesLru[str, int] = BytesLru(100)
    lru.put("a", 1, 100)
    lru.drop("a")
    lru.drop("a")
    lru.put("b", 2, 60)
    lru.put("c", 3, 40)
    assert values(lru, "abc") == [None, 2, 3]
    lru.clear()
    assert (len(lru), lru.nbytes) == (0, 0)


def test_a_value_that_is_not_used_for_long_is_evicted() -> None:
    lru: BytesLru[str, int] = BytesLru(1000, idle_ticks=16)
    lru.put("a", 1, 1)
    lru.put("b", 2, 1)
    lru.advance(8)
    assert lru.get("b") == 2
    lru.advance(8)
    assert values(lru, "ab") == [None, 2]


def test_lookups_are_no_time_unless_the_owner_says_so() -> None:
    still: BytesLru[str, int] = BytesLru(1000, idle_ticks=16)
    moving: BytesLru[str, int] = BytesLru(1000, idle_ticks=16, ticks_by_use=True)
    for lru in (still, moving):
        lru.put("a", 1, 1)
        lru.put("b", 2, 1)
        for _ in range(32):
            lru.get("b")
    assert (len(still), len(moving)) == (2, 1)


# Admission on second use


def test_a_key_is_admitted_when_it_is_seen_again() -> None:
    lru = SecondUseLru(100)
    assert not lru.admits("a")
    assert lru.admits("a")
    assert not lru.admits("b")
    assert lru.get("a") is None


def test_a_key_that_has_a_value_is_admitted() -> None:
    lru = SecondUseLru(100)
    lru.put("a", 1, 10)
    assert lru.admits("a")


def test_keys_that_came_once_are_forgotten_when_there_are_too_many() -> None:
    lru = SecondUseLru(100)
    for number in range(bytes_lru.SEEN_LIMIT + 1):
        lru.admits(number)
    assert not lru.admits(0)
    assert lru.admits(bytes_lru.SEEN_LIMIT)


def test_a_key_that_has_no_value_is_not_kept_alive() -> None:
    class Key:
        """A key that can be seen to go."""

    lru, key = SecondUseLru(1000), Key()
    gone = weakref.ref(key)
    assert not lru.admits(key)
    assert lru.admits(key)
    del key
    assert gone() is None


def test_a_shape_that_is_not_looked_up_for_long_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes_lru, "IDLE_LOOKUPS", 16)
    lru = SecondUseLru(1000)
    lru.put("a", 1, 1)
    lru.put("b", 2, 1)
    for _ in range(32):
        lru.get("b")
    assert len(lru) == 1


def test_large_keys_count_and_small_ones_do_not() -> None:
    lru = SecondUseLru(100_000)
    lru.put(("pod", 1), 1, 10)
    assert lru.nbytes == 10
    for number in range(5):
        lru.put(("pod", number, ("term",) * 500), number, 10)
    assert len(lru) < 5
    assert lru.nbytes <= 100_000
    assert bytes_of(("term",) * 500) > 500 * len("term")


def test_without_a_budget_nothing_is_used() -> None:
    assert not SecondUseLru(0).is_used
    assert SecondUseLru(1).is_used


def test_a_value_with_a_large_key_is_evicted_after_fewer_lookups() -> None:
    lru = SecondUseLru(1 << 30)
    large = tuple(f"key-{number}" for number in range(4_000))
    lru.put(large, "large", 10)
    lru.put("small", "small", 10)
    for _ in range(bytes_lru.IDLE_LOOKUPS // 4):
        lru.get("another")
    assert lru.get(large) is None
    assert lru.get("small") == "small"
