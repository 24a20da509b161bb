"""The functions and classes for the checks of lessons; the package's docstring explains them.

A check plays scenarios with what the learner wrote, and raises a `Mistake` that says what is wrong.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TextIO

from stowplan.errors import StowplanError
from stowplan.learn.faults import LearnerErrors
from stowplan.sim.scenarios import Cluster, Options, Outcome, run_scenario

#: Collects the errors of started programs; set while a check runs.
FAULTS: ContextVar[LearnerErrors] = ContextVar("faults")


class Mistake(Exception):
    """What is wrong with the learner's work: a key of the lesson's messages, and what fills it."""

    def __init__(self, key: str, /, *, at: object = None, **fields: object) -> None:
        super().__init__(key)
        self.key = key
        self.at = at
        self.fields = fields


class Note:
    """A remark about work that passed."""

    def __init__(self, key: str, /, **fields: object) -> None:
        self.key = key
        self.fields = fields


def part(work: Any, name: str, *, is_async: bool = False) -> Any:
    """A function or class of the learner's module."""
    found = getattr(work, name, None)
    if not callable(found):
        raise Mistake("part_is_gone", name=name)
    if is_async and not inspect.iscoroutinefunction(found):
        raise Mistake("part_is_not_async", at=found, name=name)
    return found


def call(function: Callable[..., Any], *args: object) -> Any:
    """What the learner's function returns; a Mistake where it does not take what it should."""
    _must_take(function, args)
    try:
        return function(*args)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        # Python itself refuses, before a line of it ran or after the last one.
        raise Mistake("part_fails", at=function, name=_name(function), why=error) from None


def _must_take(function: Callable[..., Any], args: Sequence[object]) -> None:
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        told = {"name": _name(function), "why": error}
        raise Mistake("part_takes_other_things", at=function, **told) from None
    except ValueError:
        pass  # something of Python's own, which has no signature to look at


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "") or str(function)


def manifests(work: Any) -> list[dict[str, Any]]:
    """The documents of the learner's YAML file, each with kind, apiVersion and a name."""
    for number, each in enumerate(work, 1):
        if not isinstance(each, dict):
            raise Mistake("no_manifest", number=number, field="all of it", wanted="a mapping")
        for field in ("apiVersion", "kind"):
            if not isinstance(each.get(field), str):
                raise Mistake("no_manifest", number=number, field=field, wanted="a text")
        metadata = each.get("metadata")
        if not isinstance(metadata, dict):
            raise Mistake("no_manifest", number=number, field="metadata", wanted="a mapping")
        if not isinstance(metadata.get("name"), str) or not metadata["name"]:
            raise Mistake("no_manifest", number=number, field="metadata.name", wanted="a text")
        if not isinstance(metadata.get("namespace", ""), str):
            raise Mistake("no_manifest", number=number, field="metadata.namespace", wanted="a text")
    return list(work)


@dataclass(slots=True)
class Running:
    """A program of the learner's that runs beside a scenario."""

    function: Callable[..., Any]
    has_ended: bool = False
    error: Exception | None = None

    def must_go_on(self) -> None:
        """Raise a Mistake if the program has ended: a scheduler never ends."""
        if self.has_ended:
            key = "ended_itself" if self.error is None else "ended_by_error"
            raise Mistake(key, at=self.function, name=_name(self.function))


def start(cluster: Cluster, function: Callable[..., Awaitable[Any]], *args: object) -> Running:
    """Run the learner's coroutine until the scenario ends; report its error and go on."""
    _must_take(function, args)
    running, faults = Running(function), FAULTS.get()

    async def program() -> None:
        try:
            await function(*args)
        except Exception as error:
            running.error = error
            faults.add(error)
        finally:
            running.has_ended = True

    _ = cluster.start(program(), name=_name(function))
    return running


def play(
    scenario: Callable[[Cluster], Awaitable[None]], on: str, options: Options | None = None
) -> Outcome:
    """Play a scenario; exceptions in it are raised unchanged."""
    raised: list[Exception] = []

    async def kept(cluster: Cluster) -> None:
        try:
            await scenario(cluster)
        except Exception as error:
            raised.append(error)
            raise

    outcome = run_scenario(kept, on=on, options=options or Options(with_scheduler=False))
    if raised:
        raise raised[0]
    if outcome.problem:
        raise StowplanError(outcome.problem)
    return outcome


class Printed:
    """A stream that records text and passes it on."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._text = ""

    @property
    def lines(self) -> list[str]:
        return self._text.splitlines()

    def write(self, text: str) -> int:
        self._text += text
        return self._out.write(text)

    def flush(self) -> None:
        self._out.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@contextmanager
def printed() -> Iterator[Printed]:
    """Record the lines that are printed inside the block."""
    kept = Printed(sys.stdout)
    with redirect_stdout(kept):
        yield kept


@contextmanager
def logged() -> Iterator[list[str]]:
    """The messages that the learner's code logs meanwhile (from INFO up); they are still shown."""
    root, messages = logging.getLogger(), list[str]()
    handler = _Messages(messages)
    level = root.level
    root.addHandler(handler)
    root.setLevel(min(level, logging.INFO))
    try:
        yield messages
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


class _Messages(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.INFO)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] != "stowplan":
            self._messages.append(record.getMessage())
