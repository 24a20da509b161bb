"""Long listings in small steps, because a scheduler decides in the same thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

#: Items of one step: one or two milliseconds of work.
PIECE: Final = 500


async def in_pieces(items: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """The items in slices; other tasks run between two of them, so pass a copy of what changes."""
    for start in range(0, len(items), PIECE):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + PIECE]
