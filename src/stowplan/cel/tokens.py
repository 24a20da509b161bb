"""Tokens of CEL, and the values of its literals."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.cel.errors import Problem

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = (
    r'[rR]"""(?s:.*?)"""'
    r"|[rR]'''(?s:.*?)'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    rf"""
    (?P<space>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<bytes>[bB](?:{_STRING}))
  | (?P<string>{_STRING})
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<escaped>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<operator>==|!=|<=|>=|&&|\|\||[\[\]{{}}().,\-!?:+*/%<>])
    """,
    re.VERBOSE,
)
_KEYWORDS = frozenset({"in", "true", "false", "null"})
_SIMPLE = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # the name of a group above, "keyword", or "end"
    text: str
    position: int


def tokenize(source: str, problems: list[Problem]) -> list[Token]:
    """The tokens, then one of kind `end`. Invalid characters are reported and skipped."""
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            wrong = _no_token(source, position)
            problems.append(
                Problem(position, f"Syntax error: token recognition error at: '{wrong}'")
            )
            position += len(wrong)
            continue
        kind = str(match.lastgroup)
        if kind == "name" and match[0] in _KEYWORDS:
            kind = "keyword"
        if kind != "space":
            tokens.append(Token(kind, match[0], position))
        position = match.end()
    tokens.append(Token("end", "<EOF>", len(source)))
    return tokens


def _no_token(source: str, position: int) -> str:
    """The invalid text at a position, as much of it as ANTLR skips."""
    first = source[position]
    if first in "'\"":
        return re.split(r"[\n\r]", source[position:], maxsplit=1)[0]
    return source[position : position + (2 if first in "=&|" else 1)]


def unquote(text: str) -> str:
    """The value of a string literal. Raises ValueError with cel-go's message."""
    return _body(text, _character)


def unquote_bytes(text: str) -> bytes:
    """The value of a bytes literal, without its `b`."""
    return _body(text, _byte).encode("utf-8", "surrogateescape")


def _body(text: str, character: Callable[[re.Match[str]], str]) -> str:
    # cel-go reads line endings as \n, even in raw strings.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    text = text[quotes:-quotes]
    if raw or "\\" not in text:
        return text
    return re.sub(rf"{_ESCAPE}", character, text)


def _character(match: re.Match[str]) -> str:
    kind, rest = match[0][1], match[0][2:]
    if kind in "xXuU":
        code = int(rest, 16)
    elif kind.isdigit():
        code = int(match[0][1:], 8)
    else:
        return _SIMPLE.get(kind, kind)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _byte(match: re.Match[str]) -> str:
    kind = match[0][1]
    if kind in "uU":
        raise ValueError("unable to unescape string")
    if kind in "xX" or kind.isdigit():
        code = int(match[0][2:], 16) if kind in "xX" else int(match[0][1:], 8)
        return bytes([code]).decode("ascii", "surrogateescape")
    return _SIMPLE.get(kind, kind)
