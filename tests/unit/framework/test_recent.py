"""What is kept: from the second use on, while there is room and somebody asks for it."""

from __future__ import annotations

import weakref

import pytest

from stowplan.framework import recent
from stowplan.framework.recent import Recent


def test_a_key_is_wanted_when_it_comes_again() -> None:
    kept = Recent(100)
    assert not kept.is_wanted("a")
    assert kept.is_wanted("a")
    assert not kept.is_wanted("b")
    assert kept.get("a") is None


def test_the_least_recently_used_makes_room() -> None:
    kept = Recent(100)
    kept.keep("a", 1, 40)
    kept.keep("b", 2, 40)
    assert kept.get("a") == 1
    kept.keep("c", 3, 40)
    assert [kept.get(key) for key in "abc"] == [1, None, 3]
    assert kept.is_wanted("a"), "it has a value"


def test_a_newer_value_takes_the_place_of_the_older() -> None:
    kept = Recent(100)
    for number in range(5):
        kept.keep("a", number, 60)
    kept.keep("b", "b", 40)
    assert (kept.get("a"), kept.get("b")) == (4, "b")


def test_what_was_dropped_leaves_its_room() -> None:
    kept = Recent(100)
    kept.keep("a", 1, 100)
    kept.drop("a")
    kept.drop("a")
    kept.keep("b", 2, 60)
    kept.keep("c", 3, 40)
    assert [kept.get(key) for key in "abc"] == [None, 2, 3]


def test_what_is_too_large_is_not_kept() -> None:
    kept = Recent(10)
    kept.keep("a", 1, 11)
    assert kept.get("a") is None
    assert not Recent(0).is_used


def test_what_nobody_asks_for_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_IDLE_USES", 10)
    kept = Recent(1000)
    kept.keep("a", 1, 1)
    kept.keep("b", 2, 1)
    for _ in range(9):
        assert kept.get("b") == 2
    assert kept.get("a") == 1, "not yet"
    for _ in range(10):
        kept.get("b")
    kept.keep("c", 3, 1)
    assert [kept.get(key) for key in "abc"] == [None, 2, 3]


def test_keys_that_came_once_are_forgotten_when_there_are_too_many() -> None:
    kept = Recent(100)
    for number in range(recent._SEEN_LIMIT + 1):
        kept.is_wanted(number)
    assert not kept.is_wanted(0)
    assert kept.is_wanted(recent._SEEN_LIMIT)


def test_of_keys_that_come_once_nothing_stays() -> None:
    class Key:
        """A key that can be seen to go."""

    recent = Recent(1000)
    key = Key()
    gone = weakref.ref(key)
    assert not recent.is_wanted(key)
    assert recent.is_wanted(key)
    del key
    assert gone() is None


def test_large_keys_count() -> None:
    recent = Recent(100_000)
    for number in range(5):
        recent.keep(("pod", number, ("term",) * 500), number, 10)
    assert len(recent) == 3
