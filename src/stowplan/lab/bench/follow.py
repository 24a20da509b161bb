"""A list and a watch with as little decoding as possible: `follow` yields names, and nothing more.

Used by `observe` to see binds and events, and by `raw` to see new pods. What must stay true:
nothing is missed when the API server ends a watch, as it does with every slow reader.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

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


class _Object(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)


class FollowedChange(msgspec.Struct):
    type: str
    object: _Object


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    remaining_item_count: int = 0


class _List(msgspec.Struct):
    metadata: _ListMetadata
    #: Null where there are none.
    items: list[_Object] | None


_decode = json_decoder(FollowedChange)
_decode_list = json_decoder(_List)


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
    async with client.get(path, params=params, headers={"Accept": accept}) as answer:
        found = _decode_list(await answer.read())
    return [item.metadata for item in found.items or ()], found.metadata


async def follow(
    client: aiohttp.ClientSession, path: str, params: Mapping[str, str]
) -> AsyncGenerator[FollowedChange, None]:
    """Yield all existing objects, then every new one, without end.

    What is there is listed, not watched: a watch tells it in no order, so that one which is cut off
    meanwhile could not go on from the highest version it has seen without losing the rest.
    """
    there, about = await listed(client, path, params)
    for metadata in there:
        yield FollowedChange("ADDED", _Object(metadata))
    version = about.resource_version
    while True:
        query = {**params, "watch": "1", "allowWatchBookmarks": "1", "resourceVersion": version}
        async with client.get(path, params=query) as stream:
            async for line in stream.content:
                change = _decode(line)
                if change.type == "ERROR":
                    raise ControlPlaneError(f"watch of {path}: {line.decode().strip()}")
                version = change.object.metadata.resource_version
                if change.type != "BOOKMARK":
                    yield change
