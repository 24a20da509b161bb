"""Counts must not depend on the tests that the process ran before."""

from __future__ import annotations

import pytest

from stowplan.cluster import compiled


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> None:
    """What other tests have compiled decides when compiled values are dropped."""
    compiled.clear()
