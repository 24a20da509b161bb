"""Markdown for a terminal: wrapped, with headings, lists, code and emphasis.

It supports the subset that lessons use: paragraphs, headings, `-` and `1.` lists, fenced code,
`code` and **bold**. Styles are ANSI sequences, which `click.echo` removes where the output is not a
terminal. Wide characters take two columns and can be wrapped anywhere, as in Japanese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click

PAGE_WIDTH: Final = 76
_FENCE: Final = "```"
_INDENT: Final = "    "
_ITEM: Final = re.compile(r"(?P<mark>-|\d+\.) +(?P<text>.*)")
#: Code first: what is in it is no emphasis.
_SPANS: Final = re.compile(r"`(?P<code>[^`]+)`|\*\*(?P<bold>[^*]+)\*\*")

#: Of the wide characters those that no line begins with.
_NEVER_FIRST: Final = "、。，．：；？！）」』】"


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is never broken: a word, or one wide character."""

    text: str
    style: str
    after_space: bool

    @property
    def width(self) -> int:
        return sum(_columns(char) for char in self.text)

    @property
    def is_wide(self) -> bool:
        return self.width > len(self.text)


def render(page: str, width: int = PAGE_WIDTH) -> str:
    """The page as lines of at most `width` columns (code is as wide as it is)."""
    lines: list[str] = []
    paragraph: list[str] = []

    def flush() -> None:
        if paragraph:
            lines.extend(_wrapped(_joined(paragraph), width))
            paragraph.clear()

    is_code = False
    for line in page.splitlines():
        item = _ITEM.fullmatch(line)
        if line.startswith(_FENCE):
            flush()
            is_code = not is_code
        elif is_code:
            lines.append(_INDENT + click.style(line, fg="cyan") if line else "")
        elif line.startswith("#"):
            flush()
            lines.append(click.style(line.lstrip("#").strip(), bold=True))
        elif item is not None:
            flush()
            paragraph.append(line)
        elif not line.strip():
            flush()
            lines.append("")
        else:
            paragraph.append(line.strip())
    flush()
    return "\n".join(lines) + "\n"


def _joined(lines: list[str]) -> str:
    """One line of several: a break is a space, except between two wide characters."""
    text = lines[0]
    for line in lines[1:]:
        is_tight = _columns(text[-1]) == 2 and _columns(line[0]) == 2
        text += line if is_tight else f" {line}"
    return text


def _wrapped(text: str, width: int) -> Iterator[str]:
    item = _ITEM.fullmatch(text)
    first, text = (f"{item['mark']} ", item["text"]) if item is not None else ("", text)
    later = " " * len(first)
    line: list[_Piece] = []
    used = len(first)
    for word in _words(text):
        space = 1 if word[0].after_space and line else 0
        size = sum(piece.width for piece in word)
        if line and used + space + size > width:
            yield first + _styled(line)
            first, line, used, space = later, [], len(later), 0
        line += word
        used += space + size
    if line:
        yield first + _styled(line)


def _words(text: str) -> Iterator[list[_Piece]]:
    """Pieces that stay on one line: a comma with the `code` before it."""
    word: list[_Piece] = []
    for piece in _pieces(text):
        may_begin = piece.after_space or (piece.is_wide and piece.text not in _NEVER_FIRST)
        if word and may_begin:
            yield word
            word = []
        word.append(piece)
    if word:
        yield word


def _pieces(text: str) -> Iterator[_Piece]:
    after_space = True
    for run, style in _runs(text):
        for part in re.split(r"( +)", run):
            if part.isspace():
                after_space = True
                continue
            for word in _unbreakable(part):
                yield _Piece(word, style, after_space)
                after_space = False


def _runs(text: str) -> Iterator[tuple[str, str]]:
    end = 0
    for match in _SPANS.finditer(text):
        yield text[end : match.start()], ""
        yield match[match.lastgroup or 0], match.lastgroup or ""
        end = match.end()
    yield text[end:], ""


def _unbreakable(text: str) -> Iterator[str]:
    word = ""
    for char in text:
        if _columns(char) < 2:
            word += char
            continue
        if word:
            yield word
            word = ""
        yield char
    if word:
        yield word


def _styled(pieces: list[_Piece]) -> str:
    text = ""
    for number, piece in enumerate(pieces):
        space = " " if number and piece.after_space else ""
        if piece.style == "code":
            text += space + click.style(piece.text, fg="cyan")
        elif piece.style == "bold":
            text += space + click.style(piece.text, bold=True)
        else:
            text += space + piece.text
    return text


def _columns(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1
