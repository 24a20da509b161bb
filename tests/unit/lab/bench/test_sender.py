"""The lean HTTP client, and what `raw` sends with it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from aiohttp import web

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.lab.bench import raw
from stowplan.lab.bench.follow import Metadata
from stowplan.lab.bench.sender import Sender, SendError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[ClusterConfig]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> ClusterConfig:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return ClusterConfig(server=f"http://{host}:{port}", token="secret")

    yield start
    for runner in runners:
        await runner.cleanup()


async def test_sender_keeps_all_connections_busy_and_answers_are_waited_for(serve: Serve) -> None:
    bodies: list[tuple[str, object]] = []
    under_way, most = 0, 0
    all_busy = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal under_way, most
        assert request.headers["Authorization"] == "Bearer secret"
        under_way += 1
        most = max(most, under_way)
        if under_way == 4:
            all_busy.set()
        await all_busy.wait()
        bodies.append((request.path, await request.json()))
        under_way -= 1
        return web.json_response({"kind": "Status"}, status=201)

    config = await serve(handler)
    async with Sender(config, connections=4) as sender:
        sender.submit(sender.request("/a", {"number": number}) for number in range(10))
        sender.submit([sender.request("/b", {"text": "ü"})])
        await sender.drain()
        assert len(bodies) == 11
        sender.submit([sender.request("/c", {})])
        await sender.drain()
    assert most == 4
    assert ("/b", {"text": "ü"}) in bodies
    assert [path for path, _ in bodies].count("/a") == 10


async def test_sender_understands_an_answer_in_chunks(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=201)
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for _ in range(3):
            await answer.write(b"x" * 5000)
            await asyncio.sleep(0)
        await answer.write_eof()
        return answer

    config = await serve(handler)
    async with Sender(config, connections=1) as sender:
        sender.submit(sender.request("/a", {}) for _ in range(3))
        await sender.drain()


async def test_sender_reports_what_the_server_refused(serve: Serve) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"message": "pod is bound already"}, status=409)

    config = await serve(handler)
    async with Sender(config, connections=2) as sender:
        sender.submit([sender.request("/a", {})])
        with pytest.raises(SendError, match="pod is bound already"):
            await sender.drain()


async def test_sender_takes_requests_only_when_it_can_send_them(serve: Serve) -> None:
    answered = 0
    taken_when: list[int] = []

    async def handler(_: web.Request) -> web.Response:
        nonlocal answered
        answered += 1
        return web.Response(status=201)

    config = await serve(handler)
    async with Sender(config, connections=1) as sender:

        def requests() -> Iterator[bytes]:
            for _ in range(3):
                taken_when.append(answered)
                yield sender.request("/a", {})

        sender.submit(requests())
        await sender.drain()
    assert taken_when == [0, 1, 2]


async def test_a_tolerated_status_is_no_failure(serve: Serve) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.json_response({"message": "no such pod"}, status=404)

    config = await serve(handler)
    async with Sender(config, connections=1, tolerated=(404,)) as sender:
        sender.submit([sender.request("/a", None, "DELETE")])
        await sender.drain()
        with pytest.raises(SendError, match="no such pod") as caught:
            await sender.call("/a", None, "DELETE")
        assert caught.value.status == 404
        await sender.perform([[(sender.request("/a", None, "DELETE"), (404,))]])


async def test_a_chain_is_sent_in_order_and_chains_side_by_side(serve: Serve) -> None:
    begun: list[str] = []
    both = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        begun.append(request.path)
        if {"/a/1", "/b/1"} <= set(begun):
            both.set()
        await both.wait()
        return web.Response(status=201)

    config = await serve(handler)
    async with Sender(config, connections=2) as sender:

        def chain(name: str) -> Iterator[tuple[bytes, tuple[int, ...]]]:
            for number in range(1, 4):
                yield sender.request(f"/{name}/{number}", {}), ()

        await sender.perform(chain(name) for name in "ab")
        for name in "ab":
            of_chain = [path for path in begun if path.startswith(f"/{name}/")]
            assert of_chain == [f"/{name}/{number}" for number in range(1, 4)]
        assert len(begun) == 6


async def test_performances_take_turns(serve: Serve) -> None:
    paths: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=201)

    config = await serve(handler)
    async with Sender(config, connections=1) as sender, asyncio.TaskGroup() as tasks:
        tasks.create_task(sender.perform([(sender.request("/many", {}), ())] for _ in range(50)))
        await asyncio.sleep(0)
        await sender.perform([[(sender.request("/one", {}), ())]])
        assert "/one" in paths
        assert len(paths) < 50
    assert paths.count("/many") == 50


async def test_a_chain_that_fails_ends_its_performance(serve: Serve) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=409 if request.path == "/2" else 201)

    config = await serve(handler)
    async with Sender(config, connections=1) as sender:
        with pytest.raises(SendError) as caught:
            await sender.perform([[(sender.request(f"/{number}", {}), ())] for number in range(5)])
        assert caught.value.status == 409
        await sender.call("/fine")


async def test_connections_that_the_server_closed_are_opened_again() -> None:
    accepted = 0

    async def serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve_once, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    config = ClusterConfig(server=f"http://127.0.0.1:{port}", token="secret")
    async with Sender(config, connections=1) as sender:
        for _ in range(3):
            await sender.call("/a", None)
            await asyncio.sleep(0.05)  # until the end of the connection is seen
        assert accepted == 3
        sender.submit([sender.request("/b", None)])
        await sender.drain()
        assert accepted == 4
    server.close()
    await server.wait_closed()


async def test_a_connection_that_rested_too_long_is_not_trusted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers: set[object] = set()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(status=201)

    config = await serve(handler)
    async with Sender(config, connections=1) as sender:
        await sender.call("/a", None)
        await sender.call("/a", None)
        assert len(peers) == 1
        monkeypatch.setattr("stowplan.lab.bench.sender.KEEPALIVE_S", -1.0)
        await sender.call("/a", None)
        assert len(peers) == 2


async def test_without_a_server_there_is_an_error(unused_tcp_port: int) -> None:
    config = ClusterConfig(server=f"http://127.0.0.1:{unused_tcp_port}", token="secret")
    async with Sender(config, connections=1) as sender:
        sender.submit([sender.request("/a", None)])
        with pytest.raises(SendError, match="cannot connect"):
            await sender.drain()


def test_binding_and_event_name_the_pod_by_uid() -> None:
    chosen = Metadata(name="web-0", namespace="shop", uid="u1")
    binding = raw.binding(chosen, "n1")
    assert binding["metadata"] == {"name": "web-0", "namespace": "shop", "uid": "u1"}
    assert binding["target"] == {"kind": "Node", "name": "n1"}
    event = raw.scheduled_event(chosen, "n1")
    assert event["note"] == "Successfully assigned shop/web-0 to n1"
    assert event["regarding"]["uid"] == "u1"
    assert event["metadata"]["name"].rpartition(".")[0] == "web-0"


_TERMINATED_WHILE_RECEIVING = """
import asyncio, signal
from stowplan.lab.bench.sender import run_interruptibly

class Receiver(asyncio.Protocol):
    def data_received(self, data):
        signal.raise_signal(signal.SIGTERM)

async def work():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Receiver, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"x")
    try:
        await asyncio.sleep(20)
    finally:
        print("cleaned up")

try:
    run_interruptibly(work())
except KeyboardInterrupt:
    print("interrupted")
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


def test_a_signal_ends_the_work_in_order_whatever_is_just_running() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _TERMINATED_WHILE_RECEIVING],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.split("\n") == ["cleaned up", "interrupted", "True", ""], ended.stderr
