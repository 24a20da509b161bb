"""TLS to the API server: CAs, client certificates, server names, proxies, and no key on disk."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient, Lane
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.tls import build_context
from stowplan.errors import ApiUnavailable, KubeconfigError
from tests.unit.api.api_kit import raw_server, reply, scripted_server
from tests.unit.api.tls_kit import Authority


async def who(request: web.Request) -> web.Response:
    """The common name of the client's certificate."""
    assert request.transport is not None
    cert = request.transport.get_extra_info("peercert")
    name = dict(part[0] for part in cert["subject"])["commonName"] if cert else ""
    return reply({"name": name})


async def test_the_clusters_ca_is_trusted_and_no_other(tmp_path: Path) -> None:
    authority = Authority()
    context = authority.server_context(tmp_path)
    async with scripted_server(who, tls=context) as server:
        good = replace(server.config, ca_data=b"# comment \xc3\xa9\n" + authority.cert)
        async with ApiClient(good) as client:
            assert await client.version() == {"name": ""}
        for other in (Authority().cert, None):
            async with ApiClient(replace(good, ca_data=other)) as client:
                with pytest.raises(ApiUnavailable, match="certificate is not accepted") as caught:
                    await client.request("POST", "/x", body=b"{}")
                assert not caught.value.maybe_done


async def test_insecure_accepts_anything(tmp_path: Path) -> None:
    context = Authority().server_context(tmp_path, "elsewhere")
    async with scripted_server(who, tls=context) as server:
        config = replace(server.config, insecure_skip_tls_verify=True)
        async with ApiClient(config) as client:
            assert await client.version() == {"name": ""}


async def test_tls_server_name(tmp_path: Path) -> None:
    authority = Authority()
    names: list[str | None] = []
    context = authority.server_context(tmp_path, "kubernetes.default")

    def note_name(_: ssl.SSLSocket, name: str | None, __: ssl.SSLContext) -> None:
        names.append(name)

    context.sni_callback = note_name  # type: ignore[assignment]  # typed for SSLObject alone
    async with scripted_server(who, tls=context) as server:
        config = replace(server.config, ca_data=authority.cert)
        async with ApiClient(config) as client:
            with pytest.raises(ApiUnavailable, match="certificate is not accepted"):
                await client.version()
        named = replace(config, tls_server_name="kubernetes.default")
        async with ApiClient(named) as client:
            assert await client.version() == {"name": ""}
    assert names[-1] == "kubernetes.default"


async def test_client_certificates(tmp_path: Path) -> None:
    authority = Authority()
    context = authority.server_context(tmp_path, clients=authority)
    pair = authority.client("jane")
    async with scripted_server(who, tls=context) as server:
        config = replace(server.config, ca_data=authority.cert)
        mine = replace(config, client_cert=pair.cert, client_key=pair.key)
        async with ApiClient(mine) as client:
            assert await client.version() == {"name": "jane"}
        async with ApiClient(config) as client:
            with pytest.raises(ApiUnavailable):
                await client.version()


def test_keys_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Authority().client("jane")
    config = ClusterConfig(server="https://x", client_cert=pair.cert, client_key=pair.key)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    descriptors = set(Path("/proc/self/fd").iterdir())
    build_context(config, client_cert=pair.cert, client_key=pair.key)
    assert set(Path("/proc/self/fd").iterdir()) == descriptors
    assert list(tmp_path.iterdir()) == []


def test_keys_leave_no_file_behind_where_memory_files_are_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> int:
        raise PermissionError("no")

    pair = Authority().client("jane")
    config = ClusterConfig(server="https://x")
    monkeypatch.setattr(os, "memfd_create", forbidden)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    build_context(config, client_cert=pair.cert, client_key=pair.key)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "ca",
    [b"junk", b"\xff\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
)
def test_an_unusable_ca_is_a_mistake_of_the_file(ca: bytes) -> None:
    config = ClusterConfig(server="https://x", ca_data=ca, source="the-file")
    with pytest.raises(KubeconfigError, match="the-file: the certificate authority is not usable"):
        ApiClient(config)


def test_an_unusable_client_certificate_is_a_mistake_of_the_file() -> None:
    first, second = Authority().client("a"), Authority().client("b")
    for cert, key in ((b"junk", b"junk"), (first.cert, second.key)):
        config = ClusterConfig(
            server="https://x", client_cert=cert, client_key=key, source="the-file"
        )
        with pytest.raises(KubeconfigError, match="the-file: the client certificate and key are"):
            ApiClient(config)


@pytest.mark.parametrize("proxy_tls", [False, True], ids=["http", "https"])
async def test_requests_go_through_the_proxy(tmp_path: Path, proxy_tls: bool) -> None:
    """With TLS inside the proxy sees CONNECT and bytes it cannot read."""
    authority = Authority()
    connects: list[list[bytes]] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        connects.append(head.split(b"\r\n"))
        host, port = head.split(b" ")[1].decode().split(":")
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", int(port))
        assert host == "api.internal"
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    context = authority.server_context(tmp_path, "api.internal")
    outer = authority.server_context(tmp_path, "localhost") if proxy_tls else None
    async with (
        scripted_server(who, tls=context) as server,
        raw_server(proxy, tls=outer) as proxy_url,
    ):
        port = server.url.rpartition(":")[2]
        proxy_port = proxy_url.rpartition(":")[2]
        scheme = "https" if proxy_tls else "http"
        config = ClusterConfig(
            server=f"https://api.internal:{port}",
            ca_data=authority.cert,
            proxy_url=f"{scheme}://me:p%40ss@localhost:{proxy_port}",
        )
        async with ApiClient(config) as client:
            for _ in range(2):
                assert await client.version() == {"name": ""}
    (connect,) = connects
    assert connect[0] == f"CONNECT api.internal:{port} HTTP/1.1".encode()
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==" in connect


async def test_plain_requests_tell_the_proxy_where_they_go() -> None:
    heads: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with raw_server(proxy) as proxy_url:
        url = proxy_url.replace("http://", "http://me:secret@")
        config = ClusterConfig(server="http://api.internal:8080/below", proxy_url=url)
        async with ApiClient(config) as client:
            await client.version()
    lines = heads[0].split(b"\r\n")
    assert lines[0] == b"GET http://api.internal:8080/below/version HTTP/1.1"
    assert b"Host: api.internal:8080" in lines
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in lines


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "the proxy answered with .* 403"),
        (b"SSH-2.0\r\n\r\n", "the proxy's response is malformed"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "the proxy sent more than its answer"),
        (b"HTTP/1.1 200 OK\r\n", "the proxy closed the connection"),
        (b"", "the proxy closed the connection"),
    ],
)
async def test_a_proxy_that_opens_no_tunnel(answer: bytes, problem: str) -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with raw_server(proxy) as proxy_url:
        config = ClusterConfig(server="https://api.internal:6443", proxy_url=proxy_url)
        async with ApiClient(config) as client:
            with pytest.raises(ApiUnavailable, match=problem) as caught:
                await client.request("POST", "/x", body=b"{}")
    assert not caught.value.maybe_done


async def test_plain_text_where_tls_is_expected() -> None:
    async with scripted_server(who) as server:
        config = ClusterConfig(server=server.url.replace("http://", "https://"))
        async with ApiClient(config) as client:
            for lane in (Lane.READ, Lane.BIND):
                with pytest.raises(ApiUnavailable, match="TLS failed: ") as caught:
                    await client.request("POST", "/x", body=b"{}", lane=lane)
                assert not caught.value.maybe_done
