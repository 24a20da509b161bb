"""A list and a watch with as little decoding as possible: names, and what a caller asks for.

Used by `observe` to see binds and events, and by `raw` to see new pods and their claims. What must
stay true: nothing is missed when the API server ends a watch, as it does with every slow reader.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.tls import build_context
from stowplan.lab.controlplane.processes import ControlPlaneError
from stowplan.loader.json_text import json_decoder

#: An encoding that no scheduler's own watch shares.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_OF_ALL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_JSON = "application/json"


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    creation_timestamp: datetime | None = None


class Followed(msgspec.Struct):
    """An object by its name; derive from it to decode more of one."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)


T = TypeVar("T", bound=Followed)


class FollowedChange(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    remaining_item_count: int = 0


class _List(msgspec.Struct, Generic[T]):
    metadata: _ListMetadata
    #: Null where there are none.
    items: list[T] | None


@asynccontextmanager
async def session(config: ClusterConfig, accept: str) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {config.token}", "Accept": accept}
    async with aiohttp.ClientSession(
        base_url=config.server,
        connector=aiohttp.TCPConnector(ssl=build_context(config)),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None),
        raise_for_status=True,
    ) as opened:
        yield opened


async def listed(
    client: aiohttp.ClientSession, path: str, params: Mapping[str, str], *, accept: str = _JSON
) -> tuple[list[Metadata], _ListMetadata]:
    found = await _list(client, path, params, Followed, accept)
    return [item.metadata for item in found.items or ()], found.metadata


async def read_all(client: aiohttp.ClientSession, path: str, of: type[T]) -> tuple[list[T], str]:
    """The objects that exist, and the version from which to `watch` their changes."""
    found = await _list(client, path, {}, of, _JSON)
    return found.items or [], found.metadata.resource_version


async def _list(
    client: aiohttp.ClientSession, path: str, params: Mapping[str, str], of: type[T], accept: str
) -> _List[T]:
    async with client.get(path, params=params, headers={"Accept": accept}) as answer:
        decode: Callable[[bytes], _List[T]] = _decoder(_List, of)
        return decode(await answer.read())


def _decoder(generic: Any, of: type[T]) -> Callable[[bytes], Any]:
    return json_decoder(generic[of])


async def follow(
    client: aiohttp.ClientSession, path: str, params: Mapping[str, str], of: type[T]
) -> AsyncGenerator[FollowedChange[T], None]:
    """Yield all existing objects, then every new one, without end.

    What is there is listed, not watched: a watch tells it in no order, so that one which is cut off
    meanwhile could not go on from the highest version it has seen without losing the rest.
    """
    there = await _list(client, path, params, of, _JSON)
    for each in there.items or ():
        yield FollowedChange("ADDED", each)
    async with aclosing(
        watch(client, path, params, of, there.metadata.resource_version)
    ) as changes:
        async for change in changes:
            yield change


async def watch(
    client: aiohttp.ClientSession, path: str, params: Mapping[str, str], of: type[T], version: str
) -> AsyncGenerator[FollowedChange[T], None]:
    """Yield every change since a version, without end."""
    decode: Callable[[bytes], FollowedChange[T]] = _decoder(FollowedChange, of)
    while True:
        query = {**params, "watch": "1", "allowWatchBookmarks": "1", "resourceVersion": version}
        async with client.get(path, params=query) as stream:
            async for line in stream.content:
                change = decode(line)
                if change.type == "ERROR":
                    raise ControlPlaneError(f"watch of {path}: {line.decode().strip()}")
                version = change.object.metadata.resource_version
                if change.type != "BOOKMARK":
                    yield change
