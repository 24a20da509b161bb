"""Requests in one piece, in several, and several in one: they are read alike, however long."""

from __future__ import annotations

import asyncio
import json

import pytest

from stowplan.api.extender_protocol import ExtenderArgs, ExtenderFilterResult
from stowplan.http.messages import Limits
from tests.unit.extender.kit import ARGS_TEXT, Calls, ThreadedCalls, request, stage

SMALL_BODY = Limits(max_body=0, request_timeout_s=0).small_body


def body_of(length: int, name: str = "n1") -> bytes:
    """Exactly so many bytes, most of them in the pod."""
    args = {"NodeNames": [name], "Pod": {"metadata": {"name": "a", "namespace": ""}}}
    missing = length - len(json.dumps(args))
    args["Pod"] = {"metadata": {"name": "a" * (missing + 1), "namespace": ""}}
    text = json.dumps(args).encode()
    assert len(text) == length
    return text


SIZES = [
    200,
    64 * 1024,
    256 * 1024 - 50,
    256 * 1024,
    SMALL_BODY,
    SMALL_BODY + 1,
    3 * SMALL_BODY,
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", [1, 30, 80, 5000, None])
async def test_bodies_of_all_sizes_in_two_pieces(size: int, first: int | None) -> None:
    whole = request("/filter", body_of(size))
    async with stage() as served:
        client = await served.connect()
        await client.send(whole[:first])
        await asyncio.sleep(0.01)
        if first is not None:
            await client.send(whole[first:])
        reply = await client.reply()
        assert (reply.status, reply.content["NodeNames"]) == (200, ["n1"])
        assert (await client.ask("/filter", ARGS_TEXT)).content["NodeNames"] == ["n1", "n2"]
        assert served.server.body_bytes == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", [Calls, ThreadedCalls])
async def test_bodies_of_all_sizes_behind_each_other(size: int, algorithm: type[Calls]) -> None:
    seen = []

    def keep(args: ExtenderArgs) -> ExtenderFilterResult:
        seen.append(args)
        return ExtenderFilterResult(NodeNames=args.NodeNames)

    names = [f"n{number}" for number in range(5)]
    sent = b"".join(request("/filter", body_of(size, name)) for name in names)
    async with stage(algorithm(keep)) as served:
        client = await served.connect()
        sending = asyncio.create_task(client.send(sent))
        for name in names:
            assert (await client.reply()).content["NodeNames"] == [name]
        await sending
        assert served.server.body_bytes == 0
    # What an algorithm keeps is not overwritten by those who come later.
    assert [args.Pod["metadata"]["name"] for args in seen] == [
        json.loads(body_of(size, name))["Pod"]["metadata"]["name"] for name in names
    ]


async def test_clients_do_not_see_each_others_bytes() -> None:
    async with stage() as served:
        clients = [await served.connect() for _ in range(20)]
        texts = [
            json.dumps({"Pod": {}, "NodeNames": [f"{number}-{at}" for at in range(number + 1)]})
            for number in range(20)
        ]
        parts = [request("/filter", text.encode()) for text in texts]
        for cut in (slice(0, 70), slice(70, 90), slice(90, None)):
            for client, part in zip(clients, parts, strict=True):
                await client.send(part[cut])
            await asyncio.sleep(0.01)
        for client, text in zip(clients, texts, strict=True):
            assert (await client.reply()).content["NodeNames"] == json.loads(text)["NodeNames"]


async def test_a_large_body_that_is_left_off() -> None:
    async with stage() as served:
        client = await served.connect()
        await client.send(request("/filter", body_of(2 * SMALL_BODY))[:-1])
        while not served.server.body_bytes:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.01)
        client.writer.write_eof()
        reply = await client.reply()
        assert (reply.status, reply.problem) == (400, "the request ended early")
        await client.close()
        while served.server.connections:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.01)
        assert served.server.body_bytes == 0


async def test_a_body_in_chunks_is_not_kept_after_its_answer() -> None:
    body = body_of(2 * SMALL_BODY)
    chunked = (
        b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\n\r\n"
    )
    async with stage() as served:
        client = await served.connect()
        await client.send(chunked % (len(body), body))
        assert (await client.reply()).content["NodeNames"] == ["n1"]
        (connection,) = served.server.connections
        assert not connection._content
        assert served.server.body_bytes == 0
