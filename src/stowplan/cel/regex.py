"""Regular expressions in RE2: matching takes time linear in the text, whatever the pattern.

Compiling is bounded, too: the memory of a pattern (and so the time), and the number of patterns in
one expression or evaluation. `re2` is imported with the first pattern. There is no fallback to
Python's `re`, because a hostile pattern can make it run for ever.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

from stowplan.cel.errors import Cancelled
from stowplan.cel.go_text import from_utf8, utf8
from stowplan.cel.values import count_comparisons

#: Bytes for a pattern's program and its automaton; compiling takes up to 5 ms.
# DIVERGES: a regular expression that takes more than 256 KiB, such as `\pL{20}`, is refused.
_MEMORY = 256 * 1024
#: Limit of different patterns in one expression, or built by one evaluation.
MOST_PATTERNS = 64
#: A match of `findAll` takes as long as this many comparisons, and counts as that many.
_PER_MATCH = 10

#: RE2's errors, with the messages of Go's regexp.
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
    """Reset the number of patterns. Call it before each compilation and each evaluation."""
    if _seen:
        _seen.clear()


class Regex:
    """A compiled pattern."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def first(self, text: str) -> str | None:
        found = self._compiled.search(utf8(text))
        return None if found is None else from_utf8(found.group())

    def all(self, text: str, limit: int) -> list[str]:
        """Up to `limit` matches; all if it is negative. Raises Cancelled."""
        texts = []
        # On a str, RE2 would count the characters before each match again.
        found = self._compiled.finditer(utf8(text))
        for match in islice(found, limit if limit >= 0 else None):
            count_comparisons(_PER_MATCH)
            texts.append(from_utf8(match.group()))
        return texts


def compiled_regex(pattern: str) -> Regex | str:
    """The compiled pattern, or Go's error message. Raises Cancelled."""
    _seen.add(pattern)
    if len(_seen) > MOST_PATTERNS:
        # DIVERGES: an expression can use 64 different regular expressions, upstream any number.
        raise Cancelled(f"more than {MOST_PATTERNS} different regular expressions")
    return _compiled(pattern)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Regex | str:
    try:
        import re2  # type: ignore[import-untyped]  # has no stubs
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
