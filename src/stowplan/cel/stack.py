"""A higher recursion limit for deep expressions.

The parser bounds the depth of a tree, but each level takes several calls, and Python allows 1,000
by default. Calls of Python functions take no space on the C stack, so a higher limit is safe.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Calls for the deepest tree: 250 nested loops take about 6,000.
_CALLS = 20_000


@contextmanager
def deep_stack() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + _CALLS)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
