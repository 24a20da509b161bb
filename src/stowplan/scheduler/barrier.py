"""The barrier after winning the lease: nothing is bound until the caches are current."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.decoding import decode_answer
from stowplan.api.informer import Informer
from stowplan.api.resources import NODES
from stowplan.clock import Clock
from stowplan.errors import StowplanError
from stowplan.loader.json_text import load_json
from stowplan.loader.numbers import whole_number
from stowplan.logs import V2, get_logger, kv

log = get_logger(__name__)

#: After winning the lease, how long the watches may take to catch up before informers relist.
_CATCH_UP_S = 0.25
#: Lists that may be older than the lease before they are taken as current.
_CATCH_UP_LISTS = 6


async def wait_at_barrier(
    informers: Collection[Informer[Any]],
    client: ApiClient,
    clock: Clock,
    won_at: float,
    lease_version: int,
) -> None:
    """Wait until the caches have seen everything that happened before we won the lease.

    The previous leader may have bound pods that our watches have not delivered yet. A list
    begun after winning is current; so is a watch that has passed a version read after winning.
    A list older than the lease itself is not, whatever the API server promises about lists.
    """
    for informer in informers:
        await informer.synced.wait()
    target = lease_version
    if min(informer.list_started_at for informer in informers) < won_at:
        target = max(target, await _current_version(client))
    deadline = clock.monotonic() + _CATCH_UP_S
    relists = 0
    while behind := [each for each in informers if each.resource_version < target]:
        if clock.monotonic() < deadline:
            await asyncio.sleep(0.01)
            continue
        if relists == _CATCH_UP_LISTS:
            # They count their versions otherwise, as in an etcd of their own.
            log.warning("Lists are older than the lease", extra=kv(version=target))
            return
        log.log(V2, "Listing again after winning the lease", extra=kv(version=target))
        await asyncio.sleep(relists)
        await asyncio.gather(*(informer.relist() for informer in behind))
        relists += 1


async def _current_version(client: ApiClient) -> int:
    """The API server's newest resourceVersion, by a consistent read."""
    while True:
        try:
            body = await client.request("GET", NODES.path(), params={"limit": 1})
            return decode_answer(_decode_version, body, request="GET nodes", kind="a list")
        except StowplanError as problem:
            log.warning("Cannot read the newest version", extra=kv(err=str(problem)))
            await asyncio.sleep(1.0)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str


class _ListVersion(msgspec.Struct):
    metadata: _ListMeta


def _decode_version(body: bytes) -> int:
    version = load_json(body, _ListVersion).metadata.resource_version
    number = whole_number(version)
    if number is None:
        raise ValueError(f"resourceVersion {version[:40]!r} is not a number")
    return number
