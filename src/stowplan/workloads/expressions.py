"""The actions of Go's text/template that scheduler_perf's files use: numbers, and sums of them.

`{{ .Index }}`, `{{ .Count }}`, and the arithmetic that upstream registers, nested in parentheses:
`{{ AddInt 100 (Mod .Index 12) }}`. Used by `templates`. Invariant: an action yields a number and
nothing else, so it can never change the structure of the YAML around it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import TypeAlias

Number: TypeAlias = int | float
#: Called with index and count.
Evaluate: TypeAlias = Callable[[int, int], Number]


class BadExpression(ValueError):
    """An invalid expression; the caller adds file and line."""


def _divide(dividend: Number, divisor: Number) -> float:
    if divisor == 0:
        raise BadExpression("division by zero")
    return dividend / divisor


def _remainder(dividend: Number, divisor: Number) -> int:
    if int(divisor) == 0:
        raise BadExpression("division by zero")
    return int(math.fmod(int(dividend), int(divisor)))  # Go's % has the dividend's sign


def _sum(*numbers: Number) -> float:
    return float(sum(numbers))


def _product(*numbers: Number) -> float:
    return float(math.prod(numbers))


def _difference(first: Number, second: Number) -> float:
    return float(first - second)


#: Name to function and number of arguments, None for any. Upstream computes in floats and cuts.
_FUNCTIONS: dict[str, tuple[Callable[..., Number], int | None]] = {
    "AddFloat": (_sum, None),
    "AddInt": (lambda *numbers: int(_sum(*numbers)), None),
    "SubtractFloat": (_difference, 2),
    "SubtractInt": (lambda first, second: int(_difference(first, second)), 2),
    "MultiplyFloat": (_product, None),
    "MultiplyInt": (lambda *numbers: int(_product(*numbers)), None),
    "DivideFloat": (_divide, 2),
    "DivideInt": (lambda first, second: int(_divide(first, second)), 2),
    "Mod": (_remainder, 2),
}
_FIELDS: dict[str, Evaluate] = {
    ".Index": lambda index, count: index,
    ".Count": lambda index, count: count,
}
_WORD = re.compile(r'\s*(\(|\)|"[^"]*"|[^\s()"]+)')
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")


def parse(text: str) -> Evaluate:
    """The inside of `{{ }}`."""
    words = _words(text)
    expression = _expression(words, text)
    if next(words, None) is not None:
        raise BadExpression(f"`{text.strip()}`: there is something after its end")
    return expression


def as_text(number: Number) -> str:
    """As Go prints it."""
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return str(number)


def _words(text: str) -> Iterator[str]:
    position = 0
    text = text.rstrip()
    while position < len(text):
        word = _WORD.match(text, position)
        if word is None:
            raise BadExpression(f"`{text.strip()}`: cannot be read")
        position = word.end()
        yield word.group(1)


def _expression(words: Iterator[str], text: str, *, inside: bool = False) -> Evaluate:
    """A function and its arguments, or one number; up to `)` if `inside` parentheses."""
    first = next(words, None)
    if first is None or first == ")":
        raise BadExpression(f"`{text.strip()}`: is empty" if not inside else "`()`: is empty")
    if first not in _FUNCTIONS:
        value = _operand(first, words, text)
        if inside and next(words, None) != ")":
            raise BadExpression(
                f"`{text.strip()}`: `{first}` takes no arguments, or `)` is missing"
            )
        return value
    function, arity = _FUNCTIONS[first]
    arguments: list[Evaluate] = []
    closed = False
    for word in words:
        if word == ")":
            closed = True
            break
        arguments.append(_operand(word, words, text))
    if closed != inside:
        raise BadExpression(f"`{text.strip()}`: parentheses do not match")
    if arity is not None and len(arguments) != arity:
        raise BadExpression(f"`{first}` takes {arity} arguments, not {len(arguments)}")
    return lambda index, count: function(*(each(index, count) for each in arguments))


def _operand(word: str, words: Iterator[str], text: str) -> Evaluate:
    if word == "(":
        return _expression(words, text, inside=True)
    if word in _FIELDS:
        return _FIELDS[word]
    bare = word.strip('"')  # upstream's functions also take numbers that are written as strings
    if _INTEGER.fullmatch(bare):
        integer = int(bare)
        return lambda index, count: integer
    if _DECIMAL.fullmatch(bare):
        decimal = float(bare)
        return lambda index, count: decimal
    known = [*_FIELDS, *_FUNCTIONS]
    close = get_close_matches(word, known, 1)
    hint = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)} and numbers"
    raise BadExpression(f"`{word}` is not known; {hint}")
