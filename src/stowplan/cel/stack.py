"""Room on Python's stack for deep expressions.

The parser bounds how deep a tree is, but each of its levels takes several calls, and Python allows
1,000 by default. Python's own calls take no space on the C stack, so that a higher limit is safe.
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
