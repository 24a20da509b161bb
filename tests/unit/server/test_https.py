"""The HTTPS port over real sockets: certificates, wrong protocols, and clients without end.

The API server's part is played by a transport that counts; tests/e2e/test_secure_serving.py has the
real one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.errors import ApiUnavailable, ConfigError
from stowplan.http import tls_listener
from stowplan.http.client_certificates import first_certificate
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server import https_site, review_cache
from stowplan.server.health import HealthServer
from stowplan.server.https import https_port
from stowplan.server.serving_options import ServingOptions, SniCertificate
from stowplan.server.zpages import add_zpages
from tests.unit.api.tls_kit import Authority, Pair

# A port that the system chooses: https_port takes any number, 0 among them.
ANY = ServingOptions(secure_port=0, authentication_skip_lookup=True)


class Api:
    """Knows every token that begins with `good`, and allows /metrics to its users."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.problem: Exception | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> bytes:
        self.asked.append(path.rpartition("/")[2])
        await self.may_answer.wait()
        if self.problem is not None:
            raise self.problem
        spec = msgspec.json.decode(body)["spec"]
        if "token" in spec:
            is_known = spec["token"].startswith("good")
            user = {"username": spec["token"][:20], "groups": ["g" * 100]}
            status: object = {"authenticated": is_known, "user": user if is_known else {}}
        else:
            is_allowed = spec["nonResourceAttributes"]["path"] == "/metrics"
            status = {"allowed": is_allowed and spec["user"].startswith("good")}
        return msgspec.json.encode({"status": status})

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def served(options: ServingOptions = ANY, api: Api | None = None) -> AsyncIterator[int]:
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"), transport=api or Api())  # type: ignore[arg-type]
    metrics = SchedulerMetrics()
    site = HealthServer(metrics).site
    async with https_port(site, options, client, metrics) as port:
        yield port


def trusting(pem: bytes | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=pem.decode() if pem else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if pem is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def get(
    port: int,
    path: str = "/healthz",
    token: str = "",
    *,
    tls: ssl.SSLContext | None = None,
    name: str = "127.0.0.1",
) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=tls or trusting(), server_hostname=name
    )
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"{head}\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


def store(folder: Path, pair: Pair, name: str = "tls") -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    return certificate, key


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
            await until(lambda n=number: caplog.text.count("Changed files cannot be used") == n)  # type: ignore[misc]
            # The old pair stays in use.
            assert await get(port, tls=trusting(old.cert)) == (200, "ok")
        store(tmp_path, new.server())
        await until(lambda: "Changed files are in use" in caplog.text)
        assert await get(port, tls=trusting(new.cert)) == (200, "ok")


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - nothing tells when
            await asyncio.sleep(0.01)


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


async def sent(port: int, data: bytes) -> bytes:
    """All that a client gets that sends these bytes without TLS."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


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


# Delegation


async def test_answers_are_kept() -> None:
    api = Api()
    async with served(api=api) as port:
        for _ in range(2):
            assert (await get(port, "/metrics", "good-1"))[0] == 200
            assert (await get(port, "/configz", "good-1"))[0] == 403
            assert (await get(port, "/metrics", "bad"))[0] == 401
            assert (await get(port, "/metrics"))[0] == 403
    assert sorted(api.asked) == ["subjectaccessreviews"] * 3 + ["tokenreviews"] * 2


async def test_no_answer_is_kept_with_a_ttl_of_zero() -> None:
    api = Api()
    options = replace(
        ANY,
        authentication_token_cache_ttl_s=0.0,
        authorization_authorized_cache_ttl_s=0.0,
    )
    async with served(options, api) as port:
        for _ in range(2):
            assert (await get(port, "/metrics", "good"))[0] == 200
    assert len(api.asked) == 4


async def test_one_question_for_many_clients() -> None:
    api = Api()
    api.may_answer.clear()
    async with served(api=api) as port:
        asking = [asyncio.create_task(get(port, "/metrics", "good")) for _ in range(10)]
        await until(lambda: bool(api.asked))
        api.may_answer.set()
        assert {status for status, _ in await asyncio.gather(*asking)} == {200}
    assert api.asked == ["tokenreviews", "subjectaccessreviews"]


async def test_probes_are_answered_while_the_api_server_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many clients with tokens wait: more than the limit are refused at once."""
    monkeypatch.setattr(review_cache, "MAX_ASKING", 3)
    monkeypatch.setattr(https_site, "MAX_WAITING", 5)
    api = Api()
    api.may_answer.clear()
    async with served(api=api) as port:
        asking = [asyncio.create_task(get(port, "/metrics", f"good-{n}")) for n in range(8)]
        await until(lambda: sum(each.done() for each in asking) >= 5)
        assert await get(port, "/healthz") == (200, "ok")
        assert len(api.asked) == 3
        api.may_answer.set()
        found = sorted(status for status, _ in await asyncio.gather(*asking))
    assert found == [200] * 3 + [429] * 5


async def test_an_api_server_that_fails_allows_nothing() -> None:
    api = Api()
    api.problem = ApiUnavailable("POST reviews: connection refused")
    async with served(api=api) as port:
        assert (await get(port, "/metrics", "good"))[0] == 401
        assert await get(port, "/metrics") == (
            500,
            'Internal Server Error: "/metrics": POST reviews: connection refused\n',
        )
        api.problem = None  # errors are not kept
        assert (await get(port, "/metrics", "good"))[0] == 200


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_cache, "MAX_ENTRIES", 10)
    monkeypatch.setattr(review_cache, "MAX_BYTES", 1000)
    cache: review_cache.ReviewCache[int] = review_cache.ReviewCache()

    async def ask(size: int) -> review_cache.Answer[int]:
        return review_cache.Answer(size, 60.0, size)

    for _ in range(100):
        assert await cache.get(os.urandom(32), lambda: ask(1)) == 1
    assert (len(cache), cache.bytes) == (10, 10)
    for _ in range(100):
        await cache.get(os.urandom(32), lambda: ask(300))
    assert (len(cache), cache.bytes) == (3, 900)
    await cache.get(b"huge", lambda: ask(1001))
    assert cache.bytes == 900


async def test_a_failed_lookup_ends_the_start_if_it_must_not_fail() -> None:
    api = Api()
    api.problem = ApiUnavailable("GET configmap: connection refused")
    options = replace(
        ANY, authentication_skip_lookup=False, authentication_tolerate_lookup_failure=False
    )
    with pytest.raises(ApiUnavailable, match="connection refused"):
        async with served(options, api):
            pass


async def test_a_review_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """401 for a token, 500 for rights; both leave nothing behind."""
    monkeypatch.setattr(review_cache, "TIMEOUT_S", 0.05)
    api = Api()
    api.may_answer.clear()
    async with served(api=api) as port:
        assert (await get(port, "/metrics", "good"))[0] == 401
        status, text = await get(port, "/metrics")
        assert (status, text.partition(": POST")[0]) == (500, 'Internal Server Error: "/metrics"')
        assert "no answer within 0.05 s" in text
        api.may_answer.set()
        assert (await get(port, "/metrics", "good"))[0] == 200


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
    with tls_listener.listen(address, 0, reuse_port=False) as listening:
        port = listening.getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), timeout=5).close()


async def test_every_path_needs_rights() -> None:
    """All that the routing table has, for every method, but the three paths of probes."""
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"), transport=Api())  # type: ignore[arg-type]
    metrics = SchedulerMetrics()
    site = HealthServer(metrics, configz=dict).site
    add_zpages(site, {"v": "0"}, profiling=True)
    async with https_port(site, ANY, client, metrics) as port:
        paths = {*site.routes, *site.restricted}
        assert len(paths) >= 14
        opened = {path for path in paths if (await get(port, path))[0] != 403}
    assert opened == {"/healthz", "/livez", "/readyz"}


# What the cluster publishes


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


# Client certificates


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


USERS = Authority("users")


async def is_cut_off(port: int, tls: ssl.SSLContext) -> bool:
    try:
        await get(port, "/healthz", tls=tls)
    except (OSError, IndexError):  # in the handshake, or with TLS 1.3 after it, without an answer
        return True
    return False


def showing(folder: Path, pair: Pair) -> ssl.SSLContext:
    """TLS of a client that shows a certificate."""
    file = folder / "client.pem"
    file.write_bytes(pair.cert + pair.key)
    context = trusting()
    context.load_cert_chain(file)
    return context
