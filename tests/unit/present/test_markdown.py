"""Pages on a terminal: wrapped, never wider than asked, code as it is."""

from __future__ import annotations

import unicodedata

import click
from hypothesis import assume, given
from hypothesis import strategies as st

from stowplan.present.markdown import render


def plain(page: str, width: int = 40) -> str:
    return click.unstyle(render(page, width))


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def test_paragraphs_are_wrapped_anew() -> None:
    page = "one two three\nfour five\n\nsix\n"
    assert plain(page, 20) == "one two three four\nfive\n\nsix\n"


def test_code_is_indented_and_never_wrapped() -> None:
    page = "See:\n\n```python\nif x:\n\n    print('a very long line of code indeed')\n```\nDone.\n"
    assert plain(page, 20).splitlines() == [
        "See:",
        "",
        "    if x:",
        "",
        "        print('a very long line of code indeed')",
        "Done.",
    ]


def test_what_looks_like_markdown_in_code_is_left_alone() -> None:
    assert plain("```sh\n# a comment\n- **x**\n```\n") == "    # a comment\n    - **x**\n"


def test_items_hang() -> None:
    page = "- one two three four\n  five\n- six\n1. seven eight nine ten\n"
    assert plain(page, 14).splitlines() == [
        "- one two",
        "  three four",
        "  five",
        "- six",
        "1. seven eight",
        "   nine ten",
    ]


def test_a_comma_stays_with_the_code_before_it() -> None:
    assert plain("aaaa `bbbb`, cc", 9).splitlines() == ["aaaa", "bbbb, cc"]


def test_emphasis_and_headings_are_styled() -> None:
    styled = render("# Title\n\nA **bold** word and `code`.\n")
    assert click.style("Title", bold=True) in styled
    assert click.style("bold", bold=True) in styled
    assert click.style("code", fg="cyan") in styled
    assert "**" not in styled
    assert "`" not in styled


def test_stars_in_code_are_no_emphasis() -> None:
    assert plain("Use `**kwargs` and `a * b`.") == "Use **kwargs and a * b.\n"


def test_wide_characters_take_two_columns_and_wrap_anywhere() -> None:
    lines = plain("スケジューラーは、ノードの名前を書くプログラムです。", 12).splitlines()
    assert len(lines) > 3
    assert all(columns(line) <= 14 for line in lines)  # two more where a stop may not begin a line
    assert not any(line.startswith(("、", "。")) for line in lines)
    assert "".join(lines) == "スケジューラーは、ノードの名前を書くプログラムです。"


@given(st.lists(st.text("abcdefg`*", min_size=1, max_size=10), max_size=30), st.integers(12, 80))
def test_no_line_is_too_wide_and_no_letter_is_lost(words: list[str], width: int) -> None:
    text = " ".join(words)
    assume(not text.startswith("```"))  # it begins a block of code, and names its language
    rendered = plain(text + "\n", width)
    assert all(len(line) <= width for line in rendered.splitlines() if " " in line.strip())
    letters = [char for char in text if char.isalpha()]
    assert [char for char in rendered if char.isalpha()] == letters
