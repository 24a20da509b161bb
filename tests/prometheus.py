"""Prometheus and promtool for tests: Debian's package `prometheus` has both.

What must stay true: a missing program is never silent (in CI it fails the test, elsewhere it skips
with the command that installs it).
"""

from __future__ import annotations

import os
import shutil

import pytest


def require_prometheus(name: str = "prometheus") -> str:
    """The path of `prometheus` or `promtool`; skips or fails the test where it is missing."""
    if found := shutil.which(name):
        return found
    message = f"{name} is missing: apt-get install prometheus (as .ci/run does)"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
