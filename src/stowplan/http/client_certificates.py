"""Client certificates of strangers pass the handshake, so that the client gets an answer.

Go asks for a certificate in the handshake and verifies it with the request, so that a stranger gets
401. Python's ssl verifies in the handshake, whose end tells a client little. The callback for
messages of the protocol sees a certificate before it is verified; from there the connection gets a
context of its own, which trusts that certificate besides the CAs. Invariant: a verified chain holds
the CA that signed the certificate, or no CA at all. Callers must look for the CA, and at the times.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any, Final

#: Constants of TLS, and of OpenSSL for what Python has no name.
_HANDSHAKE: Final = 22
_CERTIFICATE: Final = 11
_NO_CHECK_TIME: Final = 0x200000
_HEADER: Final = 4


def accept_strangers(context: ssl.SSLContext, cas: Sequence[str]) -> None:
    """Let every certificate pass that its owner holds the key of; `cas` are PEM texts."""
    context.verify_flags |= _NO_CHECK_TIME

    def on_message(
        connection: ssl.SSLObject,
        direction: str,
        version: int,
        content_type: int,
        message: int,
        data: bytes,
    ) -> None:
        if direction == "read" and (content_type, message) == (_HANDSHAKE, _CERTIFICATE):
            shown = first_certificate(data, is_tls13=version == ssl.TLSVersion.TLSv1_3)
            if shown:
                connection.context = _trusting(cas, shown)

    context._msg_callback = on_message  # type: ignore[attr-defined]  # private; the ssl module has no other hook


def first_certificate(message: bytes, *, is_tls13: bool) -> bytes:
    """The client's own certificate in a message of the handshake; empty if there is none."""
    at = _HEADER
    if is_tls13:  # a context of the request comes first
        at += 1 + message[at] if len(message) > at else 0
    at += 3  # the length of the list
    length = int.from_bytes(message[at : at + 3], "big")
    return message[at + 3 : at + 3 + length]


def _trusting(cas: Sequence[str], certificate: bytes) -> ssl.SSLContext:
    # The flags of the connection's first context stay in force. The server's own certificate has
    # been sent, so that this context needs none.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL  # else `getpeercert` would show nothing
    trusted: list[Any] = [*cas, certificate]
    for each in trusted:
        try:
            context.load_verify_locations(cadata=each)
        except ssl.SSLError:
            """Not a certificate: the handshake fails by itself."""
    return context
