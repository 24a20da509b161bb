"""Clients that never stop sending, or reading, a little: each ends in time, and none piles up."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace

import pytest

from tests.unit.extender.kit import ARGS_TEXT, LIMITS, Client, Stage, request, stage

SLOW = replace(LIMITS, request_timeout_s=0.5)
NAMES = [f"node-{number}" for number in range(100_000)]
#: Its answer is of 1.5 MB.
LONG = json.dumps({"Pod": {}, "NodeNames": NAMES}).encode()


async def trickle(client: Client, data: bytes) -> None:
    """Byte by byte."""
    for at in range(len(data)):
        await client.send(data[at : at + 1])
        await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    "data",
    [
        request("/healthz")[:-2] + b"X: " + b"x" * 10_000,
        request("/metrics")[:-2] + b"X: " + b"x" * 10_000,
        request("/filter", ARGS_TEXT.ljust(10_000)),
        b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\n \r\n" * 2000,
        # Also behind requests that were answered.
        request("/healthz") + request("/filter", ARGS_TEXT.ljust(10_000)),
    ],
    ids=["healthz", "metrics", "body", "chunks", "next request"],
)
async def test_a_request_that_trickles_is_told_so(data: bytes) -> None:
    async with stage(limits=SLOW) as served:
        client = await served.connect()
        sending = asyncio.create_task(trickle(client, data))
        reply = await client.reply()
        if reply.status == 200:
            reply = await client.reply()
        assert (reply.status, reply.problem) == (408, "the request took more than 0.5 s")
        await ended(sending)
        await client.close()
        await no_connection(served)
        assert served.server.body_bytes == 0


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def no_connection(served: Stage) -> None:
    while served.server.connections:  # noqa: ASYNC110 - the server's doing
        await asyncio.sleep(0.01)


async def small_eared(served: Stage) -> socket.socket:
    """A connection that holds little of what it has not read."""
    ears = socket.socket()
    ears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ears.setblocking(False)
    await asyncio.get_running_loop().sock_connect(ears, ("127.0.0.1", served.port))
    return ears


async def test_answers_that_are_read_in_sips_are_cut_off() -> None:
    loop = asyncio.get_running_loop()
    async with stage(limits=SLOW) as served:
        ears = await small_eared(served)
        asking = asyncio.create_task(loop.sock_sendall(ears, request("/filter", LONG) * 20))
        while not served.server.connections:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.01)
        try:
            while served.server.connections:
                await loop.sock_recv(ears, 100)
                await asyncio.sleep(0.005)
        except ConnectionResetError:
            await no_connection(served)
        # Answers that nobody has room for are not worked out: what is on its way is in the
        # buffers of the system, which take some megabytes.
        assert served.service.metrics.requests["filter"] < 20
        await ended(asking)
        ears.close()
        assert (await served.ask("/healthz")).body == b"ok"


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
async def test_scrapers_that_do_not_read_do_not_pile_up(path: str) -> None:
    """Each asks without end, and reads nothing."""
    loop = asyncio.get_running_loop()
    # Long enough for the one that does read, on a machine that is busy with the others.
    async with stage(limits=replace(LIMITS, request_timeout_s=2.0)) as served:
        deaf = [await small_eared(served) for _ in range(5)]
        asking = [
            asyncio.create_task(loop.sock_sendall(ears, request(path) * 100_000)) for ears in deaf
        ]
        while not served.server.connections:  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.01)
        assert (await served.ask("/healthz")).body == b"ok"
        for client in served.clients:
            await client.close()
        await no_connection(served)
        await ended(*asking)
        for ears in deaf:
            ears.close()


async def test_answers_that_nobody_reads_count_as_bodies_do() -> None:
    """Whoever asks for more than may be kept is told to come again, until they are gone."""
    loop = asyncio.get_running_loop()
    limits = replace(LIMITS, request_timeout_s=20.0, max_body=2 * len(LONG))
    async with stage(limits=limits) as served:
        deaf = [await small_eared(served) for _ in range(12)]
        for ears in deaf:
            await loop.sock_sendall(ears, request("/filter", LONG) * 4)
        while served.server.body_bytes <= 2 * len(LONG):  # noqa: ASYNC110 - the server's doing
            await asyncio.sleep(0.01)
        client = await served.connect()
        statuses = set()
        while 503 not in statuses:
            await client.send(request("/filter", LONG))
            statuses.add((await client.reply()).status)
        assert statuses <= {200, 503}
        for ears in deaf:
            ears.close()
        await client.close()
        await no_connection(served)
        assert served.server.body_bytes == 0
        assert (await served.ask("/filter", LONG)).status == 200
