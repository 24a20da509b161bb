"""Access to a console that others can reach: TLS of the HTTPS port, and who may read.

Tokens are the cluster's own (TokenReview, then SubjectAccessReview for the path /console/), or one
that a file holds. `cli.console` and `serving` enter `console_access`; `check_delegation` says at
the start if the API server would refuse every token.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Final

from stowplan.api.client import ApiClient
from stowplan.console.serving import Access
from stowplan.console.sign_in import NotAllowed, NotKnown, TokenCheck
from stowplan.console.site import PREFIX
from stowplan.errors import ApiUnavailable, ConfigError, Forbidden, NotFound, Unauthorized
from stowplan.http.server_tls import ServerTls
from stowplan.http.watched_files import WatchedFiles, keep_loaded, read_text
from stowplan.server.access_metrics import AccessMetrics
from stowplan.server.authentication import ANONYMOUS, Authenticator
from stowplan.server.authorization import Authorizer, OpenPaths
from stowplan.server.client_cas import ClientCas
from stowplan.server.review_cache import Busy
from stowplan.server.secure_tls import secure_tls
from stowplan.server.self_signed import names_of, stored_pair
from stowplan.server.serving_options import ConsoleOptions, ServingOptions
from stowplan.server.work_queues import WorkQueues

#: Below this a token can be guessed.
_SHORTEST: Final = 20


@asynccontextmanager
async def console_access(
    options: ConsoleOptions, serving: ServingOptions, client: ApiClient
) -> AsyncIterator[Access]:
    """Access by the files of `serving`, followed until the end; ConfigError if one is unusable."""
    tls = secure_tls(serving, None, WorkQueues())
    watched = [tls.files]
    check: TokenCheck = DelegatedCheck(serving, client)
    if options.token_file is not None:
        check = stored = TokenFile(options.token_file, options.file_flag)
        watched.append(stored.files)
    following = asyncio.create_task(keep_loaded(watched), name="console files")
    try:
        yield Access(tls, check, _Names(serving, tls))
    finally:
        following.cancel()


class TokenFile:
    """One token, whose file may be replaced while the server runs."""

    def __init__(self, file: Path, flag: str) -> None:
        self._file = file
        self._flag = flag
        self._digest = b""
        self.files = WatchedFiles([file], self._load, "console token")
        self.files.load()

    async def __call__(self, token: str, verb: str) -> str:
        if not compare_digest(sha256(token.encode()).digest(), self._digest):
            raise NotKnown
        return f"token file {self._file.name}"

    def _load(self) -> None:
        token = read_text(self._file, self._flag).strip()
        if len(token) < _SHORTEST or any(not "!" <= letter <= "~" for letter in token):
            raise ConfigError(
                f"{self._file} must hold one token of at least {_SHORTEST} letters, digits or"
                " signs. Fix: openssl rand -hex 32 > FILE",
                where=self._flag,
            )
        self._digest = sha256(token.encode()).digest()


class DelegatedCheck:
    """Tokens and rights of the cluster."""

    def __init__(self, serving: ServingOptions, client: ApiClient) -> None:
        self._denied_ttl_s = serving.authorization_unauthorized_cache_ttl_s
        # Not shown: the HTTPS port has families of the same names.
        metrics = AccessMetrics()
        self._authenticate = Authenticator(
            ClientCas(serving),
            client,
            metrics,
            token_ttl_s=serving.authentication_token_cache_ttl_s,
        )
        self._authorize = Authorizer(
            client,
            OpenPaths(()),
            metrics,
            allowed_ttl_s=serving.authorization_authorized_cache_ttl_s,
            denied_ttl_s=self._denied_ttl_s,
        )

    async def probe(self) -> None:
        """Ask both questions about no user in particular; an error says that we may not ask."""
        await self._authenticate.by_token("probe")
        await self._authorize(ANONYMOUS, "get", PREFIX)

    async def __call__(self, token: str, verb: str) -> str:
        try:
            user = await self._authenticate.by_token(token)
            if user is None:
                raise NotKnown
            decision = await self._authorize(user, verb, PREFIX)
        except Busy:
            raise ApiUnavailable("too many tokens are checked at a time") from None
        if not decision.is_allowed:
            raise NotAllowed(
                f"User {json.dumps(user.name)} cannot {verb} path {PREFIX}: it needs a ClusterRole"
                f' with nonResourceURLs: ["{PREFIX}*"], verbs: ["{verb}"]. A new one works after'
                f" {self._denied_ttl_s:g} s at most"
            )
        return user.name


async def check_delegation(options: ConsoleOptions, client: ApiClient) -> None:
    """Raise ConfigError if our credentials cannot check tokens, so that no user could sign in."""
    if options.token_file is not None:
        return
    try:
        await DelegatedCheck(ServingOptions(), client).probe()
    except NotFound:
        raise ConfigError(
            f"{options.address} is not loopback, so users must sign in, and this API server cannot"
            f" check tokens: it has no TokenReview or SubjectAccessReview. Fix: use"
            f" {options.file_flag} FILE, or listen on 127.0.0.1",
            where=options.flag,
        ) from None
    except (Unauthorized, Forbidden) as problem:
        raise ConfigError(
            f"{options.address} is not loopback, so users must sign in, and these credentials"
            f" cannot check tokens ({problem}). Fix: give them the ClusterRole"
            f" system:auth-delegator, use {options.file_flag} FILE, or listen on 127.0.0.1",
            where=options.flag,
        ) from None


class _Names:
    """The names that the certificate is for; read again when TLS has new files."""

    def __init__(self, serving: ServingOptions, tls: ServerTls) -> None:
        self._serving = serving
        self._tls = tls
        self._of: object = None
        self._names: Collection[str] = ()

    def __call__(self) -> Collection[str]:
        if self._of is not self._tls.context:
            self._of = self._tls.context
            self._names = frozenset(name.lower() for name in ("localhost", *self._read()))
        return self._names

    def _read(self) -> list[str]:
        serving = self._serving
        file = serving.tls_cert_file
        if file is None and serving.cert_dir is not None:
            file, _ = stored_pair(serving.cert_dir, serving.bind_address)
        found = [socket.gethostname()] if file is None else list(names_of(file))
        for each in serving.tls_sni_cert_keys:
            found += each.names or names_of(each.certificate)
        return found
