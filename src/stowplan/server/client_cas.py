"""The CAs of client certificates, from files and from the cluster's own ConfigMap.

kube-apiserver writes `kube-system/extension-apiserver-authentication` for components that delegate
authentication to it: the CA of users, and the CA and headers of authenticating proxies. It is
watched. Files given by flags win. Invariant: the last valid content stays in use when newer content
is not valid, or the ConfigMap is deleted.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.follow import follow
from stowplan.api.objects import ObjectMeta, Wire
from stowplan.api.resources import Resource
from stowplan.api.watch import EventType
from stowplan.errors import StowplanError
from stowplan.http.messages import PeerCertificate
from stowplan.http.server_tls import CLIENT_CA_FLAG
from stowplan.http.watched_files import read_text
from stowplan.loader.json_text import load_json
from stowplan.logs import get_logger, kv
from stowplan.server.serving_options import RequestHeaders, ServingOptions
from stowplan.server.work_queues import CLIENT_CAS, PROXY_HEADERS, WorkQueues

log = get_logger(__name__)

_NAMESPACE: Final = "kube-system"
_NAME: Final = "extension-apiserver-authentication"
_SHOWN: Final = f"{_NAMESPACE}/{_NAME}"
_PROXY_CA_FLAG: Final = "--requestheader-client-ca-file"
_RETRY_S: Final = 10.0
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


class Bundles(NamedTuple):
    users: Bundle | None
    proxies: Bundle | None


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

    def read(self) -> Bundles:
        """The CAs as they are now; ConfigError if a file is unreadable."""
        return Bundles(
            self._bundle(self._user_file, CLIENT_CA_FLAG, "client-ca-file"),
            self._bundle(self._proxy_file, _PROXY_CA_FLAG, "requestheader-client-ca-file"),
        )

    def use(self, bundles: Bundles) -> None:
        """Recognise certificates by these CAs, which TLS has accepted."""
        users, proxies = bundles
        self._users = frozenset() if users is None else users.fingerprints()
        self._proxies = frozenset() if proxies is None else proxies.fingerprints()

    def signed_user(self, certificate: PeerCertificate) -> bool:
        return not self._users.isdisjoint(certificate.chain)

    def signed_proxy(self, certificate: PeerCertificate) -> bool:
        return not self._proxies.isdisjoint(certificate.chain)

    @property
    def has_users(self) -> bool:
        return bool(self._users)

    @property
    def has_proxies(self) -> bool:
        return bool(self._proxies)

    async def look_up(self, client: ApiClient) -> None:
        """Read the ConfigMap once; an error if it cannot be read, or its headers are not valid."""
        self._take((await client.get(CONFIG_MAPS, _NAME, namespace=_NAMESPACE)).data or {})

    async def follow(
        self, client: ApiClient, queues: WorkQueues, on_change: Callable[[], None]
    ) -> None:
        """Watch the ConfigMap until cancelled; `on_change` is called with new content in place."""
        problem = ""
        while True:
            try:
                changes = follow(
                    client,
                    CONFIG_MAPS,
                    namespace=_NAMESPACE,
                    field_selector=f"metadata.name={_NAME}",
                )
                async for change in changes:
                    problem = ""
                    if change.type is not EventType.DELETED:
                        self._use(change.object.data or {}, queues, on_change)
            except StowplanError as error:
                if str(error) != problem:  # once, not every time
                    problem = str(error)
                    hint = (
                        "clients can authenticate by token only, unless --client-ca-file is given"
                    )
                    log.warning(
                        "Cannot look up the CAs of clients",
                        extra=kv(configMap=_SHOWN, err=error, hint=hint),
                    )
            await asyncio.sleep(_RETRY_S)

    def _use(self, data: dict[str, str], queues: WorkQueues, on_change: Callable[[], None]) -> None:
        before = self._looked_up, self.headers
        if data == self._looked_up:
            return
        try:
            with queues.work(PROXY_HEADERS), queues.work(CLIENT_CAS):
                self._take(data)
                on_change()
        except (StowplanError, msgspec.MsgspecError, ValueError) as error:
            self._looked_up, self.headers = before
            log.warning(
                "Cannot use the CAs of clients, the last valid ones stay in use",
                extra=kv(configMap=_SHOWN, err=error),
            )

    def _take(self, data: dict[str, str]) -> None:
        if self._proxy_file is None:
            self.headers = _headers(data)
        self._looked_up = data

    def _bundle(self, file: Path | None, flag: str, key: str) -> Bundle | None:
        if file is not None:
            return Bundle(read_text(file, flag), str(file), flag)
        pem = self._looked_up.get(key, "")
        return Bundle(pem, f"{key} of ConfigMap {_SHOWN}", flag) if pem else None


class ConfigMap(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


def _headers(data: dict[str, str]) -> RequestHeaders:
    """The headers of proxies, each a JSON list in the ConfigMap."""

    def names(key: str) -> tuple[str, ...]:
        text: Any = data.get(f"requestheader-{key}") or "[]"
        return load_json(text, tuple[str, ...])

    return RequestHeaders(
        allowed_names=names("allowed-names"),
        username_headers=names("username-headers"),
        uid_headers=names("uid-headers"),
        group_headers=names("group-headers"),
        extra_headers_prefix=names("extra-headers-prefix"),
    )
