"""A running embedded API server and a plain HTTP client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.serving import Api, serving


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Without kubelet: nothing happens but what the test asks for."""
    async with serving() as running:
        yield running
