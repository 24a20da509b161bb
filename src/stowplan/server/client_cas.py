"""The CAs of client certificates, from files and from the cluster's own ConfigMap.

kube-apiserver writes `kube-system/extension-apiserver-authentication` for components that delegate
authentication to it: the CA of users, and the CA and headers of authenticating proxies. Files
given by flags win. Invariant: the last valid content stays in use when a lookup fails.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.api.client import ApiClient
from stowplan.errors import StowplanError
from stowplan.http.messages import PeerCertificate
from stowplan.http.server_tls import CLIENT_CA_FLAG
from stowplan.http.watched_files import read_text
from stowplan.logs import get_logger, kv
from stowplan.server.serving_options import RequestHeaders, ServingOptions

log = get_logger(__name__)

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_SHOWN: Final = "kube-system/extension-apiserver-authentication"
_PROXY_CA_FLAG: Final = "--requestheader-client-ca-file"
#: kube-apiserver rarely changes it; Go watches it.
_EVERY_S: Final = 60.0
_RETRY_S: Final = 10.0
_TIMEOUT_S: Final = 10.0
_certificates = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
).findall


@dataclass(frozen=True, slots=True)
class Bundle:
    """CAs as PEM, and where they come from."""

    pem: str
    source: str
    where: str

    def fingerprints(self) -> frozenset[bytes]:
        found = _certificates(self.pem)
        return frozenset(sha256(ssl.PEM_cert_to_DER_cert(each)).digest() for each in found)


class ClientCas:
    """Which CA vouches for users, which for proxies, and the headers of proxies."""

    def __init__(self, options: ServingOptions) -> None:
        self._user_file = options.client_ca_file
        self._proxy_file = options.requestheader.client_ca_file
        self._looked_up: dict[str, str] = {}
        self.headers = options.requestheader
        self._users: frozenset[bytes] = frozenset()
        self._proxies: frozenset[bytes] = frozenset()
        self.is_looked_up = not options.authentication_skip_lookup and (
            self._user_file is None or self._proxy_file is None
        )

    @property
    def files(self) -> Sequence[Path]:
        return [file for file in (self._user_file, self._proxy_file) if file is not None]

    def load(self) -> list[Bundle]:
        """Read the CAs; ConfigError if a file is unreadable."""
        users = self._bundle(self._user_file, CLIENT_CA_FLAG, "client-ca-file")
        proxies = self._bundle(self._proxy_file, _PROXY_CA_FLAG, "requestheader-client-ca-file")
        self._users = frozenset() if users is None else users.fingerprints()
        self._proxies = frozenset() if proxies is None else proxies.fingerprints()
        return [each for each in (users, proxies) if each is not None]

    def signed_user(self, certificate: PeerCertificate) -> bool:
        return not self._users.isdisjoint(certificate.chain)

    def signed_proxy(self, certificate: PeerCertificate) -> bool:
        return not self._proxies.isdisjoint(certificate.chain)

    @property
    def has_users(self) -> bool:
        return bool(self._users)

    async def look_up(self, client: ApiClient) -> bool:
        """Read the ConfigMap; return True if it has changed."""
        body = await client.request("GET", CONFIG_MAP, timeout_s=_TIMEOUT_S)
        found = msgspec.json.decode(body, type=_ConfigMap).data or {}
        if found == self._looked_up:
            return False
        headers = self.headers if self._proxy_file else _headers(found)
        self._looked_up, self.headers = found, headers
        return True

    async def follow(self, client: ApiClient, on_change: Callable[[], None]) -> None:
        """Look up again and again, until cancelled."""
        problem = ""
        while True:
            try:
                if await self.look_up(client):
                    on_change()
                problem = ""
            except (StowplanError, msgspec.MsgspecError, ValueError) as error:
                if str(error) != problem:  # once, not every time
                    problem = str(error)
                    hint = "clients are known by tokens only, unless --client-ca-file is given"
                    log.warning(
                        "Cannot look up the CAs of clients",
                        extra=kv(configMap=_SHOWN, err=error, hint=hint),
                    )
            await asyncio.sleep(_RETRY_S if problem else _EVERY_S)

    def _bundle(self, file: Path | None, flag: str, key: str) -> Bundle | None:
        if file is not None:
            return Bundle(read_text(file, flag), str(file), flag)
        pem = self._looked_up.get(key, "")
        return Bundle(pem, f"{key} of ConfigMap {_SHOWN}", flag) if pem else None


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


def _headers(data: dict[str, str]) -> RequestHeaders:
    """The headers of proxies, each a JSON list in the ConfigMap."""

    def names(key: str) -> tuple[str, ...]:
        text: Any = data.get(f"requestheader-{key}") or "[]"
        return msgspec.json.decode(text, type=tuple[str, ...])

    return RequestHeaders(
        allowed_names=names("allowed-names"),
        username_headers=names("username-headers"),
        uid_headers=names("uid-headers"),
        group_headers=names("group-headers"),
        extra_headers_prefix=names("extra-headers-prefix"),
    )
