"""Aligned columns, as kubectl prints them."""

from __future__ import annotations

import pytest

from stowplan.present.tables import format_figures, format_table


def test_columns_are_aligned_three_spaces_apart() -> None:
    text = format_table(["Name", "Node", "Age"], [["a", "node-1", 5], ["longer-name", "", None]])
    assert text == (
        "NAME          NODE     AGE\na             node-1   5\nlonger-name   <none>   <none>\n"
    )


def test_zero_and_false_are_values() -> None:
    assert format_table(["N", "B"], [[0, False]]) == "N   B\n0   False\n"


def test_only_headers() -> None:
    assert format_table(["A", "B"], []) == "A   B\n"


def test_cells_cannot_break_the_line_or_move_the_cursor() -> None:
    assert format_table(["A"], [["x\ny\x1b[2J"], ["plain é 船"]]) == (
        "A\nx\\ny\\x1b[2J\nplain é 船\n"
    )


def test_headers_cannot_either() -> None:
    assert format_table(["a\x1b[31mred\x07"], []) == "A\\x1b[31MRED\\x07\n"
    assert format_table(["a\x9b31m"], [], upper=False) == "a\\x9b31m\n"


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under 2 headers"):
        format_table(["A", "B"], [["x"]])


def test_figures_are_aligned_to_the_right() -> None:
    lines = [["", "ours", "theirs"], ["pods/s", "1200", "300"]]
    assert format_figures(lines) == "        ours  theirs\npods/s  1200     300"
