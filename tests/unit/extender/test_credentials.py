"""Certificates that change, clients that must show who they are."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.extender.credentials import Access, Tokens, extender_tls
from stowplan.http.server_tls import TlsFiles
from tests.unit.api.tls_kit import Authority, Pair
from tests.unit.extender.kit import ARGS_TEXT, stage


def store(tmp_path: Path, pair: Pair) -> None:
    (tmp_path / "tls.crt").write_bytes(pair.cert)
    (tmp_path / "tls.key").write_bytes(pair.key)


def files(tmp_path: Path, clients: Authority | None = None) -> TlsFiles:
    if clients is None:
        return TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    (tmp_path / "ca.crt").write_bytes(clients.cert)
    return TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")


def trusting(
    tmp_path: Path,
    server: Authority,
    certificate: Pair | None = None,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=server.cert.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.maximum_version = version
    if certificate is not None:
        file = tmp_path / "client.pem"
        file.write_bytes(certificate.cert + certificate.key)
        context.load_cert_chain(file)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_that_changes(tmp_path: Path, version: ssl.TLSVersion) -> None:
    old, new = Authority("old"), Authority("new")
    store(tmp_path, old.server())
    tls = extender_tls(files(tmp_path))
    async with stage(tls=tls.context) as served:
        before = await served.connect(trusting(tmp_path, old, version=version))
        assert (await before.ask("/filter", ARGS_TEXT)).status == 200
        store(tmp_path, new.server())
        tls.files.load_if_changed()
        after = await served.connect(trusting(tmp_path, new, version=version))
        assert (await after.ask("/filter", ARGS_TEXT)).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await served.connect(trusting(tmp_path, old, version=version))
        assert (await before.ask("/status")).body == b"true"  # goes on as it was


async def test_a_link_that_is_moved_is_a_change(tmp_path: Path) -> None:
    """That is how the kubelet replaces the files of a Secret."""
    old, new = Authority("old"), Authority("new")
    for name, authority in (("1", old), ("2", new)):
        (tmp_path / name).mkdir()
        store(tmp_path / name, authority.server())
        os.utime(tmp_path / name / "tls.crt", (0, 0))
    link = tmp_path / "data"
    link.symlink_to("1")
    tls = extender_tls(files(link))
    (tmp_path / "next").symlink_to("2")
    (tmp_path / "next").replace(link)
    tls.files.load_if_changed()
    async with stage(tls=tls.context) as served:
        client = await served.connect(trusting(tmp_path, new))
        assert (await client.ask("/status")).body == b"true"


async def test_a_certificate_that_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    store(tmp_path, authority.server())
    tls = extender_tls(files(tmp_path))
    caplog.set_level(logging.INFO, "stowplan")
    async with stage(tls=tls.context) as served:
        (tmp_path / "tls.key").write_bytes(authority.server().key)  # of another certificate
        for _ in range(3):
            tls.files.load_if_changed()
        (tmp_path / "tls.key").unlink()
        tls.files.load_if_changed()
        client = await served.connect(trusting(tmp_path, authority))
        assert (await client.ask("/status")).body == b"true"
        store(tmp_path, authority.server())
        tls.files.load_if_changed()
    assert [record.getMessage() for record in caplog.records] == [
        "Changed files cannot be used",
        "Changed files cannot be used",
        "Changed files are in use",
    ]


async def test_clients_show_a_certificate(tmp_path: Path) -> None:
    server, clients, others = Authority(), Authority("clients"), Authority("others")
    store(tmp_path, server.server())
    tls = extender_tls(files(tmp_path, clients))
    gate = Access(certificates=True, tokens=None)
    async with stage(tls=tls.context, gate=gate) as served:
        good = await served.connect(trusting(tmp_path, server, clients.client("kube-scheduler")))
        assert (await good.ask("/filter", ARGS_TEXT)).status == 200
        assert (await good.ask("/metrics")).status == 200

        without = await served.connect(trusting(tmp_path, server))
        for path in ("/healthz", "/readyz", "/status", "/api/scheduler/test"):
            assert (await without.ask(path)).status == 200
        for path in ("/metrics", "/nowhere"):
            reply = await without.ask(path)
            assert (reply.status, reply.problem) == (
                401,
                "a client certificate or a bearer token is needed",
            )
        assert (await without.ask("/filter", ARGS_TEXT)).status == 401
        assert served.service.metrics.requests["filter"] == 1

        stranger = trusting(tmp_path, server, others.client("kube-scheduler"))
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await served.ask("/status", tls=stranger)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_clients_ca_changes(tmp_path: Path, version: ssl.TLSVersion) -> None:
    server, old, new = Authority(), Authority("old"), Authority("new")
    store(tmp_path, server.server())
    tls = extender_tls(files(tmp_path, old))
    gate = Access(certificates=True, tokens=None)
    async with stage(tls=tls.context, gate=gate) as served:
        context = trusting(tmp_path, server, old.client("a"), version)
        client = await served.connect(context)
        assert (await client.ask("/filter", ARGS_TEXT)).status == 200
        (tmp_path / "ca.crt").write_bytes(new.cert)
        tls.files.load_if_changed()
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
            await served.ask("/filter", ARGS_TEXT, tls=context)
        client = await served.connect(trusting(tmp_path, server, new.client("a"), version))
        assert (await client.ask("/filter", ARGS_TEXT)).status == 200


async def test_bearer_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("first\nsecond\n\n")
    tokens = Tokens(file)
    async with stage(gate=Access(certificates=False, tokens=tokens)) as served:

        async def status(authorization: str) -> int:
            reply = await served.ask("/filter", ARGS_TEXT, Authorization=authorization)
            return reply.status

        assert await status("Bearer first") == 200
        assert await status("bearer  second ") == 200
        for wrong in ("Bearer third", "Bearer", "Bearer ", "first", "Basic first", "Bearer firs"):
            assert await status(wrong) == 401
        assert await status("Bearer f\xfcrst") == 401
        reply = await served.ask("/filter", ARGS_TEXT)
        assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="stowplan"')
        file.write_text("third")
        tokens.files.load_if_changed()
        assert await status("Bearer third") == 200
        assert await status("Bearer first") == 401
        file.write_text("")
        tokens.files.load_if_changed()
        assert await status("Bearer third") == 200  # the last that could be used
        assert await status("Bearer ") == 401


async def test_a_token_is_enough_where_certificates_are_asked_for_too(tmp_path: Path) -> None:
    server, clients = Authority(), Authority("clients")
    store(tmp_path, server.server())
    (tmp_path / "tokens").write_text("word")
    tls = extender_tls(files(tmp_path, clients))
    gate = Access(certificates=True, tokens=Tokens(tmp_path / "tokens"))
    async with stage(tls=tls.context, gate=gate) as served:
        client = await served.connect(trusting(tmp_path, server))
        reply = await client.ask("/metrics", Authorization="Bearer word")
        assert reply.status == 200
        client = await served.connect(trusting(tmp_path, server, clients.client("a")))
        assert (await client.ask("/metrics")).status == 200


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.server()

    def problem(chosen: TlsFiles) -> str:
        with pytest.raises(ConfigError) as refused:
            extender_tls(chosen)
        return str(refused.value)

    assert problem(files(tmp_path)) == (
        f"--tls-cert-file: cannot read {tmp_path}/tls.crt: No such file or directory"
    )
    store(tmp_path, pair)
    (tmp_path / "tls.crt").write_bytes(b"\xff\xfe")
    assert problem(files(tmp_path)) == f"--tls-cert-file: {tmp_path}/tls.crt is not a text file"
    (tmp_path / "tls.crt").write_text("junk")
    assert problem(files(tmp_path)).startswith(
        f"--tls-cert-file, --tls-private-key-file: {tmp_path}/tls.crt and {tmp_path}/tls.key are "
        "not a certificate with its key: "
    )
    store(tmp_path, pair)
    with_ca = files(tmp_path, authority)
    for junk in ("", "junk", "-----BEGIN CERTIFICATE-----\njunk"):
        (tmp_path / "ca.crt").write_text(junk)
        assert problem(with_ca).startswith(f"--client-ca-file: {tmp_path}/ca.crt cannot be used: ")
    (tmp_path / "tokens").write_text(" \n")
    with pytest.raises(ConfigError, match=r"^--token-file: .*/tokens is empty$"):
        Tokens(tmp_path / "tokens")
