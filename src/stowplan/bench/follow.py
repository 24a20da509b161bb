"""A watch with as little decoding as possible: `follow` yields names, and nothing of the rest.

Used by `observe` to see binds and events, and by `raw` to see new pods.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import msgspec

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.tls import build_context
from stowplan.controlplane.processes import ControlPlaneError

#: An encoding that no scheduler's own watch shares.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Object(msgspec.Struct):
    metadata: Metadata = msgspec.field(default_factory=Metadata)


class Change(msgspec.Struct):
    type: str
    object: _Object


_decode = msgspec.json.Decoder(Change).decode


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


async def follow(
    client: aiohttp.ClientSession, path: str, params: Mapping[str, str]
) -> AsyncGenerator[Change, None]:
    """All there is, then what comes, for ever.

    A busy API server cuts watches off, so it goes on from where it was.
    """
    version = 0
    while True:
        query = {**params, "watch": "1", "resourceVersion": str(version) if version else ""}
        async with client.get(path, params=query) as stream:
            async for line in stream.content:
                change = _decode(line)
                if change.type == "ERROR":
                    raise ControlPlaneError(f"watch of {path}: {line.decode().strip()}")
                # What is there already comes first, in no order.
                version = max(version, int(change.object.metadata.resource_version))
                yield change
