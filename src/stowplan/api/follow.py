"""All changes of a resource as one endless stream.

For small programs that want `async for` and no handlers (examples/hello). The informer hides broken
streams, gaps and relists: the stream yields each object once as ADDED, then only real changes. A
program that also needs a store should use the informer itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.local_copy import HasMetadata
from stowplan.api.resources import Resource
from stowplan.api.watch import EventType, WatchEvent

T = TypeVar("T", bound=HasMetadata)


async def follow(
    client: ApiClient,
    resource: Resource[T],
    *,
    namespace: str = "",
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncIterator[WatchEvent[T]]:
    """Changes for ever; raises only where the very first list is refused (401, 403)."""
    changes: asyncio.Queue[WatchEvent[T] | None] = asyncio.Queue()
    informer = Informer(
        client,
        resource,
        on_add=lambda obj: changes.put_nowait(WatchEvent(EventType.ADDED, obj)),
        on_update=lambda _, obj: changes.put_nowait(WatchEvent(EventType.MODIFIED, obj)),
        on_delete=lambda obj: changes.put_nowait(WatchEvent(EventType.DELETED, obj)),
        namespace=namespace,
        label_selector=label_selector,
        field_selector=field_selector,
    )
    watching = asyncio.create_task(informer.run(), name=f"follow-{resource.plural}")
    watching.add_done_callback(lambda _: changes.put_nowait(None))
    try:
        while (change := await changes.get()) is not None:
            yield change
        await watching  # says why it ended
    finally:
        watching.cancel()
