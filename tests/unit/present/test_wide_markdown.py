"""Pages in a language without spaces."""

from __future__ import annotations

from stowplan.present.markdown import render


def test_a_line_break_between_wide_characters_is_no_space() -> None:
    assert render("部品が\n一つずつ\n") == "部品が一つずつ\n"


def test_a_line_break_beside_a_word_is_a_space() -> None:
    assert render("部品は\nstore と\nPod です\n") == "部品は store と Pod です\n"
    assert render("some\nwords\n") == "some words\n"


def test_wide_characters_are_wrapped_by_their_columns() -> None:
    lines = render("一つのスケジューラーを育てていきます。" * 5).splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 38 for line in lines)
    assert not any(line.startswith("。") for line in lines)
