"""Authentication of the extender and of its clients: TLS certificates and bearer tokens.

Made by `serving` from the command's flags. kube-scheduler can show a client certificate to an
extender but no token, while Prometheus or a person with curl may have only a token: where both are
configured, either is enough. Every file is read again when it changes (`watched_files`).
"""

from __future__ import annotations

import hmac
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.extender.watched_files import WatchedFiles, read_text
from stowplan.http.parser import RequestHead

CERT_FLAG: Final = "--tls-cert-file"
KEY_FLAG: Final = "--tls-private-key-file"
CLIENT_CA_FLAG: Final = "--client-ca-file"
TOKEN_FLAG: Final = "--token-file"  # noqa: S105 - the flag, not a token


@dataclass(frozen=True, slots=True)
class TlsFiles:
    certificate: Path
    key: Path
    client_ca: Path | None = None


class Tls:
    """The context that a listener is given for good, whose handshakes use the newest files."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._newest: ssl.SSLContext
        self.files = WatchedFiles(
            [file for file in (files.certificate, files.key, files.client_ca) if file is not None],
            self._load,
            "TLS certificates",
        )
        self.files.load()
        self.context = self._newest
        # Called in every handshake, with or without a name. The certificate and the CAs follow the
        # context that is set there; whether a client certificate is asked for does not change.
        self.context.sni_callback = self._use_newest

    def _use_newest(
        self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._newest

    def _load(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session would skip the check against CAs that have changed since.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        _load_certificate(context, self._files)
        if self._files.client_ca is not None:
            # Not CERT_REQUIRED: probes, and clients with a token, have none.
            context.verify_mode = ssl.CERT_OPTIONAL
            # As in Go, every certificate in the file is trusted, self-signed or not.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            _load_client_ca(context, self._files.client_ca)
        self._newest = context


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    for file, flag in ((files.certificate, CERT_FLAG), (files.key, KEY_FLAG)):
        read_text(file, flag)
    try:
        # An empty password keeps OpenSSL from asking on the terminal for an encrypted key's.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            f"{files.certificate} and {files.key} are no certificate with its key: {reason}",
            where=f"{CERT_FLAG}, {KEY_FLAG}",
        ) from None


def _load_client_ca(context: ssl.SSLContext, file: Path) -> None:
    pem = read_text(file, CLIENT_CA_FLAG)
    problem: object = "there is no certificate in it"
    if "-----BEGIN" in pem:  # OpenSSL takes an empty text for a good one
        try:
            context.load_verify_locations(cadata=pem)
            return
        except (ssl.SSLError, ValueError) as error:
            problem = getattr(error, "reason", None) or error
    raise ConfigError(f"{file} cannot be used: {problem}", where=CLIENT_CA_FLAG)


class Tokens:
    """The lines of a file, each a token; several make it possible to change one without a gap."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tokens: tuple[bytes, ...] = ()
        self.files = WatchedFiles([file], self._load, "bearer tokens")
        self.files.load()

    def has(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        shown = token.strip().encode("latin-1", "replace")
        # All are compared, each in constant time.
        return sum(hmac.compare_digest(shown, known) for known in self._tokens) > 0

    def _load(self) -> None:
        lines = read_text(self._file, TOKEN_FLAG).split()
        if not lines:
            raise ConfigError(f"{self._file} is empty", where=TOKEN_FLAG)
        self._tokens = tuple(line.encode() for line in lines)


class Access:
    """Whether a request may be asked."""

    def __init__(self, *, certificates: bool, tokens: Tokens | None) -> None:
        self._certificates = certificates
        self._tokens = tokens

    def __call__(self, head: RequestHead, has_certificate: bool) -> bool:
        if self._certificates and has_certificate:
            return True
        return self._tokens is not None and self._tokens.has(head.headers.get("authorization", ""))
