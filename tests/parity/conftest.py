"""The oracle for a session of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane_fixtures import require_binaries
from tests.parity.oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """A running oracle; missing, it fails the test in CI and skips it elsewhere."""
    with Oracle(require_binaries("oracle")["oracle"]) as running:
        yield running


@pytest.fixture(scope="session")
def cel_oracle() -> Iterator[Oracle]:
    """cel-go in kube-scheduler's environment for device selectors."""
    with Oracle(require_binaries("cel")["cel"]) as running:
        yield running
