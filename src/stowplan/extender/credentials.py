"""Authentication of the extender and of its clients: TLS certificates and bearer tokens.

Made by `serving` from the command's flags. kube-scheduler can show a client certificate to an
extender but no token, while Prometheus or a person with curl may have only a token: where both are
configured, either is enough. Every file is read again when it changes (`http.watched_files`).
"""

from __future__ import annotations

import hmac
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.http.messages import PeerCertificate
from stowplan.http.parser import RequestHead
from stowplan.http.server_tls import (
    CLIENT_CA_FLAG,
    Contexts,
    ServerTls,
    TlsFiles,
    ask_for_certificates,
    server_context,
    trust,
)
from stowplan.http.watched_files import WatchedFiles, read_text

TOKEN_FLAG: Final = "--token-file"  # noqa: S105 - the flag, not a token


def extender_tls(files: TlsFiles) -> ServerTls:
    """TLS from files that are read again when they change; ConfigError if they are unusable."""

    def make() -> Contexts:
        context = server_context(files.certificate, files.key)
        if files.client_ca is not None:
            ask_for_certificates(context)
            pem = read_text(files.client_ca, CLIENT_CA_FLAG)
            trust(context, pem, source=str(files.client_ca), where=CLIENT_CA_FLAG)
        return Contexts(context)

    paths = (files.certificate, files.key, files.client_ca)
    return ServerTls(make, [file for file in paths if file is not None])


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

    def __call__(self, head: RequestHead, certificate: PeerCertificate | None) -> bool:
        if self._certificates and certificate is not None:
            return True
        return self._tokens is not None and self._tokens.has(head.headers.get("authorization", ""))
