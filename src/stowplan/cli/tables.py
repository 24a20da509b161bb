"""Output that commands share: aligned columns as kubectl prints them, JSON and YAML.

Columns are for people: three spaces apart, no borders, nothing cut off. Scripts use `-o json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

import click

OutputFormat: TypeAlias = Literal["json", "yaml"]
F = TypeVar("F", bound=Callable[..., Any])

_GAP: Final = "   "
_NOTHING: Final = "<none>"


def output_option(*, default: OutputFormat | None = None) -> Callable[[F], F]:
    """`-o json|yaml`, given to the command as `output`; without a default it may be None."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json", "yaml"]),
        default=default,
        show_default=default is not None,
        help="Print as JSON or YAML.",
    )


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns under upper-case headers, a line each, ending in a newline."""
    lines = [[header.upper() for header in headers]]
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"a row of {len(row)} cells under {len(headers)} headers: {row!r}")
        lines.append([_cell(value) for value in row])
    widths = [max(len(line[column]) for line in lines) for column in range(len(headers))]
    return "".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    click.echo(format_table(headers, rows), nl=False)


def format_object(value: object, output: OutputFormat) -> str:
    """The text of plain data (dicts, lists, scalars), ending in a newline."""
    if output == "json":
        return json.dumps(value, indent=4, ensure_ascii=False) + "\n"
    import yaml  # here, as commands that print no YAML need not load it

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text


def print_object(value: object, output: OutputFormat) -> None:
    click.echo(format_object(value, output), nl=False)


def _cell(value: object) -> str:
    """One line of printable text: names from a cluster must not move the terminal's cursor."""
    if value is None or value == "":
        return _NOTHING
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
