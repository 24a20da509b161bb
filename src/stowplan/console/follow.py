"""Informers for a console of its own: a cluster that any scheduler serves, only read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.console.mirror import ClusterMirror
from stowplan.errors import Forbidden, StowplanError
from stowplan.scheduler.served_kinds import unserved

#: An API server that does not answer must not keep the console from starting.
_CHECK_S: Final = 5.0
_FIX_RIGHTS: Final = (
    "Fix: use credentials that may list nodes, and pods of all namespaces, or ask for the address"
    " of a console that has them. `stowplan explain POD -f FILE` reads a file instead"
)
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


async def check_rights(client: ApiClient) -> None:
    """Raise Forbidden, with what to do, if nodes or pods may not be listed.

    Other errors are left to the informers, which try again.
    """
    for kind in (NODES, PODS):
        try:
            async with asyncio.timeout(_CHECK_S):
                await client.request("GET", kind.path(), params={"limit": 1})
        except Forbidden as problem:
            raise Forbidden(f"{problem}. {_FIX_RIGHTS}", reason=problem.reason) from None
        except (StowplanError, TimeoutError):
            return


async def follow_cluster(
    client: ApiClient, mirror: ClusterMirror, warn: Callable[[str], None]
) -> None:
    """Keep a mirror up to date until cancelled; kinds that cannot be read are left out.

    Raises if nodes or pods may not be read.
    """

    async def follow(kind: Resource[Any], informer: Informer[Any]) -> None:
        try:
            await informer.run()
        except Forbidden as problem:
            if kind in (NODES, PODS):
                raise
            informer.synced.set()
            warn(f"{kind.plural} are left out: {problem}")

    looked_up = mirror.config.looked_up()
    missing = await unserved(client, looked_up)
    kinds: list[Resource[Any]] = [NODES, PODS]
    kinds += [kind for kind in looked_up if kind.plural not in missing]
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
