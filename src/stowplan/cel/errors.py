"""What can be wrong with an expression, worded as cel-go words it."""

from __future__ import annotations

from dataclasses import dataclass


class CompileError(Exception):
    """The expression is not valid; the text has one entry per error, each with the line and a caret."""


class CostLimitExceeded(Exception):
    """The evaluation was cancelled because its cost passed the limit."""

    def __str__(self) -> str:
        return "operation cancelled: actual cost limit exceeded"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value: `||` and `&&` can still be decided by their other side."""

    text: str


def no_such_overload() -> Failure:
    return Failure("no such overload")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error with its offset in the source."""

    position: int
    message: str


def report(source: str, problems: list[Problem]) -> str:
    """All problems in order, each with its line of the source and a caret below it."""
    return "\n".join(_show(source, problem) for problem in sorted(problems, key=_place))


def _place(problem: Problem) -> int:
    return problem.position


def _show(source: str, problem: Problem) -> str:
    before = source[: problem.position]
    number = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1)
    line = source.split("\n")[number - 1].replace("\t", " ")
    dots = "".join("．" if ord(char) > 0x7F and _is_wide(char) else "." for char in line[:column])
    caret = "＾" if column < len(line) and _is_wide(line[column]) else "^"
    where = f"<input>:{number}:{column + 1}"
    return f"ERROR: {where}: {problem.message}\n | {line}\n | {dots}{caret}"


def _is_wide(char: str) -> bool:
    """Whether a character takes several bytes: cel-go points at those with a full-width caret."""
    return ord(char) > 0x7F
