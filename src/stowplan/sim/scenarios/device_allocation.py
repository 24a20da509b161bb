"""Allocates resource claims without pods, as scheduler_perf's `allocResourceClaims` does.

Its own workloads begin with clusters whose devices are partly taken. Each claim gets devices on a
random node that has them, by the allocator that the plugin DynamicResources uses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from random import Random
from typing import Any, TypeVar

import msgspec

from stowplan.api.device_objects import AllocationResult, ResourceClaim
from stowplan.api.resources import (
    DEVICE_CLASSES,
    NODES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from stowplan.errors import StowplanError
from stowplan.loader.json_text import load_json
from stowplan.workloads.writes import Chain, Write

T = TypeVar("T")
Read = Callable[[str], Awaitable[bytes]]


class _List(msgspec.Struct):
    items: list[dict[str, Any]]


async def allocate_claims(
    namespace: str, read: Read, write: Callable[[Iterable[Chain]], Awaitable[None]], rng: Random
) -> None:
    """Allocate the claims of a namespace, or all without one. `read` gets a path."""
    claims = await _items(RESOURCE_CLAIMS, read, namespace)
    taken = claims if not namespace else await _items(RESOURCE_CLAIMS, read)
    slices = await _structs(RESOURCE_SLICES, read)
    classes = await _structs(DEVICE_CLASSES, read)
    nodes = await _structs(NODES, read)
    # CEL takes long to load.
    from stowplan.plugins.dra.allocated import Allocated
    from stowplan.plugins.dra.allocator import Search
    from stowplan.plugins.dra.pools import Slices
    from stowplan.plugins.dra.results import allocation_of

    allocated, indexed = Allocated(), Slices(slices)
    by_name = {each.metadata.name: each for each in classes}
    for each in taken:
        allocated.add(msgspec.convert(each, ResourceClaim))

    def found(claim: ResourceClaim) -> AllocationResult | None:
        for node in rng.sample(nodes, len(nodes)):
            search = Search(node, [claim], indexed, by_name, allocated)
            while (is_found := search.advance(1000)) is None:
                pass
            if is_found:
                return allocation_of(search.claims[0], node.metadata.name)
        return None

    def writes() -> Iterator[Chain]:
        for each in claims:
            claim = msgspec.convert(each, ResourceClaim)
            if claim.status.allocation is not None:
                continue
            allocation = found(claim)
            if allocation is None:
                raise StowplanError(f"no node has devices for claim {claim.metadata.name}")
            status = {"allocation": msgspec.to_builtins(allocation)}
            done = {**each, "status": status}
            allocated.add(msgspec.convert(done, ResourceClaim))
            yield [Write("update", RESOURCE_CLAIMS, done, "status")]

    await write(writes())


async def _items(resource: Resource[Any], read: Read, namespace: str = "") -> list[dict[str, Any]]:
    return load_json(await read(resource.path(namespace=namespace)), _List).items


async def _structs(resource: Resource[T], read: Read) -> list[T]:
    return [msgspec.convert(each, resource.type) for each in await _items(resource, read)]
