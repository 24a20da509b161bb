"""Regular expressions in RE2: their time grows with the text alone, whatever the pattern."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice

import re2

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


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        self._compiled = re2.compile(pattern, options)

    def first(self, text: str) -> str | None:
        found = self._compiled.search(text)
        return None if found is None else str(found.group())

    def all(self, text: str, limit: int) -> list[str]:
        """The matches, at most `limit` of them; a negative one means all."""
        found = self._compiled.finditer(text)
        return [str(match.group()) for match in islice(found, limit if limit >= 0 else None)]


@lru_cache(maxsize=256)
def compiled_regex(pattern: str) -> Regex | str:
    """The compiled pattern, or what is wrong with it in Go's words."""
    try:
        return Regex(pattern)
    except re2.error as error:
        reason, _, where = error.args[0].decode(errors="replace").partition(": ")
        return f"error parsing regexp: {_GO_WORDS.get(reason, reason)}: `{where}`"
