"""The embedded API server as one object: `start`, `url`, `stop`; a `EmbeddedCluster` over HTTP.

    server = ApiServer()
    await server.start()
    ...
    await server.stop()

Plain HTTP on loopback. Everything lives in the process: when it ends, the cluster is gone.
"""

from __future__ import annotations

import asyncio
import hmac
from typing import Any

import msgspec
from aiohttp import web

from stowplan.api.loopback import is_loopback
from stowplan.apiserver import faults
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.discovery import discovery_document
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.openapi import openapi_document
from stowplan.apiserver.paths import ResourcePath, parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.apiserver.statuses import Failure, no_such_path, status_of
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.apiserver.watching import Watch
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from stowplan.clock import Clock
from stowplan.errors import ApiError
from stowplan.loader.yaml_text import dump_yaml
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

MAX_BODY = 3 * 1024 * 1024
_HEALTH = ("/healthz", "/livez", "/readyz")


class ApiServer(EmbeddedCluster):
    """An in-memory Kubernetes API server."""

    def __init__(
        self,
        *,
        history_size: int = 10_000,
        bookmark_interval_s: float = 60.0,
        kubelet: KubeletOptions | None = None,
        token: str = "",
        clock: Clock | None = None,
        compute_priority: bool = True,
        volumes: VolumeControllerOptions | None = None,
        workloads: WorkloadControllerOptions | None = None,
        device_claims: bool = False,
    ) -> None:
        super().__init__(
            history_size=history_size,
            bookmark_interval_s=bookmark_interval_s,
            kubelet=kubelet,
            clock=clock,
            compute_priority=compute_priority,
            volumes=volumes,
            workloads=workloads,
            device_claims=device_claims,
        )
        self._token = token
        self._runner: web.ServerRunner | None = None
        self._host = ""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        http = web.Server(
            self._handle, request_factory=_request, handler_cancellation=True, access_log=None
        )
        runner = web.ServerRunner(http, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, host, port, backlog=1024)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self._host = host
        self.port = runner.addresses[0][1]
        self.start_controllers()
        log.info("Serving the embedded API", extra=kv(url=self.url))

    async def stop(self) -> None:
        """Ends the watches, the kubelet and the listener. The objects stay readable."""
        await self.stop_controllers()
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self) -> str:
        user = {"token": self._token} if self._token else {}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stowplan", "cluster": {"server": self.url}}],
            "users": [{"name": "stowplan", "user": user}],
            "contexts": [
                {"name": "stowplan", "context": {"cluster": "stowplan", "user": "stowplan"}}
            ],
            "current-context": "stowplan",
        }
        return dump_yaml(config)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._check_host(request.headers.get("Host", ""))
            self._authenticate(request)
            fault = faults.match(self.faults, request.method, request.path) if self.faults else None
            if fault is None:
                return await self._answer(request)
            if fault.action == "arrive-late" and (target := parse_path(request.path)) is not None:
                self.answer_later(await _asked(request, target), fault.delay_s)
                faults.cut(request)
            await faults.before(fault, request)
            response = await self._answer(request)
            await faults.after(fault, request)
            return response
        except ApiError as error:
            return _failure(error)
        except web.HTTPRequestEntityTooLarge:
            return _failure(Failure(413, f"Request entity too large: limit is {MAX_BODY}"))
        except Exception as error:
            log.exception("Request failed", extra=kv(method=request.method, path=request.path))
            cause = {"message": f"{type(error).__name__}: {error}"}
            return _failure(
                Failure(500, f"Internal error occurred: {error}", details={"causes": [cause]})
            )

    def _check_host(self, host: str) -> None:
        """On loopback, refuse other names: one of a web page can resolve to 127.0.0.1, too."""
        if is_loopback(self.url) and not is_loopback(f"http://{host}"):
            raise Failure(
                421, f"the Host header must name loopback, not {host[:100]!r}: use {self.url}"
            )

    def _authenticate(self, request: web.BaseRequest) -> None:
        if not self._token:
            return
        sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(sent.encode(), self._token.encode()):
            raise Failure(401, "Unauthorized")

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        target = parse_path(path)
        if target is None:
            return self._static(path.rstrip("/"), request)
        asked = await _asked(request, target)
        if asked.is_watch:
            return await self._stream(request, self.rest.watch(asked))
        answer = self.rest.answer(asked)
        response = web.Response(
            body=answer.body, status=answer.code, headers={"Content-Type": answer.media}
        )
        for warning in answer.warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{escaped}"')
        return response

    @staticmethod
    async def _stream(request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.headers["Cache-Control"] = "no-cache, private"
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            async for piece in watch.pieces():
                await response.write(piece)
        except ConnectionResetError:
            pass  # the client has gone, which is how most watches end
        finally:
            watch.close()
        return response

    @staticmethod
    def _static(path: str, request: web.BaseRequest) -> web.Response:
        if path.startswith(_HEALTH):
            return web.Response(text="ok")
        found = discovery_document(path, request.headers.get("Accept", ""))
        if found is not None:
            body = msgspec.json.encode(found.body)
            return web.Response(body=body, headers={"Content-Type": found.content_type})
        document = openapi_document(path)
        if document is not None:
            return web.Response(body=document[1], headers={"Content-Type": document[0]})
        raise no_such_path()


def _request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]
) -> web.BaseRequest:
    """aiohttp's own, with kube-apiserver's limit for bodies."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)


def _json(value: object, code: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=code, headers={"Content-Type": "application/json"}
    )


def _failure(error: ApiError) -> web.Response:
    response = _json(status_of(error), error.status)
    retry = (getattr(error, "details", None) or {}).get("retryAfterSeconds")
    if retry is not None:
        response.headers["Retry-After"] = str(retry)
    return response


async def _asked(request: web.BaseRequest, target: ResourcePath) -> ApiRequest:
    headers = request.headers
    return ApiRequest(
        request.method,
        target,
        request.query,
        b"" if request.method == "GET" else await request.read(),
        headers.get("Content-Type", ""),
        headers.get("Accept", ""),
        headers.get("User-Agent", ""),
    )
