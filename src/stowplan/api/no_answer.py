"""Explain why the API server did not answer.

Called by `transport`. Invariant: `maybe_done` is False only if the request was certainly not sent;
everything else may have taken effect.
"""

from __future__ import annotations

import os
import re
import ssl

from stowplan.errors import ApiUnavailable
from stowplan.http.client import Disconnected, NotConnected, TooLong
from stowplan.http.parser import ProtocolError
from stowplan.redaction import redact_text, redact_url

#: Errors of sending and receiving.
#: RuntimeError: the client is closed; ValueError: a header that cannot be sent.
NO_ANSWER = (
    NotConnected,
    Disconnected,
    ProtocolError,
    OSError,
    TimeoutError,
    RuntimeError,
    ValueError,
)
_NOT_SENT = (
    NotConnected,
    RuntimeError,
    ValueError,
)


def unavailable(server: str, request: str, error: BaseException) -> ApiUnavailable:
    """Return the error to raise; `maybe_done` unless the request was certainly not sent."""
    not_sent = isinstance(error, _NOT_SENT)
    return ApiUnavailable(
        f"API server {redact_url(server)}: {request}: {_problem(error, not_sent=not_sent)}",
        maybe_done=not not_sent,
    )


def _problem(error: BaseException, *, not_sent: bool) -> str:
    is_connecting = isinstance(error, NotConnected)
    if is_connecting and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ssl.CertificateError):
        return f"its certificate is not accepted: {error}"
    if isinstance(error, ssl.SSLError):
        # Its number is OpenSSL's, and means something else to the system.
        return f"TLS failed: {error.strerror or error}"
    if isinstance(error, TimeoutError):
        return "cannot connect in time" if not_sent else "no answer in time"
    if is_connecting and isinstance(error, OSError):
        # asyncio words a refusal as "Connect call failed (address)"; the number knows better.
        code = error.errno or _only_code(str(error))
        return f"cannot connect: {os.strerror(code) if code > 0 else error.strerror or error}"
    if isinstance(error, TooLong):
        return str(error)
    if isinstance(error, ProtocolError):
        return "the response is incomplete or malformed"
    return redact_text(" ".join(str(error).split())) or type(error).__name__


def _only_code(text: str) -> int:
    """Where a name has several addresses, what all attempts failed with; 0 if not the same."""
    codes = set(re.findall(r"\[Errno (\d+)\]", text))
    return int(codes.pop()) if len(codes) == 1 else 0
