"""TLS of servers: certificates by name, client CAs, and a listener that follows changed files.

The extender and the scheduler's endpoints build their contexts here; `watched_files` says when a
file has changed. Invariant: a handshake uses one whole set of files, the newest that was usable.
"""

from __future__ import annotations

import _ssl as ssl_module
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from stowplan.errors import ConfigError
from stowplan.http.messages import PeerCertificate
from stowplan.http.watched_files import WatchedFiles, read_text

CERT_FLAG: Final = "--tls-cert-file"
KEY_FLAG: Final = "--tls-private-key-file"
CLIENT_CA_FLAG: Final = "--client-ca-file"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Contexts:
    """One set of certificates: a context for every server name that has its own."""

    default: ssl.SSLContext
    by_name: Mapping[str, ssl.SSLContext] = field(default_factory=dict)

    def named(self, name: str | None) -> ssl.SSLContext:
        """The context of the name, else of its wildcard, else the default."""
        if not name or not self.by_name:
            return self.default
        lowered = name.lower().rstrip(".")
        wildcard = "*." + lowered.partition(".")[2]
        return self.by_name.get(lowered) or self.by_name.get(wildcard) or self.default


class ServerTls:
    """TLS of a listener, whose handshakes use the newest files."""

    def __init__(self, make: Callable[[], Contexts], files: Sequence[Path]) -> None:
        """`make` raises ConfigError if a file is unusable."""
        self._make = make
        self._newest: Contexts
        self.files = WatchedFiles(files, self._load, "TLS certificates")
        self.files.load()

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections; one that is given to a listener for good works, too.

        Sessions of TLS 1.2 are resumed within one context, so that new CAs end those of old ones.
        """
        return self._newest.default

    def reload(self) -> None:
        """Make the contexts again; ConfigError if that fails, and the old ones stay in use."""
        self._load()

    def _use_newest(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest.named(name)

    def _load(self) -> None:
        newest = self._make()
        # Called in every handshake, with or without a name. The certificate and the CAs follow the
        # context that is set there; whether a client certificate is asked for does not change.
        newest.default.sni_callback = self._use_newest
        self._newest = newest


def server_context(
    certificate: Path, key: Path, *, where: str = f"{CERT_FLAG}, {KEY_FLAG}"
) -> ssl.SSLContext:
    """A context with this certificate; ConfigError if the files are no such pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session would skip the check against CAs that have changed since.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    cert_flag, _, key_flag = where.partition(", ")
    for file, flag in ((certificate, cert_flag), (key, key_flag or cert_flag)):
        read_text(file, flag)
    try:
        # An empty password keeps OpenSSL from asking on the terminal for an encrypted key's.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            f"{certificate} and {key} are not a certificate with its key: {reason}", where=where
        ) from None
    return context


def ask_for_certificates(context: ssl.SSLContext) -> None:
    """Ask clients for a certificate; those without one are served too."""
    # Not CERT_REQUIRED: probes, and clients with a token, have none.
    context.verify_mode = ssl.CERT_OPTIONAL
    # As in Go, every certificate in the file is trusted, self-signed or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def trust(context: ssl.SSLContext, pem: str, *, source: str, where: str) -> None:
    """Trust the certificates in a PEM text; ConfigError if there are none."""
    problem: object = "there is no certificate in it"
    if "-----BEGIN" in pem:  # OpenSSL takes an empty text for a good one
        try:
            context.load_verify_locations(cadata=pem)
            return
        except (ssl.SSLError, ValueError) as error:
            problem = getattr(error, "reason", None) or error
    raise ConfigError(f"{source} cannot be used: {problem}", where=where)


def peer_certificate(connection: ssl.SSLObject) -> PeerCertificate | None:
    """The verified certificate of the client at the other end."""
    decoded = cast(dict[str, Any], connection.getpeercert())  # empty unless verified
    raw = connection.getpeercert(binary_form=True)
    if not decoded or raw is None:
        return None
    fingerprint = sha256(raw).digest()
    # The public method, since Python 3.13, returns bytes without the times.
    chain = cast(Any, connection)._sslobj.get_verified_chain()
    if not chain:
        # A client of TLS 1.2 resumed a session, whose certificate was verified when it began.
        return _verified.get(fingerprint)
    found = _verified[fingerprint] = _certificate(decoded, fingerprint, chain)
    if len(_verified) > _MAX_VERIFIED:
        del _verified[next(iter(_verified))]
    return found


#: The latest certificates with chains, for sessions that are resumed: OpenSSL keeps no chains.
_verified: Final[dict[bytes, PeerCertificate]] = {}
_MAX_VERIFIED: Final = 1024


def _certificate(
    decoded: Mapping[str, Any], fingerprint: bytes, chain: Sequence[Any]
) -> PeerCertificate:
    subject: dict[str, list[str]] = {}
    for pairs in decoded.get("subject", ()):
        for name, value in pairs:
            subject.setdefault(name, []).append(value)
    encoded = [each.public_bytes(ssl_module.ENCODING_DER) for each in chain]
    facts = [each.get_info() for each in chain]
    return PeerCertificate(
        common_name=subject.get("commonName", [""])[-1],
        organizations=tuple(subject.get("organizationName", ())),
        sha256=fingerprint,
        chain=frozenset(sha256(each).digest() for each in encoded),
        expires=ssl.cert_time_to_seconds(decoded["notAfter"]),
        valid_from=max(ssl.cert_time_to_seconds(each["notBefore"]) for each in facts),
        valid_until=min(ssl.cert_time_to_seconds(each["notAfter"]) for each in facts),
    )
