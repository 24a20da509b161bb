"""The extender on the HTTP server: framing, limits, slow and rude clients, an orderly end.

All cases of the parser are in tests/unit/http/test_parser.py.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import cast

import pytest

from stowplan.api.extender_protocol import ExtenderArgs, ExtenderFilterResult
from stowplan.http.messages import Response
from stowplan.http.parser import MAX_HEAD
from tests.unit.extender.kit import ARGS_TEXT, LIMITS, Calls, ThreadedCalls, request, stage

SLOW = replace(LIMITS, request_timeout_s=0.2)


async def test_many_requests_on_one_connection() -> None:
    async with stage() as served:
        client = await served.connect()
        for _ in range(3):
            reply = await client.ask("/filter", ARGS_TEXT)
            assert (reply.status, reply.content["NodeNames"]) == (200, ["n1", "n2"])
            assert "connection" not in reply.headers
            sent = parsedate_to_datetime(reply.headers["date"])
            assert abs(datetime.now(UTC) - sent) < timedelta(minutes=5)
        assert len(served.server.connections) == 1


async def test_requests_sent_before_answers_came() -> None:
    async with stage() as served:
        client = await served.connect()
        await client.send(request("/filter", ARGS_TEXT) * 50 + request("/status"))
        for _ in range(50):
            assert (await client.reply()).content["NodeNames"] == ["n1", "n2"]
        assert (await client.reply()).body == b"true"


async def test_requests_sent_before_a_slow_algorithm_answered() -> None:
    asked = []

    def filter_(args: ExtenderArgs) -> ExtenderFilterResult:
        asked.append(args.Pod["metadata"]["name"])
        return ExtenderFilterResult(NodeNames=[args.Pod["metadata"]["name"]])

    names = [f"n{number}" for number in range(300)]
    async with stage(ThreadedCalls(filter_)) as served:
        client = await served.connect()
        for name in names:
            text = json.dumps({"Pod": {"metadata": {"name": name}}, "NodeNames": names})
            await client.send(request("/filter", text.encode()))
        for name in names:
            assert (await client.reply()).content["NodeNames"] == [name]
    assert asked == names


@pytest.mark.parametrize("size", [1, 7, 100])
async def test_a_request_in_small_pieces(size: int) -> None:
    async with stage() as served:
        client = await served.connect()
        whole = request("/filter", ARGS_TEXT)
        for start in range(0, len(whole), size):
            await client.send(whole[start : start + size])
            await asyncio.sleep(0)
        assert (await client.reply()).content["NodeNames"] == ["n1", "n2"]


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_a_body_in_chunks(size: int) -> None:
    pieces = [ARGS_TEXT[start : start + size] for start in range(0, len(ARGS_TEXT), size)]
    chunks = b"".join(b"%x;note=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    whole = (
        b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
        + chunks
        + b"0\r\nTrailer: x\r\n\r\n"
    )
    async with stage() as served:
        client = await served.connect()
        await client.send(whole + whole + request("/status"))
        for _ in range(2):
            assert (await client.reply()).content["NodeNames"] == ["n1", "n2"]
        assert (await client.reply()).body == b"true"
        for start in range(0, len(whole), 5):
            await client.send(whole[start : start + 5])
            await asyncio.sleep(0)
        assert (await client.reply()).content["NodeNames"] == ["n1", "n2"]


async def test_a_client_that_waits_to_be_told_to_go_on() -> None:
    async with stage() as served:
        client = await served.connect()
        head, _, body = request("/filter", ARGS_TEXT, Expect="100-continue").partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert (await client.reply()).status == 200
        refused = await client.ask("/nowhere", ARGS_TEXT, Expect="100-continue")
        assert refused.status == 404


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("nonsense", "the first line is not that of an HTTP request"),
        ("GET /status HTTP/1.1\r\nHost: x\r\nA: x\r\n folded", "a header line is malformed"),
        ("POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: ²", "Content-Length is not a number"),
        (
            "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3",
            "Transfer-Encoding can only be chunked, and without Content-Length",
        ),
        (
            "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
            "a chunk is longer than it says",
        ),
        (
            "POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + "1" * 5000,
            "a chunk's first line is too long",
        ),
    ],
)
async def test_what_is_no_http_is_refused(head: str, problem: str) -> None:
    async with stage() as served:
        client = await served.connect()
        await client.send(head.encode("latin-1") + b"\r\n\r\n")
        reply = await client.reply()
        assert (reply.status, reply.problem) == (400, problem)
        assert reply.headers["connection"] == "close"
        client.writer.write_eof()
        assert await client.is_closed()
        assert served.service.metrics.refused == {400: 1}


async def test_headers_without_end() -> None:
    async with stage() as served:
        client = await served.connect()
        await client.send(b"GET /status HTTP/1.1\r\nHost: x\r\nX: " + b"x" * MAX_HEAD)
        assert (await client.reply()).status == 431


async def test_paths_methods_and_encodings_that_are_not_served() -> None:
    async with stage() as served:
        client = await served.connect()
        reply = await client.ask("/nowhere")
        assert (reply.status, reply.problem) == (404, "there is no /nowhere here")
        reply = await client.ask("/filter")
        assert (reply.status, reply.problem) == (405, "/filter is not for GET")
        assert reply.headers["allow"] == "POST"
        reply = await client.ask("/status", b"{}")
        assert (reply.status, reply.headers["allow"]) == (405, "GET")
        reply = await served.ask("/filter", ARGS_TEXT, Content_Encoding="gzip")
        assert (reply.status, reply.problem) == (
            415,
            "bodies with a Content-Encoding are not supported",
        )


async def test_head_and_http_1_0() -> None:
    async with stage() as served:
        client = await served.connect()
        await client.send(b"HEAD /status HTTP/1.1\r\nHost: x\r\n\r\nGET /status HTTP/1.0\r\n\r\n")
        reply = await client.reply(is_shown=False)
        assert reply.headers["content-length"] == "4"
        assert (await client.reply()).body == b"true"
        assert await client.is_closed()


async def test_a_client_that_wants_the_connection_closed() -> None:
    async with stage() as served:
        client = await served.connect()
        reply = await client.ask("/filter", ARGS_TEXT, Connection="close")
        assert reply.headers["connection"] == "close"
        assert await client.is_closed()


async def test_a_client_that_has_nothing_more_to_say_is_answered() -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def filter_(args: ExtenderArgs) -> ExtenderFilterResult:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        return ExtenderFilterResult(NodeNames=["n1"])

    async with stage(ThreadedCalls(filter_)) as served:
        client = await served.connect()
        await client.send(request("/filter", ARGS_TEXT))
        client.writer.write_eof()
        await asyncio.sleep(0.05)
        release.set()
        reply = await client.reply()
        assert (reply.content["NodeNames"], reply.headers["connection"]) == (["n1"], "close")
        assert await client.is_closed()


async def test_a_request_that_ends_early() -> None:
    async with stage() as served:
        for cut in (10, len(request("/filter", ARGS_TEXT)) - 1):
            client = await served.connect()
            await client.send(request("/filter", ARGS_TEXT)[:cut])
            client.writer.write_eof()
            reply = await client.reply()
            assert (reply.status, reply.problem) == (400, "the request ended early")
            assert await client.is_closed()


async def test_a_body_beyond_the_limit_is_refused_before_it_is_sent() -> None:
    async with stage() as served:
        client = await served.connect()
        length = LIMITS.max_body + 1
        await client.send(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length
        )
        reply = await client.reply()
        assert (reply.status, reply.problem) == (413, "the body is longer than 4194304 bytes")


async def test_a_body_in_chunks_beyond_the_limit_is_refused() -> None:
    async with stage(limits=replace(LIMITS, max_body=2048)) as served:
        client = await served.connect()
        await client.send(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(3):
            await client.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
        assert (await client.reply()).status == 413


async def test_a_refused_client_that_goes_on_sending_still_gets_the_answer() -> None:
    async with stage(limits=replace(LIMITS, max_body=2048)) as served:
        client = await served.connect()
        whole = request("/filter", b" " * 8_000_000)
        sending = asyncio.create_task(client.send(whole))
        assert (await client.reply()).status == 413
        await sending
        client.writer.write_eof()
        assert await client.is_closed()


async def test_a_body_of_the_largest_size() -> None:
    async with stage() as served:
        body = ARGS_TEXT + b" " * (LIMITS.max_body - len(ARGS_TEXT))
        client = await served.connect()
        assert (await client.ask("/filter", body)).status == 200
        assert (await client.ask("/status")).body == b"true"


async def test_declared_lengths_take_nothing_from_others() -> None:
    async with stage() as served:
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LIMITS.max_body
        rude = [await served.connect() for _ in range(5)]
        for client in rude:
            await client.send(head + b" ")
        assert (await served.ask("/filter", ARGS_TEXT.ljust(LIMITS.max_body))).status == 200


async def test_large_bodies_of_many_clients_together_have_a_limit() -> None:
    """The one that has sent nothing for longest is refused, not the one that sends."""
    async with stage() as served:
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LIMITS.max_body
        stopped = [await served.connect() for _ in range(2)]
        for number, client in enumerate(stopped, start=1):
            await client.send(head + b" " * (LIMITS.max_body - 1))
            while served.server.body_bytes < number * (LIMITS.max_body - 1):  # noqa: ASYNC110 - a counter
                await asyncio.sleep(0.001)
        assert (await served.ask("/filter", ARGS_TEXT.ljust(LIMITS.max_body))).status == 200
        reply = await stopped[0].reply()
        assert (reply.status, reply.problem) == (
            503,
            "too many large requests at a time; try again",
        )
        for client in stopped:
            await client.close()
        while served.server.body_bytes:  # noqa: ASYNC110 - a counter
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "sent", [b"P", b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"]
)
async def test_a_slow_request_is_told_so(sent: bytes) -> None:
    async with stage(limits=SLOW) as served:
        client = await served.connect()
        await client.send(sent)
        reply = await client.reply()
        assert (reply.status, reply.problem) == (408, "the request took more than 0.2 s")
        client.writer.write_eof()
        assert await client.is_closed()
        assert (await served.ask("/status")).body == b"true"


async def test_slow_requests_keep_nobody_waiting() -> None:
    async with stage() as served:
        for number in range(100):
            client = await served.connect()
            await client.send(request("/filter", ARGS_TEXT)[: 10 + number])
        assert (await served.ask("/filter", ARGS_TEXT)).status == 200
        assert len(served.server.connections) == 101


async def test_an_idle_connection_is_closed() -> None:
    async with stage(limits=replace(LIMITS, idle_timeout_s=0.1)) as served:
        client = await served.connect()
        assert (await client.ask("/status")).status == 200
        assert await client.is_closed()


async def test_a_client_that_does_not_read_is_dropped() -> None:
    names = [f"node-{number}" for number in range(50_000)]
    text = json.dumps({"Pod": {}, "NodeNames": names}).encode()
    async with stage(limits=SLOW) as served:
        client = await served.connect_unread()
        for _ in range(30):
            client.writer.write(request("/filter", text))
        while served.server.connections:  # noqa: ASYNC110 - ends when the server says so
            await asyncio.sleep(0.01)
        client.writer.transport.abort()


async def test_a_client_that_reads_late_gets_everything() -> None:
    names = [f"node-{number}" for number in range(50_000)]
    text = json.dumps({"Pod": {}, "NodeNames": names}).encode()
    async with stage() as served:
        client = await served.connect_unread()
        for _ in range(20):
            client.writer.write(request("/filter", text))
        while served.service.metrics.requests["filter"] < 3:  # noqa: ASYNC110 - a counter
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        # Answers that nobody reads are not worked out in advance.
        assert served.service.metrics.requests["filter"] < 20
        cast(asyncio.Transport, client.writer.transport).resume_reading()
        for _ in range(20):
            assert len((await client.reply()).content["NodeNames"]) == 50_000


async def test_connections_have_a_limit() -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def filter_(args: ExtenderArgs) -> ExtenderFilterResult:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        return ExtenderFilterResult(NodeNames=["n1"])

    limits = replace(LIMITS, max_connections=2)
    async with stage(ThreadedCalls(filter_), limits=limits) as served:
        first, second = [await served.connect() for _ in range(2)]
        await first.send(request("/filter", ARGS_TEXT))
        assert (await second.ask("/status")).status == 200
        third = await served.connect()
        assert (await third.ask("/status")).status == 200, "the idle connection made room"
        assert await second.is_closed()
        await third.send(request("/filter", ARGS_TEXT))
        await asyncio.sleep(0.05)
        fourth = await served.connect()
        with pytest.raises((OSError, EOFError)):
            await fourth.ask("/status")
        release.set()
        for busy in (first, third):
            assert (await busy.reply()).content["NodeNames"] == ["n1"]


async def test_the_end_waits_for_requests_under_way_and_closes_idle_connections() -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def filter_(args: ExtenderArgs) -> ExtenderFilterResult:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        return ExtenderFilterResult(NodeNames=["n1"])

    async with stage(ThreadedCalls(filter_)) as served:
        idle, busy, sending = [await served.connect() for _ in range(3)]
        assert (await idle.ask("/status")).status == 200
        await busy.send(request("/filter", ARGS_TEXT))
        whole = request("/prioritize", ARGS_TEXT)
        await sending.send(whole[:-1])
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(served.server.stop(10.0))
        assert await idle.is_closed()
        with pytest.raises(OSError):
            await served.connect()
        await sending.send(whole[-1:])
        reply = await sending.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert not stopping.done()
        release.set()
        reply = await busy.reply()
        assert (reply.content["NodeNames"], reply.headers["connection"]) == (["n1"], "close")
        assert await stopping == 0


async def test_the_end_does_not_wait_for_ever() -> None:
    async with stage() as served:
        client = await served.connect()
        await client.send(b"POST")
        await asyncio.sleep(0.05)
        assert await served.server.stop(0.05) == 1
        assert not served.server.connections


async def test_a_bug_of_ours_is_an_answer_without_traceback() -> None:
    async with stage(Calls()) as served:

        def broken(_: object) -> None:
            raise ZeroDivisionError("secret")

        async def broken_later(_: object) -> Response:
            raise ZeroDivisionError("secret")

        served.service.add_route("GET", "/broken", broken)  # type: ignore[arg-type]  # wrong on purpose
        served.service.add_route("GET", "/later", broken_later)
        client = await served.connect()
        for path in ("/broken", "/later"):
            reply = await client.ask(path)
            assert (reply.status, reply.problem) == (500, "an internal error; see the log")
        assert (await client.ask("/status")).status == 200
