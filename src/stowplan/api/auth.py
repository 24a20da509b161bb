"""Credentials for the API server: cached, renewed before they expire, and renewed after a 401.

`transport` asks `cached()` for every request, which must stay cheap, awaits `obtain()` where that
has nothing fresh, and calls `refresh()` with the credential that was refused. Renewal runs once
for all requests that wait for it.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stowplan.api.exec_credentials import run_plugin
from stowplan.api.kubeconfig import ClusterConfig, ExecConfig
from stowplan.clock import Clock, SystemClock
from stowplan.errors import Unauthorized
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

# Kubelet renews a projected token well before it ends; client-go re-reads at this pace too.
TOKEN_FILE_PERIOD_S = 50.0
# A plugin whose credentials are refused again and again is not run for every single request.
_FORCED_RUN_PERIOD_S = 10.0


@dataclass(frozen=True)
class Credential:
    """What one request presents; equal credentials are refused equally."""

    authorization: str = field(default="", repr=False)
    client_cert: bytes | None = None
    client_key: bytes | None = field(default=None, repr=False)


class Credentials(Protocol):
    """Where credentials come from."""

    def cached(self) -> Credential | None:
        """The credential in hand, None when it has to be (re)obtained."""

    async def obtain(self) -> Credential:
        """A fresh credential; raises Unauthorized where none is to be had."""

    async def refresh(self, refused: Credential) -> Credential:
        """After a 401: a new credential, or `refused` itself where there is no other."""


def credentials_for(config: ClusterConfig, *, clock: Clock | None = None) -> Credentials:
    """The source that a cluster's configuration asks for."""
    clock = clock or SystemClock()
    if config.exec is not None:
        return ExecSource(config.exec, clock=clock)
    if config.token_file:
        return TokenFileSource(config, clock=clock)
    return StaticSource(config)


class StaticSource:
    """A token, a user name and password, a client certificate, or nothing at all."""

    def __init__(self, config: ClusterConfig) -> None:
        self._credential = Credential(_authorization(config), config.client_cert, config.client_key)

    def cached(self) -> Credential | None:
        return self._credential

    async def obtain(self) -> Credential:
        return self._credential

    async def refresh(self, refused: Credential) -> Credential:
        return refused


def _authorization(config: ClusterConfig) -> str:
    if config.token:
        return f"Bearer {config.token}"
    if config.username or config.password:
        pair = f"{config.username}:{config.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


class TokenFileSource:
    """A token in a file that another program rotates, such as a service account's."""

    def __init__(self, config: ClusterConfig, *, clock: Clock) -> None:
        self._path = Path(config.token_file)
        self._client_cert = config.client_cert
        self._client_key = config.client_key
        self._clock = clock
        self._credential = self._with(config.token) if config.token else None
        self._fresh_until = float("-inf")

    def cached(self) -> Credential | None:
        return self._credential if self._clock.monotonic() < self._fresh_until else None

    async def obtain(self) -> Credential:
        return self._read()

    async def refresh(self, refused: Credential) -> Credential:
        return self._read()

    def _read(self) -> Credential:
        """A file that cannot be read now leaves the last good token in use."""
        self._fresh_until = self._clock.monotonic() + TOKEN_FILE_PERIOD_S
        problem = "it is empty"
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            token, problem = "", str(error)
        if token:
            self._credential = self._with(token)
        elif self._credential is None:
            self._fresh_until = float("-inf")
            raise Unauthorized(f"token file {self._path}: {problem}", reason="Unauthorized")
        else:
            log.warning("Cannot re-read token file", extra=kv(file=str(self._path), err=problem))
        assert self._credential is not None
        return self._credential

    def _with(self, token: str) -> Credential:
        return Credential(f"Bearer {token}", self._client_cert, self._client_key)


class ExecSource:
    """Credentials printed by a plugin, kept until they expire or are refused."""

    def __init__(self, plugin: ExecConfig, *, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._credential: Credential | None = None
        self._expires_at: float | None = None
        self._forced_at = float("-inf")
        self._lock = asyncio.Lock()

    def cached(self) -> Credential | None:
        if self._expires_at is not None and self._clock.time() >= self._expires_at:
            return None
        return self._credential

    async def obtain(self) -> Credential:
        async with self._lock:
            return self.cached() or await self._run()

    async def refresh(self, refused: Credential) -> Credential:
        async with self._lock:
            fresh = self.cached()
            if fresh is not None and fresh != refused:
                return fresh  # another request renewed it meanwhile
            now = self._clock.monotonic()
            if now - self._forced_at < _FORCED_RUN_PERIOD_S:
                return refused
            self._forced_at = now
            return await self._run()

    async def _run(self) -> Credential:
        answer = await run_plugin(self._plugin)
        self._expires_at = answer.expires_at
        self._credential = Credential(
            f"Bearer {answer.token}" if answer.token else "",
            answer.client_cert,
            answer.client_key,
        )
        return self._credential
