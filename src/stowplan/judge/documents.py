"""Split the input of `stowplan decide` into questions: JSON lines, indented JSON, or YAML.

A question ends as early as possible, so that a program that asks through a pipe gets each answer
before it sends the next question:

- JSON ends with the line that closes its last bracket. One line per question is the usual form.
- YAML ends with a line `---` or `...`, or with the input.
- A line that begins with `{` always begins a question, so that a broken question does not spoil
  the next one. Indented JSON indents its inner brackets, and block YAML has no such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from stowplan.judge.refusal import QuestionRefused
from stowplan.loader.json_text import STRING
from stowplan.loader.malformed import Malformed
from stowplan.loader.yaml_text import load_yaml

_BOM: Final = b"\xef\xbb\xbf"
#: A comment, a directive, the start of a document, or a key.
_YAML_START: Final = re.compile(
    rb"""#|%YAML|(---|\.\.\.)(\s|$)|([\w][\w./-]*|"[^"]*"|'[^']*')[ \t]*:(\s|$)"""
)
_YAML_END: Final = re.compile(rb"(---|\.\.\.)(\s|$)")
_YAML_EMPTY: Final = re.compile(rb"\s*(#.*|(---|\.\.\.)\s*(#.*)?)?$")


def _ended(string: re.Match[bytes]) -> bytes:
    """Nothing for a string that ends, a quotation mark for one that does not."""
    return b"" if string["end"] == b'"' else b'"'


class Document(NamedTuple):
    """The text of one question, and the number of its first line."""

    number: int
    text: bytes
    is_yaml: bool


def documents(lines: Iterable[bytes]) -> Iterator[Document]:
    """Yield each question as soon as its last line is read."""
    text: list[bytes] = []
    start = depth = 0
    is_yaml = False
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(_BOM)
        if text and (line.startswith(b"{") or (is_yaml and _YAML_END.match(line))):
            yield from _document(start, text, is_yaml)
            text = []
        if not text:
            if not line.strip():
                continue
            start, depth, is_yaml = number, 0, _YAML_START.match(line) is not None
        text.append(line)
        if not is_yaml:
            opened = _opened(line)
            depth = 0 if opened is None else depth + opened
            if depth <= 0:
                yield from _document(start, text, is_yaml)
                text = []
    yield from _document(start, text, is_yaml)


def _document(start: int, text: list[bytes], is_yaml: bool) -> Iterator[Document]:
    if text and not (is_yaml and all(_YAML_EMPTY.match(line) for line in text)):
        yield Document(start, b"".join(text), is_yaml)


def _opened(line: bytes) -> int | None:
    """How many brackets more a line opens than it closes; None if it cannot be a part of JSON."""
    if (
        line.startswith(b"{")
        and line.rstrip().endswith(b"}")
        and line.count(b"{") == line.count(b"}")
        and line.count(b"[") == line.count(b"]")
    ):
        return 0  # a question in one line; saves time for long ones
    bare = STRING.sub(_ended, line)
    if b'"' in bare:
        return None  # a string cannot go on in the next line
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def yaml_as_json(text: bytes, number: int) -> bytes:
    """Convert YAML whose first line has this number to JSON."""
    try:
        return msgspec.json.encode(load_yaml(text))
    except Malformed as problem:
        at = f"line {number + max(problem.line, 1) - 1}"
        column = f", column {problem.column}" if problem.line else ""
        raise QuestionRefused(f"{at}{column}: {problem.reason}") from None
