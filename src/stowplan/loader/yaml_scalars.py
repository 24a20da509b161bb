"""Plain scalars of YAML as go-yaml v2 reads them, which kubectl and every Kubernetes server use.

It differs from PyYAML: `y` and `n` are truth values, dates and `1:30` are text, `0o17` and `1_000`
are numbers, and a whole number beyond 64 bits is a float.
"""

from __future__ import annotations

import re
from typing import Any, Final

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
#: A text that begins otherwise is text.
_FIRST: Final = frozenset("+-.0123456789yYnNtTfFoO~")
_INT: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASES: Final = (16, 2, 8, 10)
#: From here on Go writes a float with an exponent, below as a whole number.
_EXPONENT: Final = 1e21


def plain(text: str) -> Any:
    """The value of a plain scalar of a moderate number of digits."""
    if text and text[0] not in _FIRST:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if match := _INT.fullmatch(digits):
        sign, *written = match.groups()
        base, number = next(pair for pair in zip(_BASES, written, strict=True) if pair[1])
        value = int(sign + number, base)
        if -(1 << 63) <= value < 1 << 64:
            return value
    if _FLOAT.fullmatch(digits):
        return like_json(float(digits), text)
    return text


def like_json(value: float, text: str) -> Any:
    """A float on its way through JSON: 3.0 becomes 3, one that is too large stays text."""
    if value in (float("inf"), float("-inf")):
        return text
    return int(value) if value.is_integer() and abs(value) < _EXPONENT else value
