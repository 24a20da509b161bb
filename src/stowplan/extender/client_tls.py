"""`!SSL`: verify Prometheus's certificate, and present the extender's own.

The files are read once, with the configuration; an unusable file is a configuration error.
"""

from __future__ import annotations

import ssl

from stowplan.errors import ConfigError


class SSL:
    """`server_verify`: true for the system's CAs, false for none, or a file of CAs."""

    def __init__(
        self,
        server_verify: bool | str = True,
        client_cert_path: str | None = None,
        client_key_path: str | None = None,
    ) -> None:
        """Without `client_key_path` the key is in the certificate's file."""
        if client_key_path and not client_cert_path:
            raise ConfigError("Provided client key without certificate!", where="client_key_path")
        self.server_verify = server_verify
        self.client_cert_path = client_cert_path
        self.client_key_path = client_key_path
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        return self._context

    def _load(self) -> ssl.SSLContext:
        file = self.server_verify if isinstance(self.server_verify, str) else None
        try:
            context = ssl.create_default_context(cafile=file)
        except (OSError, ValueError) as error:
            raise _unusable(f"{file} cannot be used", error, "server_verify") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Many a cluster's CA lacks what OpenSSL calls strict; the flag is on from Python 3.13.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.server_verify is False:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_cert_path:
            try:
                # An empty password keeps OpenSSL from asking on the terminal.
                context.load_cert_chain(self.client_cert_path, self.client_key_path, password="")
            except (OSError, ValueError) as error:
                what = f"{self.client_cert_path} is not a certificate with its key"
                raise _unusable(what, error, "client_cert_path") from None
        return context


def _unusable(what: str, error: Exception, where: str) -> ConfigError:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
    return ConfigError(f"{what}: {reason}", where=where)
