"""The HTTPS port over real sockets: certificates of the server, wrong protocols, slow clients."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.errors import ConfigError
from stowplan.http import tls_listener
from stowplan.http.server_connection import ServerConnection
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.health import HealthServer
from stowplan.server.https import https_port
from stowplan.server.listen import open_port
from stowplan.server.serving_options import SniCertificate
from stowplan.server.zpages import add_zpages
from tests.unit.api.tls_kit import Authority
from tests.unit.server.https_kit import ANY, Api, get, sent, served, store, trusting, until


async def test_without_files_the_certificate_is_self_signed() -> None:
    async with served() as port:
        assert await get(port) == (200, "ok")
        pem = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
        # It is valid for the address, and a client may pin it.
        assert await get(port, tls=trusting(pem.encode())) == (200, "ok")
        assert await get(port, tls=trusting(pem.encode()), name="localhost") == (200, "ok")


async def test_a_self_signed_certificate_is_kept_in_cert_dir(tmp_path: Path) -> None:
    options = replace(ANY, cert_dir=tmp_path / "pki")
    async with served(options):
        first = (tmp_path / "pki" / "kube-scheduler.crt").read_bytes()
    async with served(options) as port:
        assert await get(port, tls=trusting(first)) == (200, "ok")
    assert (tmp_path / "pki" / "kube-scheduler.key").stat().st_mode & 0o777 == 0o600


async def test_changed_files_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    old, new = Authority("old"), Authority("new")
    certificate, key = store(tmp_path, old.server())
    options = replace(ANY, tls_cert_file=certificate, tls_private_key_file=key)
    async with served(options) as port:
        assert await get(port, tls=trusting(old.cert)) == (200, "ok")
        halves = (b"half of a ", old.server().cert, b"")  # the second is of another key
        for number, content in enumerate(halves, start=1):
            certificate.write_bytes(content)
            await until(lambda n=number: caplog.text.count("Changed files cannot be used") == n)  # type: ignore[misc]  # mypy: a lambda with a default
            # The old pair stays in use.
            assert await get(port, tls=trusting(old.cert)) == (200, "ok")
        store(tmp_path, new.server())
        await until(lambda: "Changed files are in use" in caplog.text)
        assert await get(port, tls=trusting(new.cert)) == (200, "ok")


async def test_certificates_by_name(tmp_path: Path) -> None:
    default, other, wild = Authority("default"), Authority("other"), Authority("wild")
    certificate, key = store(tmp_path, default.server())
    named = SniCertificate(*store(tmp_path, other.server("other.example"), "other"))
    wildcard = SniCertificate(
        *store(tmp_path, wild.server("*.wild.example"), "wild"), ("*.wild.example",)
    )
    options = replace(
        ANY,
        tls_cert_file=certificate,
        tls_private_key_file=key,
        tls_sni_cert_keys=(named, wildcard),
    )
    async with served(options) as port:
        assert (await get(port, tls=trusting(default.cert)))[0] == 200
        assert (await get(port, tls=trusting(other.cert), name="other.example"))[0] == 200
        assert (await get(port, tls=trusting(wild.cert), name="a.wild.example"))[0] == 200


async def test_versions_and_ciphers() -> None:
    old = trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    async with served(replace(ANY, tls_min_version="VersionTLS13")) as port:
        assert (await get(port))[0] == 200
        with pytest.raises(OSError):
            await get(port, tls=old)
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256")
    async with served(replace(ANY, tls_cipher_suites=suites)) as port:
        old.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
        assert (await get(port, tls=old))[0] == 200
        old.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
        with pytest.raises(OSError):
            await get(port, tls=old)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls_cert_file": Path("a")}, "--tls-cert-file: --tls-cert-file needs --tls-private-key"),
        ({"tls_min_version": "TLS1"}, '--tls-min-version: unknown tls version "TLS1"; known are V'),
        ({"tls_cipher_suites": ("X",)}, "Cipher suite X not supported or doesn't exist"),
        ({"client_ca_file": Path("/nowhere")}, "--client-ca-file: cannot read /nowhere: No such"),
        (
            {"authentication_kubeconfig": "/nowhere"},
            "--authentication-kubeconfig: /nowhere: no such file",
        ),
        (
            {"authorization_kubeconfig": "/nowhere"},
            "--authorization-kubeconfig: /nowhere: no such file",
        ),
        ({"cert_dir": Path("/proc/x")}, "--cert-dir: cannot write a certificate to /proc/x: "),
        ({"authorization_always_allow_paths": ("/a*b",)}, 'only trailing * allowed in "/a*b"'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_unusable_options(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        async with served(replace(ANY, **change)):
            pass
    assert message in str(refused.value)


async def test_a_port_in_use_is_told() -> None:
    async with served() as port:
        with pytest.raises(ConfigError, match="--secure-port, --bind-address: cannot listen on"):
            async with served(replace(ANY, secure_port=port)):
                pass


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
async def test_plain_http_to_the_https_port_is_explained(method: str) -> None:
    async with served() as port:
        answer = await sent(port, f"{method} /healthz HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer == (
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
    )


@pytest.mark.parametrize("data", [b"hello\r\n\r\n", b"\x16\x03\x01\x00\x05abcde", b"\0" * 100])
async def test_junk_to_the_https_port_ends_at_once(data: bytes) -> None:
    async with served() as port:
        assert b"HTTP" not in await sent(port, data)
        assert (await get(port))[0] == 200


async def test_https_to_the_plain_port_ends_at_once() -> None:
    server = HealthServer(SchedulerMetrics())
    await server.start("127.0.0.1", 0)
    try:
        with pytest.raises(ssl.SSLError, match=r"WRONG_VERSION_NUMBER|RECORD_LAYER"):
            await asyncio.wait_for(get(server.port), 5)
    finally:
        await server.stop()


# Slow and many clients


async def test_a_client_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKE_S", 0.05)
    async with served() as port:
        for start in (b"", b"\x16\x03\x01\x02\x00"):  # or not all of its handshake
            assert await sent(port, start) == b""


async def test_handshakes_under_way_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more closes the one that has waited longest; others are answered meanwhile."""
    monkeypatch.setattr(tls_listener, "MAX_STARTING", 3)
    async with served() as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        for reader, _ in idle[:3]:
            assert await asyncio.wait_for(reader.read(), 5) == b""
        assert await get(port) == (200, "ok")
        await asyncio.wait_for(idle[3][0].read(), 5)  # made room for that request
        assert not idle[5][0].at_eof()
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_all_addresses_are_those_of_ipv4_and_ipv6(address: str) -> None:
    """As Go has it; an IPv6-only node probes by IPv6 whatever the manifest says."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with open_port(address, 0, flag="--bind-address") as listening:
        port = listening.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=5).close()


async def test_closed_connections_leave_no_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes come for months, and a standby collects garbage rarely."""
    made: list[weakref.ref[ServerConnection]] = []
    begin = ServerConnection.__init__

    def remembered(self: ServerConnection, *args: Any, **kwargs: Any) -> None:
        made.append(weakref.ref(self))
        begin(self, *args, **kwargs)

    monkeypatch.setattr(ServerConnection, "__init__", remembered)
    gc.collect()
    gc.disable()
    try:
        async with served() as port:
            for _ in range(3):
                await get(port)
            await until(lambda: not any(each() for each in made))
    finally:
        gc.enable()
    assert len(made) >= 3


async def test_every_path_needs_rights() -> None:
    """All that the routing table has, for every method, but the three paths of probes."""
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"), transport=Api())  # type: ignore[arg-type]  # a stand-in for requests alone
    metrics = SchedulerMetrics()
    site = HealthServer(metrics, configz=dict).site
    add_zpages(site, {"v": "0"}, profiling=True)
    async with https_port(site, ANY, client, metrics) as port:
        paths = {*site.routes, *site.restricted}
        assert len(paths) >= 14
        opened = {path for path in paths if (await get(port, path))[0] != 403}
    assert opened == {"/healthz", "/livez", "/readyz"}
