"""Answers longer than any can be, as they are or once unpacked: an error, and not all memory."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest

from stowplan.api import transport
from stowplan.api.client import ApiClient, Lane
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.errors import ApiUnavailable
from tests.unit.api.api_kit import raw_server

Ask = Callable[[ApiClient], Awaitable[object]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#: 20 MB of spaces in a list; 1,000 times smaller when packed.
BOMB = gzip.compress(b'{"kind": "NodeList", "items": [' + b" " * 20_000_000 + b"]}", 1)
TOO_LONG = "the answer is longer than 1 MiB"


async def talk_packed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB))
    writer.write(BOMB)
    await writer.drain()
    await reader.read()


async def talk_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize("talk", [talk_packed, talk_without_end])
@pytest.mark.parametrize(
    "asked",
    [
        lambda client: client.list_all(NODES),
        lambda client: client.get(PODS, "p", namespace="default"),
    ],
    ids=["list", "get"],
)
async def test_an_answer_beyond_the_limit_is_an_error(
    monkeypatch: pytest.MonkeyPatch, talk: Callable[..., Awaitable[None]], asked: Ask
) -> None:
    monkeypatch.setattr(transport, "_MAX_ANSWER", 1024 * 1024)
    async with raw_server(talk) as url, ApiClient(ClusterConfig(server=url)) as client:
        with pytest.raises(ApiUnavailable, match=TOO_LONG):
            await asked(client)


async def test_what_was_not_asked_to_be_packed_is_not_unpacked() -> None:
    """Binds, patches, events and the lease."""
    async with raw_server(talk_packed) as url, ApiClient(ClusterConfig(server=url)) as client:
        with pytest.raises(ApiUnavailable, match="malformed") as raised:
            await client.get(PODS, "p", namespace="default", lane=Lane.LEASE)
        assert raised.value.maybe_done
