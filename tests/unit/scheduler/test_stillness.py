"""What changes the cluster waits for the decision under way, and keeps its order."""

from __future__ import annotations

import pytest

from stowplan.scheduler.stillness import Stillness


def test_nothing_waits_when_nothing_is_still() -> None:
    done: list[str] = []
    stillness = Stillness()
    stillness.do(done.append, "a")
    stillness.guard(done.append)("b")
    assert done == ["a", "b"]


def test_changes_wait_and_keep_their_order() -> None:
    done: list[str] = []
    stillness = Stillness()
    with stillness:
        stillness.guard(done.append)("a")
        stillness.do(done.append, "b")
        assert done == []
    assert done == ["a", "b"]
    stillness.do(done.append, "c")
    assert done == ["a", "b", "c"]


def test_a_change_that_follows_from_one_that_waited_comes_at_once() -> None:
    done: list[str] = []
    stillness = Stillness()

    def first() -> None:
        done.append("a")
        stillness.do(done.append, "follows from a")

    with stillness:
        stillness.do(first)
        stillness.do(done.append, "b")
    assert done == ["a", "follows from a", "b"]


def test_one_that_fails_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    stillness = Stillness()
    with stillness:
        stillness.do(lambda: 1 // 0)
        stillness.do(done.append, "b")
    assert done == ["b"]
    assert "A change that waited" in caplog.text


def test_a_decision_that_is_given_up_lets_changes_through() -> None:
    done: list[str] = []
    stillness = Stillness()

    def give_up() -> None:
        with stillness:
            stillness.do(done.append, "a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert done == ["a"]
