"""Requests to a `EmbeddedCluster` of this process, without HTTP: the transport of an `ApiClient`.

What a client gets is what it would get over HTTP, errors included; only sockets, credentials and
lanes are missing. Used by the virtual target, where a request costs a function call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from stowplan.api.status_errors import error_from_response
from stowplan.api.transport import Body, Lane, Params
from stowplan.api.watch import ObjectEvent
from stowplan.apiserver import faults
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.discovery import discovery_document
from stowplan.apiserver.history import Json
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.apiserver.statuses import no_such_path, status_of
from stowplan.errors import ApiError, ApiUnavailable
from stowplan.http.client import Guard

SERVER = "in-process:"


class InProcess:
    """One client's way to the cluster."""

    def __init__(self, cluster: EmbeddedCluster, *, user_agent: str = "stowplan") -> None:
        self._cluster = cluster
        self._user_agent = user_agent

    async def close(self) -> None:
        """Nothing is open."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        accept: str = "",
        lane: Lane = Lane.READ,
        timeout_s: float = 30.0,
        retry_throttled: bool = True,
        reads_answer: bool = True,
        guard: Guard | None = None,
    ) -> bytes:
        """One request and its answer; ApiError where the server refuses."""
        fault = None
        if self._cluster.faults:
            fault = faults.match(self._cluster.faults, method, path)
        try:
            if fault is not None:
                await _before(fault, timeout_s)
            if guard is not None:
                guard()
            document = discovery_document(path, accept) if method == "GET" else None
            if document is not None:
                return msgspec.json.encode(document.body)
            request = self._request(
                method, path, params, body, content_type, accept, reads_answer=reads_answer
            )
            if fault is not None and fault.action == "arrive-late":
                self._cluster.answer_later(request, fault.delay_s)
                raise _closed()
            answer = self._cluster.rest.answer(request)
            if fault is not None:
                await _after(fault, timeout_s)
        except ApiError as refusal:
            raise _as_sent(refusal, f"{method} {path}") from None
        return answer.body

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AsyncIterator[AsyncIterable[list[ObjectEvent]]]:
        """A watch whose events have the server's own objects."""
        try:
            watch = self._cluster.rest.watch(self._request("GET", path, params))
        except ApiError as refusal:
            raise _as_sent(refusal, f"GET {path}") from None
        try:
            yield watch
        finally:
            watch.close()

    def _request(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: Body | None = None,
        content_type: str = "",
        accept: str = "",
        *,
        reads_answer: bool = True,
    ) -> ApiRequest:
        target = parse_path(path)
        if target is None:
            raise no_such_path()
        query = {name: str(value) for name, value in params.items()} if params else {}
        sent: Json | None = None
        if body is not None and not isinstance(body, bytes):
            # A copy of what JSON would make of it: the store must not share the caller's parts.
            sent, body = msgspec.to_builtins(body, str_keys=True), None
        return ApiRequest(
            method,
            target,
            query,
            body or b"",
            content_type,
            accept,
            self._user_agent,
            sent,
            reads_answer,
        )


def _as_sent(refusal: ApiError, request: str) -> ApiError:
    """The error that a client makes of the server's answer."""
    body = msgspec.json.encode(status_of(refusal))
    return error_from_response(refusal.status, body, request=request)


async def _before(fault: faults.Fault, timeout_s: float) -> None:
    match fault.action:
        case "answer":
            raise fault.failure()
        case "drop":
            raise _closed()
        case "hang":
            await _hang(timeout_s)
        case "delay":
            await asyncio.sleep(fault.delay_s)


async def _after(fault: faults.Fault, timeout_s: float) -> None:
    match fault.action:
        case "lose-answer":
            raise _closed()
        case "hang-answer":
            await _hang(timeout_s)


def _closed() -> ApiUnavailable:
    return ApiUnavailable(f"{SERVER} the connection was closed", maybe_done=True)


async def _hang(timeout_s: float) -> None:
    await asyncio.sleep(timeout_s)
    raise ApiUnavailable(f"{SERVER} no answer within {timeout_s:g} s", maybe_done=True)
