"""TLS contexts as Go builds them, from PEM bytes that never stay on disk.

Called by `transport`, once at start and again when a credential plugin returns a new certificate.
Python can load a certificate chain from a path only, so the bytes go through an anonymous file in
memory, which vanishes when its descriptor is closed.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.errors import KubeconfigError


def build_context(
    config: ClusterConfig, *, client_cert: bytes | None = None, client_key: bytes | None = None
) -> ssl.SSLContext:
    """Verifies the server by the cluster's CA (the system's where it names none)."""
    context = _trusting(config)
    # Go checks neither what OpenSSL calls strict (many cluster CAs lack key identifiers; the flag
    # is on from Python 3.13) nor that a trusted certificate is self-signed.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_cert and client_key:
        _load_client_certificate(context, config, client_cert, client_key)
    return context


def _trusting(config: ClusterConfig) -> ssl.SSLContext:
    if not config.ca_data:
        return ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    pem = config.ca_data.decode("ascii", errors="ignore")
    problem: object = "no certificate in it"
    if "-----BEGIN" in pem:  # without one OpenSSL would silently trust the system's CAs
        try:
            return ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cadata=pem)
        except ssl.SSLError as error:
            problem = error.reason or error
    raise KubeconfigError(
        f"the certificate authority is not usable PEM: {problem}", where=config.source
    )


def _load_client_certificate(
    context: ssl.SSLContext, config: ClusterConfig, cert: bytes, key: bytes
) -> None:
    with ExitStack() as files:
        cert_path = files.enter_context(_readable_path(cert))
        key_path = files.enter_context(_readable_path(key))
        try:
            # An empty password keeps OpenSSL from asking on the terminal for an encrypted key's.
            context.load_cert_chain(cert_path, key_path, password="")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise KubeconfigError(
                f"the client certificate and key are not usable: {reason}", where=config.source
            ) from error


@contextmanager
def _readable_path(content: bytes) -> Iterator[str]:
    """A path that reads as `content` and is gone afterwards."""
    try:
        descriptor = os.memfd_create("stowplan-tls", os.MFD_CLOEXEC)
    except (AttributeError, OSError):  # not Linux, or forbidden by the sandbox
        with tempfile.NamedTemporaryFile(prefix="stowplan-tls-") as file:  # mode 0600
            file.write(content)
            file.flush()
            yield file.name
        return
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield str(Path("/proc/self/fd", str(descriptor)))
    finally:
        os.close(descriptor)
