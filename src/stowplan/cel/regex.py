"""Regular expressions in RE2: their time grows with the text alone, whatever the pattern.

Compiling is bounded here: a pattern in memory, and so in time, and the patterns of one expression
or evaluation in number. `re2` is loaded with the first pattern. There is no fallback to Python's
`re`: a hostile pattern could keep it busy for ever.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

from stowplan.cel.errors import Cancelled
from stowplan.cel.values import count_comparisons

#: For a pattern's program and its automaton; it compiles in 5 ms.
# DIVERGES: a regular expression that takes more than 256 KiB, such as `\pL{20}`, is refused.
_MEMORY = 256 * 1024
#: Different patterns that one expression may have, or one evaluation may build.
MOST_PATTERNS = 64
#: What a match of `findAll` counts as; it takes as long as so many comparisons.
_PER_MATCH = 10

#: Reasons of RE2 in the words of Go's regexp.
_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


_seen: set[str] = set()


def reset_patterns() -> None:
    """Begin to count patterns anew: at each compilation and each evaluation of an expression."""
    if _seen:
        _seen.clear()


class Regex:
    """A compiled pattern."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def first(self, text: str) -> str | None:
        found = self._compiled.search(_encoded(text))
        return None if found is None else _decoded(found.group())

    def all(self, text: str, limit: int) -> list[str]:
        """The matches, at most `limit` of them; a negative one means all. Raises Cancelled."""
        texts = []
        found = self._compiled.finditer(_encoded(text))
        for match in islice(found, limit if limit >= 0 else None):
            count_comparisons(_PER_MATCH)
            texts.append(_decoded(match.group()))
        return texts


# RE2 works on bytes, and counts characters of text before each match anew.


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


def compiled_regex(pattern: str) -> Regex | str:
    """The compiled pattern, or what is wrong with it in Go's words. Raises Cancelled."""
    _seen.add(pattern)
    if len(_seen) > MOST_PATTERNS:
        # DIVERGES: an expression can use 64 different regular expressions, upstream any number.
        raise Cancelled(f"more than {MOST_PATTERNS} different regular expressions")
    return _compiled(pattern)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Regex | str:
    try:
        import re2  # type: ignore[import-untyped]
    except ImportError:
        raise Cancelled(
            "regular expressions need the Python package google-re2, which is missing. "
            "Fix: pip install google-re2"
        ) from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return Regex(re2.compile(pattern, options))
    except re2.error as error:
        reason, _, where = error.args[0].decode(errors="replace").partition(": ")
        return f"error parsing regexp: {_GO_WORDS.get(reason, reason)}: `{where}`"
