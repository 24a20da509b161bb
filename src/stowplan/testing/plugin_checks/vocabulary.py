"""The words of a plugin: texts in its code and arguments that labels and names may be made of.

A plugin that looks for `disk=ssd` says little about clusters where no node has such a label. So
random clusters speak its language: constants of its module's code, in the order in which they
stand there, because a key is mostly followed by its value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from stowplan.framework.plugin import Plugin

#: What a label's key or value may look like.
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,50}[A-Za-z0-9])?")
_MOST = 16
_ORDINARY = ("disk", "ssd", "app", "web", "tier", "1", "2")


@dataclass(frozen=True)
class Words:
    """Texts for keys and values; `after` is what follows a text in the code."""

    all: tuple[str, ...]
    after: Mapping[str, tuple[str, ...]]


def words_of(plugin: type[Plugin], args: Mapping[str, Any]) -> Words:
    """What the code of a plugin's module and its arguments speak of."""
    groups = [list(_texts(args))]
    groups += [_constants(code) for code in _codes(plugin)]
    chosen: dict[str, None] = {}
    after: dict[str, list[str]] = {}
    for group in groups:
        words = [text for text in group if _WORD.fullmatch(text) and text != plugin.name]
        for word in words:
            if len(chosen) < _MOST:
                chosen[word] = None
        for word, following in pairwise(words):
            if following not in after.setdefault(word, []):
                after[word].append(following)
    everything = (*chosen, *(word for word in _ORDINARY if word not in chosen))
    return Words(everything, {word: tuple(following) for word, following in after.items()})


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, Iterable):
        for part in value:
            yield from _texts(part)


def _constants(code: CodeType) -> list[str]:
    """Its own texts; those of functions within it come by themselves."""
    return [text for constant in code.co_consts for text in _flat(constant)]


def _flat(constant: Any) -> Iterator[str]:
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple | frozenset):
        for part in sorted(constant, key=repr):
            yield from _flat(part)


def _codes(plugin: type[Plugin]) -> Iterator[CodeType]:
    """The plugin's own code first, then its module's: functions that it calls, and constants."""
    seen: set[int] = set()
    for kind in plugin.__mro__:
        if kind is Plugin:
            break
        for member in vars(kind).values():
            yield from _function_codes(member, seen)
    module = sys.modules.get(plugin.__module__)
    if module is None or plugin.__module__.startswith("stowplan.framework"):
        return
    for member in list(vars(module).values()):
        if getattr(member, "__module__", None) == plugin.__module__:
            yield from _function_codes(member, seen)
    texts = [value for value in vars(module).values() if isinstance(value, str | tuple)]
    yield from (_as_code(text) for value in texts for text in _flat(value))


def _function_codes(member: Any, seen: set[int]) -> Iterator[CodeType]:
    function = getattr(member, "__func__", member)
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    yield from _nested(function.__code__)
    for cell in function.__closure__ or ():
        # A decorated function is in a cell of the method that calls it.
        with suppress(ValueError):  # a cell may still be empty
            yield from _function_codes(cell.cell_contents, seen)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _as_code(text: str) -> CodeType:
    return compile(repr(text), "<constant>", "eval")
