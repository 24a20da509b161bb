"""The extender client against a small server: what goes out, and what comes of every answer."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from stowplan.api import extender_codec as codec
from stowplan.api.guarded import WriteGuard
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.config.durations import Duration
from stowplan.config.types import Extender, ExtenderTLSConfig
from stowplan.errors import ExtenderError, LeadershipLost
from stowplan.framework.candidates import Victims
from stowplan.scheduler.configured_extender import ConfiguredExtender, configured_extenders
from stowplan.scheduler.extender_client import ExtenderClient
from stowplan.scheduler.extender_requests import (
    Failed,
    FilterAnswer,
    FilterRequest,
    PreemptAnswer,
    PreemptRequest,
    PrioritizeAnswer,
    PrioritizeRequest,
)
from stowplan.scheduler.whole_objects import WholeObjects
from stowplan.testing import node, pod
from tests.unit.api.tls_kit import Authority

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POD = pod("p", uid="u")


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that answers every POST so."""
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}/prefix/"
    finally:
        await runner.cleanup()


def answering(body: Any, seen: list[tuple[str, Any]] | None = None, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if seen is not None:
            seen.append((request.path, await request.json()))
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, content_type="application/json")

    return handler


class Asking:
    """A client with one extender, and two nodes."""

    def __init__(self, url: str, *, guard: WriteGuard | None = None, **settings: Any) -> None:
        verbs = {
            "filter_verb": "filter",
            "prioritize_verb": "prioritize",
            "preempt_verb": "preempt",
            "bind_verb": "bind",
            "weight": 2,
            "node_cache_capable": True,
            **settings,
        }
        errors: list[Any] = []
        (self.extender,) = configured_extenders([Extender(url_prefix=url, **verbs)], errors)
        assert errors == []
        cache = ClusterCache()
        for name in ("a", "b"):
            cache.set_node(node(name))
        whole = WholeObjects([self.extender], lambda _: True)
        self.client = ExtenderClient([self.extender], cache.table, whole, guard=guard)

    async def filter(self) -> object:
        return await self.client.answer(FilterRequest(self.extender, POD, ["a", "b"]))

    async def prioritize(self) -> object:
        return await self.client.answer(PrioritizeRequest([self.extender], POD, ["a", "b"]))

    async def preempt(self) -> object:
        victims = {"a": Victims((compile_pod(pod("v", uid="vu", node="a")),), 1)}
        return await self.client.answer(PreemptRequest(self.extender, POD, victims))

    async def failure(self) -> str:
        answer = await self.filter()
        assert isinstance(answer, Failed)
        return answer.message


async def test_every_verb_by_name() -> None:
    seen: list[tuple[str, Any]] = []
    body = {"NodeNames": ["b"], "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "vu"}]}}}
    async with serving(answering(body, seen)) as url:
        asking = Asking(url)
        assert await asking.filter() == FilterAnswer(["b"])
        assert await asking.preempt() == PreemptAnswer({"a": (["vu"], 0)})
        await asking.client.bind(asking.extender, POD, "b")
        asking.client.close()
    assert [path for path, _ in seen] == ["/prefix/filter", "/prefix/preempt", "/prefix/bind"]
    assert seen[0][1]["NodeNames"] == ["a", "b"]
    assert seen[0][1]["Pod"]["metadata"]["name"] == "p"
    assert seen[1][1]["NodeNameToMetaVictims"] == {
        "a": {"Pods": [{"UID": "vu"}], "NumPDBViolations": 1}
    }
    assert seen[2][1] == {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "b"}


async def test_only_binding_needs_the_lease() -> None:
    seen: list[tuple[str, Any]] = []

    def refuse() -> None:
        raise LeadershipLost("the lease ran out")

    async with serving(answering({"nodenames": ["a"]}, seen)) as url:
        asking = Asking(url, guard=WriteGuard(refuse, 5.0))
        answer = await asking.client.answer(FilterRequest(asking.extender, POD, ["a", "b"]))
        assert isinstance(answer, FilterAnswer)
        with pytest.raises(LeadershipLost):
            await asking.client.bind(asking.extender, POD, "a")
        asking.client.close()
    assert [path for path, _ in seen] == ["/prefix/filter"]


async def test_whole_objects() -> None:
    seen: list[tuple[str, Any]] = []
    body = {"Nodes": {"items": [{"metadata": {"name": "a"}}]}}
    async with serving(answering(body, seen)) as url:
        asking = Asking(url, node_cache_capable=False)
        assert await asking.filter() == FilterAnswer(["a"])
        assert await asking.preempt() == PreemptAnswer({})
        asking.client.close()
    names = [item["metadata"]["name"] for item in seen[0][1]["Nodes"]["items"]]
    assert (names, seen[0][1]["NodeNames"]) == (["a", "b"], None)
    (victim,) = seen[1][1]["NodeNameToVictims"]["a"]["Pods"]
    assert victim["metadata"]["uid"] == "vu"


async def test_extenders_are_asked_for_scores_at_the_same_time() -> None:
    """Each answers only when both have been asked."""
    both = asyncio.Barrier(2)

    async def handler(request: web.Request) -> web.StreamResponse:
        await both.wait()
        return web.json_response([{"Host": "a", "Score": 3}])

    async with serving(handler) as url:
        one, two = Asking(url, weight=2), Asking(url, weight=5)
        extenders = [one.extender, two.extender]
        client = ExtenderClient(
            extenders, ClusterCache().table, WholeObjects(extenders, lambda _: True)
        )
        answer = await client.answer(PrioritizeRequest(extenders, POD, ["a"]))
        client.close()
    assert answer == PrioritizeAnswer([{"a": 60}, {"a": 150}])


async def test_connections_are_kept() -> None:
    peers: set[object] = set()

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.json_response({"NodeNames": []})

    async with serving(handler) as url:
        asking = Asking(url)
        for _ in range(5):
            await asking.filter()
        asking.client.close()
    assert len(peers) == 1


async def test_a_connection_that_the_extender_has_closed_is_no_failure() -> None:
    """It ends each one after its answer, without a word; a bind is not sent twice for that."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"NodeNames":[] }')
        await reader.readuntil(b"\r\n\r\n")  # the next request comes, and is not answered
        writer.close()

    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    asking = Asking(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert await asking.filter() == FilterAnswer([])
    assert await asking.filter() == FilterAnswer([])
    with pytest.raises(ExtenderError, match="EOF"):
        await asking.client.bind(asking.extender, POD, "b")
    asking.client.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("status", [204, 301, 400, 404, 500, 503])
async def test_only_200_is_an_answer(status: int) -> None:
    async with serving(answering({"NodeNames": ["a"]}, status=status)) as url:
        asking = Asking(url)
        assert await asking.failure() == (
            f"failed filter with extender at URL {url}filter, code {status}"
        )
        assert await asking.prioritize() == PrioritizeAnswer([None])
        asking.client.close()


@pytest.mark.parametrize("body", ["", "{", "[]", '{"NodeNames": 3}', "<html>"])
async def test_what_cannot_be_read_is_a_failure(body: str) -> None:
    async with serving(answering(body)) as url:
        asking = Asking(url)
        assert (await asking.failure()).startswith(f"{url}filter: the answer cannot be read: ")
        asking.client.close()


async def test_an_error_in_the_answer_is_told_as_it_is() -> None:
    async with serving(answering({"Error": "the disk is on fire"})) as url:
        asking = Asking(url)
        assert await asking.failure() == "the disk is on fire"
        with pytest.raises(ExtenderError, match=r"^the disk is on fire$"):
            await asking.client.bind(asking.extender, POD, "a")
        asking.client.close()


async def test_nobody_there() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        told = await Asking(f"http://{address}").failure()
    assert told == (
        f'Post "http://{address}/filter": dial tcp {address}: connect: connection refused'
    )


async def test_an_extender_that_hangs_is_given_up() -> None:
    hangs = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        await hangs.wait()
        return web.Response()

    async with serving(handler) as url:
        asking = Asking(url, http_timeout=Duration(0.1))
        assert await asking.failure() == (
            f'Post "{url}filter": context deadline exceeded '
            "(Client.Timeout exceeded while awaiting headers)"
        )
        hangs.set()
        asking.client.close()


async def test_an_answer_that_breaks_off_is_a_failure() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"NodeNames":[]')
        writer.close()

    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    asking = Asking(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert await asking.failure() == "unexpected EOF"
    asking.client.close()
    server.close()
    await server.wait_closed()


async def test_an_answer_that_stalls_is_given_up() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "99"})
        await answer.prepare(request)
        await answer.write(b'{"NodeNames":[]')
        await asyncio.sleep(60)
        return answer

    async with serving(handler) as url:
        asking = Asking(url, http_timeout=Duration(1.0))
        assert await asking.failure() == (
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        )
        asking.client.close()


async def test_a_large_answer_in_pieces() -> None:
    names = [f"node-{number}" for number in range(200_000)]
    async with serving(answering({"NodeNames": names})) as url:
        asking = Asking(url)
        answer = await asking.filter()
        assert isinstance(answer, FilterAnswer)
        assert answer.nodes == names
        asking.client.close()


async def test_name_and_password_of_the_url_are_sent() -> None:
    seen: list[str | None] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return web.json_response({})

    async with serving(handler) as url:
        asking = Asking(url.replace("http://", "http://me:p%40ss@"))
        await asking.filter()
        asking.client.close()
    assert seen == ["Basic bWU6cEBzcw=="]


@pytest.mark.parametrize("status", [200, 500])
async def test_a_password_is_never_told(status: int) -> None:
    """What fails is told in events."""
    async with serving(answering("junk", status=status)) as url:
        asking = Asking(url.replace("http://", "http://me:secret@"))
        told = await asking.failure()
        asking.client.close()
    assert "http://me:xxxxx@127.0.0.1" in told
    assert "secret" not in told + asking.extender.name


async def over_tls(context: ssl.SSLContext, **settings: Any) -> object:
    async with serving(answering({"NodeNames": []}), context) as url:
        asking = Asking(url, **settings)
        answer = await asking.filter()
        asking.client.close()
        return answer


async def test_tls_with_a_known_authority(tmp_path: Path) -> None:
    authority = Authority()
    tls = ExtenderTLSConfig(ca_data=authority.cert)
    assert await over_tls(authority.server_context(tmp_path), tls_config=tls) == FilterAnswer([])


async def test_tls_verifies_nothing_where_https_is_enabled_without_an_authority(
    tmp_path: Path,
) -> None:
    """As upstream."""
    context = Authority().server_context(tmp_path)
    assert await over_tls(context, enable_https=True) == FilterAnswer([])
    insecure = ExtenderTLSConfig(insecure=True)
    assert await over_tls(context, tls_config=insecure) == FilterAnswer([])


async def test_tls_with_an_unknown_authority(tmp_path: Path) -> None:
    context = Authority().server_context(tmp_path)
    for tls in (None, ExtenderTLSConfig(ca_data=Authority("other").cert)):
        answer = await over_tls(context, tls_config=tls)
        assert isinstance(answer, Failed)
        assert "certificate verify failed" in answer.message


async def test_tls_with_another_name(tmp_path: Path) -> None:
    authority = Authority()
    context = authority.server_context(tmp_path, "extender.example")
    tls = ExtenderTLSConfig(ca_data=authority.cert)
    answer = await over_tls(context, tls_config=tls)
    assert isinstance(answer, Failed)
    assert "certificate" in answer.message
    named = ExtenderTLSConfig(ca_data=authority.cert, server_name="extender.example")
    assert await over_tls(context, tls_config=named) == FilterAnswer([])


async def test_tls_with_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.client("scheduler")
    (tmp_path / "cert.pem").write_bytes(pair.cert)
    (tmp_path / "key.pem").write_bytes(pair.key)
    (tmp_path / "ca.pem").write_bytes(authority.cert)
    context = authority.server_context(tmp_path, clients=authority)
    tls = ExtenderTLSConfig(
        ca_file=str(tmp_path / "ca.pem"),
        cert_file=str(tmp_path / "cert.pem"),
        key_file=str(tmp_path / "key.pem"),
    )
    assert await over_tls(context, tls_config=tls) == FilterAnswer([])
    bare = ExtenderTLSConfig(ca_data=authority.cert)
    assert isinstance(await over_tls(context, tls_config=bare), Failed)


async def test_a_defect_of_ours_costs_an_attempt_and_not_the_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise KeyError("oh")

    monkeypatch.setattr(codec, "encode_args", broken)
    monkeypatch.setattr(codec, "encode_meta_victims", broken)
    asking = Asking("http://127.0.0.1:1")
    assert await asking.filter() == Failed("'oh'")
    assert await asking.preempt() == Failed("'oh'")
    assert await asking.prioritize() == PrioritizeAnswer([None])
    assert caplog.text.count("A request to an extender failed") == 3


def test_an_extender_is_known_by_itself_not_by_its_settings() -> None:
    settings = Extender(url_prefix="http://x")
    assert ConfiguredExtender(settings) != ConfiguredExtender(settings)
