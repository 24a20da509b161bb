"""The memory of texts: read once, forgotten by age when there is too much of it."""

from __future__ import annotations

import pytest

from stowplan.judge.memory import Memory


def test_a_text_is_read_once_for_each_way() -> None:
    memory: Memory[list[str]] = Memory(100)
    first = memory.recall(b"text", "one way", lambda: ["read"])
    assert memory.recall(b"text", "one way", lambda: ["read again"]) is first
    assert memory.recall(b"text", "another", lambda: ["other"]) == ["other"]


def test_who_was_not_asked_for_longest_goes_first() -> None:
    memory: Memory[str] = Memory(10)
    for text in (b"aaaa", b"bbbb"):
        memory.recall(text, None, text.decode)
    memory.recall(b"aaaa", None, lambda: "known already")
    memory.recall(b"cccc", None, lambda: "new")
    assert len(memory) == 2
    assert memory.recall(b"aaaa", None, lambda: "forgotten") == "aaaa"
    assert memory.recall(b"bbbb", None, lambda: "forgotten") == "forgotten"


def test_what_is_larger_than_all_of_it_is_not_kept() -> None:
    memory: Memory[str] = Memory(3)
    assert memory.recall(b"aaaa", None, lambda: "read") == "read"
    assert len(memory) == 0


def test_failures_are_not_remembered() -> None:
    memory: Memory[str] = Memory(10)

    def refuse() -> str:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            memory.recall(b"a", None, refuse)
    assert memory.recall(b"a", None, lambda: "read after all") == "read after all"
