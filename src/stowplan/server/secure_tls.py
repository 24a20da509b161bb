"""TLS of the scheduler's HTTPS port: certificates by name, versions, ciphers, client CAs.

`https` makes one from the options. Client CAs come from files or, in `client_cas`, from the
cluster; when either changes, the contexts are made again.
"""

from __future__ import annotations

import re
import ssl
import warnings
from functools import partial
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.http.client_certificates import accept_strangers
from stowplan.http.server_tls import (
    Contexts,
    ServerTls,
    ask_for_certificates,
    server_context,
    trust,
)
from stowplan.logs import get_logger, kv
from stowplan.server.client_cas import Bundles, ClientCas
from stowplan.server.self_signed import as_file, has_expired, make_pair, names_of, stored_pair
from stowplan.server.serving_options import ServingOptions
from stowplan.server.work_queues import CERTIFICATES, WorkQueues

log = get_logger(__name__)

_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
#: TLS 1.3 has no choice of ciphers, in Go as here; their names are accepted.
_TLS13: Final = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
_suite = re.compile(r"TLS_(?:(ECDHE)_)?(RSA|ECDSA)_WITH_([A-Z0-9_]+)").fullmatch
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
}


def secure_tls(options: ServingOptions, cas: ClientCas | None, queues: WorkQueues) -> ServerTls:
    """TLS that follows the options' files; ConfigError if one of them is unusable.

    Without `cas` clients are not asked for certificates, which a browser would ask its user for.
    """
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        given, missing = "--tls-cert-file", "--tls-private-key-file"
        if options.tls_cert_file is None:
            given, missing = missing, given
        raise ConfigError(f"{given} needs {missing}", where=given)
    version = _VERSIONS.get(options.tls_min_version)
    if version is None:
        known = ", ".join(name for name in _VERSIONS if name)
        problem = f'unknown tls version "{options.tls_min_version}"; known are {known}'
        raise ConfigError(problem, where="--tls-min-version")
    if version not in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) and not _has(version):
        reason = f"this build of OpenSSL has nothing before {ssl.TLSVersion.TLSv1_2.name}"
        log.warning("A flag has no effect", extra=kv(flag="--tls-min-version", reason=reason))
    ciphers = ":".join(filter(None, map(_openssl_name, options.tls_cipher_suites)))
    certificate, key = options.tls_cert_file, options.tls_private_key_file
    if certificate is None and options.cert_dir is not None:
        certificate, key = stored_pair(options.cert_dir, options.bind_address)
    own = b""
    if certificate is None:
        own = make_pair(options.bind_address)
        log.info("Generated self-signed cert in-memory")

    def make() -> Contexts:
        with queues.work(CERTIFICATES):
            return contexts()

    def contexts() -> Contexts:
        bundles = None if cas is None else cas.read()
        finish = partial(_finish, version=version, ciphers=ciphers, bundles=bundles)
        if certificate is not None and key is not None:
            default = server_context(certificate, key)
            _warn_if_expired(certificate)
        else:
            with as_file(own) as file:
                default = server_context(file, file)
        finish(default)
        by_name: dict[str, ssl.SSLContext] = {}
        for each in options.tls_sni_cert_keys:
            context = server_context(each.certificate, each.key, where="--tls-sni-cert-key")
            finish(context)
            for name in each.names or names_of(each.certificate):
                by_name.setdefault(name.lower(), context)
        if cas is not None and bundles is not None:
            cas.use(bundles)
        return Contexts(default, by_name)

    files: list[Path | None] = [certificate, key, *(cas.files if cas is not None else ())]
    for each in options.tls_sni_cert_keys:
        files += [each.certificate, each.key]
    return ServerTls(make, [file for file in files if file is not None])


def _warn_if_expired(certificate: Path) -> None:
    # Served all the same, as upstream does: probes do not verify it, and must not fail.
    if has_expired(certificate):
        hint = "clients that verify it get no connection; renew it"
        log.warning("The certificate has expired", extra=kv(file=str(certificate), hint=hint))


def _finish(
    context: ssl.SSLContext, *, version: ssl.TLSVersion, ciphers: str, bundles: Bundles | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the user asked for an old version
        context.minimum_version = version
    if version < ssl.TLSVersion.TLSv1_2:
        # OpenSSL has these versions at this level of security only.
        ciphers = f"{ciphers or 'DEFAULT'}:@SECLEVEL=0"
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            problem = "this build of OpenSSL has none of the cipher suites"
            raise ConfigError(problem, where="--tls-cipher-suites") from None
    if bundles is None:
        return
    ask_for_certificates(context)
    trusted = [bundle for bundle in bundles if bundle is not None]
    for bundle in trusted:
        trust(context, bundle.pem, source=bundle.source, where=bundle.where)
    accept_strangers(context, [bundle.pem for bundle in trusted])


def _has(version: ssl.TLSVersion) -> bool:
    return ssl.HAS_TLSv1 if version is ssl.TLSVersion.TLSv1 else ssl.HAS_TLSv1_1


def _openssl_name(suite: str) -> str:
    if suite in _TLS13:
        return ""
    found = _suite(suite)
    cipher = _CIPHERS.get(found[3]) if found else None
    if found is None or cipher is None:
        problem = f"Cipher suite {suite} not supported or doesn't exist"
        raise ConfigError(problem, where="--tls-cipher-suites")
    exchange, signature, _ = found.groups()
    return f"{exchange}-{signature}-{cipher}" if exchange else cipher
