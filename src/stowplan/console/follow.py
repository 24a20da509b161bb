"""Informers for a console of its own: a cluster that any scheduler serves, only read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.console.mirror import ClusterMirror
from stowplan.errors import Forbidden, NotFound

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


async def follow_cluster(
    client: ApiClient, mirror: ClusterMirror, warn: Callable[[str], None]
) -> None:
    """Keep a mirror up to date until cancelled; kinds that may not be read are left out.

    Raises if nodes or pods may not be read.
    """

    async def follow(kind: Resource[Any], informer: Informer[Any]) -> None:
        try:
            await informer.run()
        except (Forbidden, NotFound) as problem:
            if kind in (NODES, PODS):
                raise
            informer.synced.set()
            warn(f"{kind.plural} are left out: {problem}")

    kinds: list[Resource[Any]] = [NODES, PODS, *mirror.config.looked_up()]
    informers = {kind: _informer(client, kind, mirror) for kind in kinds}
    async with asyncio.TaskGroup() as group:
        for kind, informer in informers.items():
            group.create_task(follow(kind, informer), name=kind.plural)
        for informer in informers.values():
            await informer.synced.wait()
        mirror.is_synced = lambda: True


def _informer(client: ApiClient, kind: Resource[Any], mirror: ClusterMirror) -> Informer[Any]:
    return Informer(
        client,
        kind,
        on_add=lambda item: mirror.put(kind, item),
        on_update=lambda _, item: mirror.put(kind, item),
        on_delete=lambda item: mirror.remove(kind, item),
        field_selector=_UNFINISHED if kind is PODS else "",
    )
