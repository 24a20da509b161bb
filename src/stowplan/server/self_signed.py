"""A self-signed certificate for a server without certificate files, as kube-scheduler makes one.

`secure_tls` asks for it at start. `cryptography` is loaded only then: Python's `ssl` cannot make
keys, and reads certificates only from files, so a pair in memory is passed as an anonymous file.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError

_VALID: Final = timedelta(days=365)
#: Clocks of clients may be slow.
_BEFORE: Final = timedelta(hours=1)
#: kube-scheduler's names of the files in --cert-dir.
_NAME: Final = "kube-scheduler"


def make_pair(address: str) -> bytes:
    """A key and its certificate as PEM, for loopback, this host and `address`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    host = socket.gethostname()
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = f"{host[:48]}@{int(now.timestamp())}"  # a common name has 64 characters at most
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    if host.isascii():
        names.append(x509.DNSName(host))
    for text in dict.fromkeys(("127.0.0.1", "::1", address)):
        try:
            names.append(x509.IPAddress(ip_address(text)))
        except ValueError:
            """A host name, or an interface: not an address."""
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    encoded = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return encoded + certificate.public_bytes(pem)


@contextmanager
def as_file(content: bytes) -> Iterator[Path]:
    """A file with this content that only this process can read, and that needs no writable disk."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("certificate")
        try:
            os.write(number, content)
            yield Path(f"/proc/self/fd/{number}")
        finally:
            os.close(number)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield Path(file.name)


def stored_pair(folder: Path, address: str) -> tuple[Path, Path]:
    """The certificate and key of `--cert-dir`, which are made if one is missing."""
    certificate, key = folder / f"{_NAME}.crt", folder / f"{_NAME}.key"
    if not (certificate.exists() and key.exists()):
        pem = make_pair(address)
        at = pem.index(b"-----BEGIN CERTIFICATE")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            certificate.write_bytes(pem[at:])
            with open(key, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as out:
                out.write(pem[:at])
        except OSError as error:
            problem = f"cannot write a certificate to {folder}: {error.strerror}"
            raise ConfigError(
                f"{problem}. Fix: name a writable folder", where="--cert-dir"
            ) from None
    return certificate, key


def has_expired(certificate: Path) -> bool:
    """Whether a certificate that could be loaded is past its time."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):  # replaced since; the new one is looked at next
        return False
    return found.not_valid_after_utc < datetime.now(UTC)


def names_of(certificate: Path) -> tuple[str, ...]:
    """The DNS names that a certificate is for, for `--tls-sni-cert-key` without names."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{certificate} cannot be read: {error}", where="--tls-sni-cert-key"
        ) from None
    return tuple(extension.value.get_values_for_type(x509.DNSName))
