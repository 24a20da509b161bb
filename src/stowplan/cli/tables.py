"""Output shared by commands: tables for people, JSON and YAML (`-o json`) for scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

import click

from stowplan.present.tables import format_table

OutputFormat: TypeAlias = Literal["json", "yaml"]
F = TypeVar("F", bound=Callable[..., Any])

#: Control characters that JSON may hold unescaped, and that a terminal may obey.
_CONTROLS: Final = re.compile(r"[\x7f-\x9f]")


def output_option(*, default: OutputFormat | None = None) -> Callable[[F], F]:
    """Add `-o json|yaml`, passed to the command as `output`; None without a default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json", "yaml"]),
        default=default,
        show_default=default is not None,
        help="Print as JSON or YAML.",
    )


def table_option(help_text: str) -> Callable[[F], F]:
    """Add `-o table|json|yaml`, passed to the command as `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
        help=help_text,
    )


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    click.echo(format_table(headers, rows), nl=False)


def escape_controls(text: str) -> str:
    """JSON text without control characters."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def format_object(value: object, output: OutputFormat) -> str:
    """Format plain data (dicts, lists, scalars), ending in a newline."""
    if output == "json":
        return escape_controls(json.dumps(value, indent=4, ensure_ascii=False)) + "\n"
    from stowplan.loader.yaml_text import dump_yaml  # a slow import that most commands do not need

    return dump_yaml(value)


def print_object(value: object, output: OutputFormat) -> None:
    click.echo(format_object(value, output), nl=False)
