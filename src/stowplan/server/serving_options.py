"""Options of the endpoints: HTTPS, authentication, authorisation, plain HTTP.

The command line fills them from the flags of the same names, `serving` starts the servers from
them. Defaults are kube-scheduler's. Files are read when the servers start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
SECURE_PORT: Final = 10259


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """One `--tls-sni-cert-key=CERT,KEY[:NAME,...]`; without names, the certificate's own apply."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """`--requestheader-*`: the headers in which an authenticating proxy names the user.

    Read from the cluster's ConfigMap unless `client_ca_file` is given.
    """

    client_ca_file: Path | None = None
    #: Empty: every certificate that the CA has signed.
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Where the web console is served, and the token that opens it."""

    address: str = LOOPBACK
    port: int = 10270
    #: None: tokens are the cluster's own.
    token_file: Path | None = None
    #: The flags that say so, for messages.
    flag: str = "--console"
    file_flag: str = "--console-token-file"

    @property
    def has_sign_in(self) -> bool:
        """Whether TLS and a token are needed: beyond loopback always."""
        if self.token_file is not None:
            return True
        try:
            return not ip_address(self.address).is_loopback
        except ValueError:
            return self.address != "localhost"


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The endpoints of a scheduler."""

    # DIVERGES: kube-scheduler's default is 0.0.0.0, which its entry point here passes.
    bind_address: str = LOOPBACK
    #: The port of HTTPS; 0 turns it off.
    secure_port: int = SECURE_PORT
    #: The port of plain HTTP without authentication; 0 turns it off.
    plain_port: int = 0
    #: Let other processes listen on the port of HTTPS too (SO_REUSEPORT).
    permit_port_sharing: bool = False

    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    #: Where a self-signed certificate is kept if no files are given; None: in memory.
    cert_dir: Path | None = None
    #: VersionTLS10 to VersionTLS13; empty: TLS 1.2 and newer.
    tls_min_version: str = ""
    #: Go's names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; empty: the secure ones.
    tls_cipher_suites: tuple[str, ...] = ()
    tls_sni_cert_keys: tuple[SniCertificate, ...] = ()

    client_ca_file: Path | None = None
    requestheader: RequestHeaders = field(default_factory=RequestHeaders)
    #: None: the credentials of the scheduler itself.
    authentication_kubeconfig: str | None = None
    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = True
    authentication_token_cache_ttl_s: float = 10.0
    #: None: the credentials of the scheduler itself.
    authorization_kubeconfig: str | None = None
    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_authorized_cache_ttl_s: float = 10.0
    authorization_unauthorized_cache_ttl_s: float = 10.0

    #: Serve /debug/pprof and /debug/flags/v.
    profiling: bool = True
    #: What /flagz shows: flags by name with their values.
    flags: Mapping[str, str] = field(default_factory=dict)
