"""How many examples a property test runs: all in `make test`, a share of them in `make check`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

#: `make check` sets it.
SHARE = float(os.environ.get("EXAMPLES_SHARE", "1"))


def examples(count: int, **more: Any) -> settings:
    """Hypothesis settings with so many examples, or the share of them that was asked for."""
    return settings(max_examples=max(1, round(count * SHARE)), **more)
