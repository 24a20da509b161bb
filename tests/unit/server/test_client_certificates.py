"""Client certificates at an HTTPS port: of users, of strangers, expired and forged; watched CAs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.http.client_certificates import first_certificate
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.health import HealthServer
from stowplan.server.https import https_port
from tests.unit.api.tls_kit import Authority
from tests.unit.server.https_kit import ANY, get, served, showing, until

USERS = Authority("users")


async def test_a_stranger_with_a_certificate_gets_401(tmp_path: Path) -> None:
    """On every path, as from kube-scheduler, by TLS 1.2 and 1.3."""
    (tmp_path / "ca.crt").write_bytes(USERS.cert)
    stranger = showing(tmp_path, Authority("strangers").client("root", "system:masters"))
    async with served(replace(ANY, client_ca_file=tmp_path / "ca.crt")) as port:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            stranger.maximum_version = version
            for path in ("/healthz", "/metrics", "/configz"):
                assert (await get(port, path, tls=stranger))[0] == 401
        # A token counts all the same.
        assert (await get(port, "/metrics", "good", tls=stranger))[0] == 200


async def test_a_broken_file_of_cas_leaves_the_old_ones_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(USERS.cert)
    user = showing(tmp_path, USERS.client("root", "system:masters"))
    async with served(replace(ANY, client_ca_file=file)) as port:
        file.write_bytes(USERS.cert[:200])
        await until(lambda: "Changed files cannot be used" in caplog.text)
        assert (await get(port, "/metrics", tls=user))[0] == 200


async def test_without_a_ca_certificates_are_ignored(tmp_path: Path) -> None:
    stranger = showing(tmp_path, Authority("strangers").client("root", "system:masters"))
    async with served() as port:
        assert (await get(port, tls=stranger))[0] == 200
        assert (await get(port, "/configz", tls=stranger))[0] == 403


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_certificates_of_the_ca_name_users(tmp_path: Path, version: ssl.TLSVersion) -> None:
    (tmp_path / "ca.crt").write_bytes(USERS.cert)
    tls = showing(tmp_path, USERS.client("root", "system:masters"))
    tls.maximum_version = version
    async with served(replace(ANY, client_ca_file=tmp_path / "ca.crt")) as port:
        assert (await get(port, "/metrics", tls=tls))[0] == 200


@pytest.mark.parametrize(
    ("begins", "ends"), [(-2, -1), (1, 2)], ids=["expired", "not valid yet"]
)  # hours from now
async def test_certificates_are_valid_for_their_time(
    tmp_path: Path, begins: int, ends: int
) -> None:
    (tmp_path / "ca.crt").write_bytes(USERS.cert)
    late = showing(tmp_path, USERS.client("root", "system:masters", hours=(begins, ends)))
    async with served(replace(ANY, client_ca_file=tmp_path / "ca.crt")) as port:
        assert (await get(port, "/metrics", tls=late))[0] == 401


@pytest.mark.parametrize(("ca", "status"), [(USERS, 200), (Authority("strangers"), 401)])
async def test_sessions_of_tls_1_2_are_resumed(tmp_path: Path, ca: Authority, status: int) -> None:
    """OpenSSL knows no chain then; the client is the same one all the same."""
    (tmp_path / "ca.crt").write_bytes(USERS.cert)
    tls = showing(tmp_path, ca.client("root", "system:masters"))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2

    def resuming(port: int) -> Iterator[tuple[bool | None, int]]:
        session = None
        for _ in range(3):
            plain = socket.create_connection(("127.0.0.1", port), timeout=10)
            with tls.wrap_socket(plain, session=session, server_hostname="x") as connection:
                connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                # A session can be resumed if its connection was closed in good order.
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
                yield connection.session_reused, int(answer.split()[1])
                session = connection.session

    async with served(replace(ANY, client_ca_file=tmp_path / "ca.crt")) as port:
        answers = await asyncio.to_thread(lambda: list(resuming(port)))
    assert answers == [(False, status), (True, status), (True, status)]


async def test_a_forged_signature_ends_the_handshake(tmp_path: Path) -> None:
    """The certificate names the CA as its issuer, and another key has signed it."""
    (tmp_path / "ca.crt").write_bytes(USERS.cert)
    forged = showing(tmp_path, Authority("users").client("root", "system:masters"))
    async with served(replace(ANY, client_ca_file=tmp_path / "ca.crt")) as port:
        assert await is_cut_off(port, forged)


async def test_one_handshake_does_not_change_the_next(tmp_path: Path) -> None:
    """A stranger's certificate, even a CA by the same name, is trusted by its connection only."""
    (tmp_path / "ca.crt").write_bytes(USERS.cert)
    impostor = Authority("users")
    as_ca = showing(tmp_path, impostor.pair)
    user = showing(tmp_path, USERS.client("root", "system:masters"))
    client = showing(tmp_path, impostor.client("root", "system:masters"))
    async with served(replace(ANY, client_ca_file=tmp_path / "ca.crt")) as port:
        assert (await get(port, "/metrics", tls=as_ca))[0] == 401
        assert await is_cut_off(port, client)
        assert (await get(port, "/metrics", tls=user))[0] == 200


@given(message=st.binary(max_size=40), is_tls13=st.booleans())
def test_no_message_breaks_the_reader_of_certificates(message: bytes, is_tls13: bool) -> None:
    assert first_certificate(message, is_tls13=is_tls13) in message


async def is_cut_off(port: int, tls: ssl.SSLContext) -> bool:
    try:
        await get(port, "/healthz", tls=tls)
    except (OSError, IndexError):  # in the handshake, or with TLS 1.3 after it, without an answer
        return True
    return False


async def test_cas_that_the_cluster_publishes_are_watched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps"
    named = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    cluster = EmbeddedCluster()
    transport = InProcess(cluster)

    async def publish(method: str, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": data}
        await transport.request(method, f"{path}{name}", body=msgspec.json.encode(body))

    client = ApiClient(ClusterConfig(server=SERVER), transport=transport)
    metrics = SchedulerMetrics()
    options = replace(ANY, authentication_skip_lookup=False)
    new = Authority("new")
    tls = {ca: showing(tmp_path, ca.client("root", "system:masters")) for ca in (USERS, new)}

    async def is_known(ca: Authority) -> bool:
        return (await get(port, "/metrics", tls=tls[ca]))[0] == 200

    async def wait_known(ca: Authority) -> None:
        async with asyncio.timeout(30):
            while not await is_known(ca):  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(0.01)

    async with https_port(HealthServer(metrics).site, options, client, metrics) as port:
        await publish("POST", "", **{"client-ca-file": USERS.cert.decode()})
        await wait_known(USERS)
        assert not await is_known(new)
        this = f"/{named['name']}"
        await publish("PUT", this, **{"client-ca-file": "junk"})
        await until(lambda: "the last valid ones stay in use" in caplog.text)
        await publish("PUT", this, **{"requestheader-username-headers": "junk"})
        await until(lambda: caplog.text.count("the last valid ones stay in use") == 2)
        assert await is_known(USERS)
        await publish("PUT", this, **{"client-ca-file": new.cert.decode()})
        await wait_known(new)
        assert not await is_known(USERS)
