"""Who a client is: by proxy headers, by client certificate, by token, or anonymous.

`https_site` asks for every request. Tokens are delegated to the API server (TokenReview), as
kube-scheduler does. Invariant: neither logs nor errors contain a token.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final
from urllib.parse import unquote

import msgspec

from stowplan.api.client import ApiClient
from stowplan.errors import ApiUnavailable
from stowplan.http.messages import PeerCertificate, Request
from stowplan.http.parser import RequestHead
from stowplan.loader.json_text import load_json
from stowplan.server.access_metrics import AccessMetrics
from stowplan.server.client_cas import ClientCas
from stowplan.server.review_cache import Answer, ReviewCache, post_review

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


class Unauthenticated(Exception):
    """The client showed credentials, and none of them holds."""


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo | None = None
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _Status


class Authenticator:
    """Tries every kind of credentials, in kube-scheduler's order."""

    def __init__(
        self, cas: ClientCas, client: ApiClient, metrics: AccessMetrics, *, token_ttl_s: float
    ) -> None:
        self._cas = cas
        self._client = client
        self._metrics = metrics
        self._token_ttl_s = token_ttl_s
        self._salt = os.urandom(16)
        self.tokens: ReviewCache[User | None] = ReviewCache()

    async def __call__(self, request: Request) -> User:
        """The user; Unauthenticated if all credentials fail, `Busy` or an API error at worst."""
        problems: list[str] = []
        certificate = request.certificate
        for known_by in (self._proxied, self._signed):
            try:
                found = None if certificate is None else known_by(request.head, certificate)
            except Unauthenticated as problem:
                problems.append(str(problem))
            else:
                if found is not None:
                    return _authenticated(found)
        token = _bearer_token(request.head)
        if token:
            user = await self.by_token(token)
            if user is not None:
                return user
            problems.append("invalid bearer token")
        if problems:
            raise Unauthenticated("; ".join(problems))
        return ANONYMOUS

    async def by_token(self, token: str) -> User | None:
        """The user of a token; None if it is not valid. Errors are those of a call."""
        user = await self._reviewed(token)
        return None if user is None else _authenticated(user)

    def _proxied(self, head: RequestHead, certificate: PeerCertificate) -> User | None:
        """The user whom an authenticating proxy names."""
        headers = self._cas.headers
        if not self._cas.has_proxies:
            return None
        if not self._cas.signed_proxy(certificate):
            raise Unauthenticated("the client certificate is not signed by the CA of proxies")
        _check_times(certificate)
        if headers.allowed_names and certificate.common_name not in headers.allowed_names:
            raise Unauthenticated("the proxy's certificate has none of the allowed names")
        fields = head.headers.items()

        def values(names: tuple[str, ...]) -> list[str]:
            wanted = [name.lower() for name in names]
            return [value for one in wanted for name, value in fields if name == one and value]

        name = next(iter(values(headers.username_headers)), "")
        if not name:
            return None
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in map(str.lower, headers.extra_headers_prefix):
            for field_name, value in fields:
                if prefix and field_name.startswith(prefix):
                    key = unquote(field_name.removeprefix(prefix))
                    extra[key] = (*extra.get(key, ()), value)
        uid = next(iter(values(headers.uid_headers)), "")
        return User(name, tuple(values(headers.group_headers)), uid, extra)

    def _signed(self, _: RequestHead, certificate: PeerCertificate) -> User | None:
        """The user whom a client certificate names."""
        if not self._cas.has_users:
            return None
        self._metrics.certificate_shown(certificate.expires - time.time())
        if not self._cas.signed_user(certificate):
            raise Unauthenticated("the client certificate is not signed by the CA of users")
        _check_times(certificate)
        if not certificate.common_name:
            return None
        credential = f"X509SHA256={certificate.sha256.hex()}"
        extra = {_CREDENTIAL_ID: (credential,)}
        return User(certificate.common_name, certificate.organizations, extra=extra)

    async def _reviewed(self, token: str) -> User | None:
        """The user whom the API server knows by this token."""
        encoded = token.encode("latin-1")

        async def ask() -> Answer[User | None]:
            review = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token},
            }
            user: User | None = None
            self._metrics.token_fetch_began()
            try:
                with self._metrics.token_reviews.request():
                    body = await post_review(self._client, _REVIEWS, review)
                user = _user(body)
            finally:
                self._metrics.token_fetch_ended(is_known=user is not None)
            return Answer(user, self._token_ttl_s, len(body))

        key = blake2b(encoded, key=self._salt, digest_size=32).digest()
        with self._metrics.token_lookup(is_hit=self.tokens.has(key)):
            return await self.tokens.get(key, ask)


def _user(body: bytes) -> User | None:
    try:
        status = load_json(body, _TokenReview).status
    except ValueError as error:
        raise ApiUnavailable(f"POST {_REVIEWS}: not a TokenReview: {error}") from None
    if not status.authenticated or status.error or status.user is None:
        return None
    info = status.user
    return User(info.username, info.groups or (), info.uid, info.extra or {})


def _check_times(certificate: PeerCertificate) -> None:
    if not certificate.is_valid_at(time.time()):
        raise Unauthenticated("the client certificate has expired, or is not valid yet")


def _authenticated(user: User) -> User:
    """The user, in the group of all authenticated ones."""
    if user.name == ANONYMOUS.name or {AUTHENTICATED, UNAUTHENTICATED} & {*user.groups}:
        return user
    return User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)


def _bearer_token(head: RequestHead) -> str:
    shown = [value for name, value in head.headers.items() if name == "authorization"]
    words = shown[0].split(" ", 2) if shown else []
    return words[1] if len(words) > 1 and words[0].lower() == "bearer" else ""
