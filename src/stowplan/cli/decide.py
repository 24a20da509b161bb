"""`stowplan decide`: answer placement questions in JSON or YAML, one line per answer."""

from __future__ import annotations

import gc
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import click
import msgspec

from stowplan.cli.tables import escape_controls
from stowplan.errors import ConfigError
from stowplan.judge import Judge, Stream
from stowplan.judge.documents import Document, documents
from stowplan.loader.files import STDIN, read_lines
from stowplan.loader.malformed import LARGE
from stowplan.present.status_line import StatusLine

EXIT_SOME_FAILED: Final = 1
#: Print at most this many different warnings; more would hide the answers.
_MOST_WARNINGS: Final = 20
_FIX: Final = "Fix: write a question in JSON or YAML, see docs/decide.md"
_PROGRESS_AFTER_S: Final = 1.0
#: Each question creates a whole cluster of garbage; collecting it less often is faster.
_GC_THRESHOLDS: Final = (20_000, 50, 100)


@click.command()
@click.argument("file", default="-")
@click.option(
    "--stream",
    is_flag=True,
    help="Keep one cluster across questions: each can apply and delete objects, and ask about a"
    " pod.",
)
@click.option(
    "--defaults",
    is_flag=True,
    help="Fill in defaults as the API server does. Without it, objects are used as given.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Reject every object that the API server would reject. Without it, an invalid object"
    " whose meaning is clear only causes a warning.",
)
def decide(file: str, stream: bool, defaults: bool, strict: bool) -> int:
    """Show which nodes fit a pod, and why the others do not.

    Reads questions from FILE (default: standard input): JSON, one question per line or indented,
    or YAML documents. Prints one JSON object per question, each in a line: the verdict for each
    node, the weighted scores of the nodes that fit, and the best nodes.

    \b
      $ cat questions
      {"id": 7, "objects": [{"apiVersion": "v1", "kind": "Node", ...}], "pod": {"metadata": ...}}
      $ stowplan decide questions
      {"id":7,"nodes":{"a":{"code":"Success"},"b":{"code":"Unschedulable","plugin":...}},
       "scores":{"a":{"NodeResourcesFit":90,...}},"totals":{"a":390},"best":["a"]}

    For a question that cannot be answered it prints {"id", "error"} and goes on; the exit code is
    then 1. docs/decide.md describes the format.
    """
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    answering = (Stream if stream else Judge)(defaults=defaults, strict=strict, warn=_Warnings())
    if file == "-":
        return _answer_all(answering, sys.stdin.buffer, STDIN)
    with _open(file) as source:
        return _answer_all(answering, source, file)


def _open(file: str) -> BinaryIO:
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=file) from None


def _answer_all(answering: Judge | Stream, source: BinaryIO, where: str) -> int:
    """Answer every question, and return the exit code."""
    out = sys.stdout
    # A program that writes questions one at a time waits for each answer.
    at_once = source is sys.stdin.buffer or sys.stdout.isatty()
    progress = _Progress(source)
    count, failed = 0, False
    try:
        for each in documents(_lines(source, where)):
            count += 1
            if count == 1:
                _check_is_text(each, where)
            said = answering.answer_text(each.text, each.number, is_yaml=each.is_yaml)
            failed = failed or "error" in said
            out.write(f"{escape_controls(msgspec.json.encode(said).decode())}\n")
            if at_once:
                out.flush()
            progress.passed(each.number, len(each.text))
    finally:
        progress.end()
    if not count and source is not sys.stdin.buffer:
        raise ConfigError(f"has no question. {_FIX}", where=where)
    return EXIT_SOME_FAILED if failed else 0


def _lines(source: BinaryIO, where: str) -> Iterator[bytes]:
    try:
        yield from read_lines(source, where, limit=LARGE.size)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=where) from None


def _check_is_text(first: Document, where: str) -> None:
    """Refuse a binary file as a whole; it would get an error for each of its lines."""
    try:
        is_text = b"\0" not in first.text and bool(first.text.decode())
    except UnicodeDecodeError:
        is_text = first.text.lstrip().startswith(b"{")  # then the error names line and column
    if not is_text:
        raise ConfigError(f"is not text. {_FIX}", where=where)


class _Warnings:
    """Print each warning once, as kubectl does, up to a limit."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def __call__(self, text: str) -> None:
        _, _, what = text.partition(": ")
        if what in self._told or len(self._told) > _MOST_WARNINGS:
            return
        self._told.add(what)
        if len(self._told) > _MOST_WARNINGS:
            text = "further warnings are not shown"
        click.echo(f"Warning: {text}", err=True)


class _Progress:
    """Show the position in a long file, if answers do not go to the terminal."""

    def __init__(self, source: BinaryIO) -> None:
        self._size = 0
        if sys.stderr.isatty() and not sys.stdout.isatty():
            status = os.fstat(source.fileno())
            self._size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        self._read = 0
        self._line = StatusLine(sys.stderr, delay_s=_PROGRESS_AFTER_S, clock=time.monotonic)

    def passed(self, number: int, size: int) -> None:
        self._read += size
        if self._size:
            self._line.update(f"line {number}, {min(100 * self._read // self._size, 100)}%")

    def end(self) -> None:
        self._line.erase()
