"""A certificate authority made for one test."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    cert: bytes
    key: bytes


class Authority:
    """Signs server and client certificates. Without key identifiers, as many cluster CAs."""

    def __init__(self, name: str = "test-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._cert = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def cert(self) -> bytes:
        return self._cert.public_bytes(serialization.Encoding.PEM)

    @property
    def pair(self) -> Pair:
        return _pair(self._cert, self._key)

    def server(self, *names: str, hours: tuple[int, int] = (-1, 1)) -> Pair:
        """For 127.0.0.1, or for the names given instead."""
        alternatives: list[x509.GeneralName] = (
            [x509.DNSName(name) for name in names]
            if names
            else [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        key = ec.generate_private_key(ec.SECP256R1())
        cert = (
            _builder(_name("server"), self._name, key.public_key(), hours=hours)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _pair(cert, key)

    def client(
        self, common_name: str, *organizations: str, hours: tuple[int, int] = (-1, 1)
    ) -> Pair:
        """`hours` from now say when it is valid."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(common_name, *organizations)
        cert = _builder(subject, self._name, key.public_key(), hours=hours).sign(
            self._key, hashes.SHA256()
        )
        return _pair(cert, key)

    def server_context(
        self, tmp_path: Path, *names: str, clients: Authority | None = None
    ) -> ssl.SSLContext:
        """A server's TLS; with `clients` it demands a certificate that they signed."""
        pair = self.server(*names)
        path = tmp_path / "server.pem"
        path.write_bytes(pair.cert + pair.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(path)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=clients.cert.decode())
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def _name(common_name: str, *organizations: str) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    *,
    hours: tuple[int, int] = (-1, 1),
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(hours=hours[0]))
        .not_valid_after(now + datetime.timedelta(hours=hours[1]))
    )


def _pair(cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        cert.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
