"""Aligned columns, as kubectl prints them: no borders, nothing cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_NOTHING: Final = "<none>"


def format_table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, upper: bool = True
) -> str:
    """Columns under headers, aligned to the left, ending in a newline. `upper` is for words, and
    not for headers that are names.
    """
    lines = [[printable(header.upper() if upper else header) for header in headers]]
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"a row of {len(row)} cells under {len(headers)} headers: {row!r}")
        lines.append([_cell(value) for value in row])
    return "".join(f"{line}\n" for line in _columns(lines, "   ", "<" * len(headers)))


def format_figures(lines: Sequence[Sequence[str]]) -> str:
    """A column of names to the left and columns of figures to the right."""
    return "\n".join(_columns(lines, "  ", "<" + ">" * (len(lines[0]) - 1)))


def counted(number: int, noun: str) -> str:
    """`1 pod`, `1,000 pods`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """One line of text whose control characters are escaped: they could move the cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def printable_cells(values: Iterable[object]) -> list[object]:
    """A row for a CSV file, whose texts are as `printable` as those of tables."""
    return [printable(value) if isinstance(value, str) else value for value in values]


def _cell(value: object) -> str:
    return _NOTHING if value is None or value == "" else printable(str(value))


def _columns(lines: Sequence[Sequence[str]], gap: str, aligns: str) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    forms = [f"{align}{width}" for align, width in zip(aligns, widths, strict=True)]
    return [
        gap.join(f"{cell:{form}}" for cell, form in zip(line, forms, strict=True)).rstrip()
        for line in lines
    ]
