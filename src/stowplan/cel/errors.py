"""Errors of expressions, with cel-go's messages."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_SHOWN = 100


class CompileError(Exception):
    """The expression is not valid; the text shows each error with its line and a caret."""


class Cancelled(Exception):
    """The evaluation ended early; unlike a Failure, no `||` or `&&` can absorb it."""


class CostLimitExceeded(Cancelled):
    """The cost passed the limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value: `||` and `&&` ignore it if their other side decides."""

    text: str


def no_such_overload() -> Failure:
    return Failure("no such overload")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error with its offset in the source."""

    position: int
    message: str


def report(source: str, problems: list[Problem]) -> str:
    """The problems in order, each with its line of the source and a caret below it."""
    in_order = sorted(problems, key=lambda one: one.position)
    shown = [_show(source, one) for one in in_order[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        shown.append(f"{len(problems) - _MOST_SHOWN} more errors were truncated")
    return "\n".join(shown)


def _show(source: str, problem: Problem) -> str:
    # Under a multi-byte character, cel-go prints a full-width dot or caret.
    before = source[: problem.position]
    number = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1)
    line = source.split("\n")[number - 1].replace("\t", " ")
    dots = "".join("." if char.isascii() else "．" for char in line[:column])
    caret = "^" if line[column : column + 1].isascii() else "＾"
    where = f"<input>:{number}:{column + 1}"
    return f"ERROR: {where}: {problem.message}\n | {line}\n | {dots}{caret}"
