"""The process's own HTTP face: /healthz, /livez, /readyz, /metrics, /configz.

`stowplan run` starts it before anything else, so that a pod that waits for its lease is alive but
says why it is not ready. Checks are plain callables: None for well, else the reason.
Plain HTTP; it tells nothing secret, and binds to whatever address its flag says.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aiohttp import web

from stowplan.logs import get_logger, kv
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.listen import cannot_listen

if TYPE_CHECKING:
    from stowplan.server.metrics import Exposition

log = get_logger(__name__)

Check: TypeAlias = Callable[[], str | None]
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

# kube-scheduler's old port for plain HTTP; 10259 is its TLS port.
DEFAULT_PORT: Final = 10251
# Nothing here streams, so open requests end by themselves at once.
_SHUTDOWN_S: Final = 1.0


def _ping() -> str | None:
    return None


class HttpServer:
    """Serves until `stop()`. `healthz` and `readyz` are checks by name; without any, and always
    for /livez, an answer is proof enough.
    """

    def __init__(
        self,
        metrics: SchedulerMetrics,
        *,
        healthz: Mapping[str, Check] | None = None,
        readyz: Mapping[str, Check] | None = None,
        configz: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        self._metrics = metrics
        self._exposition: Exposition | None = None
        self._configz = configz
        self._runner: web.AppRunner | None = None
        self._app = web.Application()
        for name, checks in (("healthz", healthz), ("livez", None), ("readyz", readyz)):
            self._add_health(name, checks or {"ping": _ping})
        self._app.router.add_get("/metrics", self._serve_metrics)
        if configz is not None:
            self._app.router.add_get("/configz", self._serve_configz)
        self._app.router.add_get("/", self._serve_index)
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int, *, flag: str = "--port") -> None:
        """Listen; port 0 takes any free one. ConfigError if that is not possible."""
        runner = web.AppRunner(
            self._app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_S
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise cannot_listen(error, host, port, flag=flag) from None
        self._runner = runner
        self.host = host
        self.port = runner.addresses[0][1]
        log.info("Serving health and metrics", extra=kv(url=self.url))

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def _add_health(self, name: str, checks: Mapping[str, Check]) -> None:
        self._app.router.add_get(f"/{name}", _health_handler(name, checks))
        for check_name, check in checks.items():
            self._app.router.add_get(f"/{name}/{check_name}", _check_handler(check))

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        shown = self._exposition
        if shown is None:
            # Only now: a scheduler that starts is in a hurry, and its first scrape is not.
            from stowplan.server.metrics import Exposition

            shown = self._exposition = Exposition(self._metrics)
        return web.Response(body=shown.text(), headers={"Content-Type": shown.content_type})

    async def _serve_configz(self, _: web.Request) -> web.Response:
        assert self._configz is not None
        # Upstream's key; tools that read /configz of components look for it.
        text = json.dumps({"componentconfig": self._configz()})
        return web.Response(text=text, content_type="application/json")

    async def _serve_index(self, _: web.Request) -> web.Response:
        resources = self._app.router.resources()
        paths = sorted(resource.canonical for resource in resources if resource.canonical != "/")
        return web.Response(
            text=json.dumps({"paths": paths}, indent=2) + "\n", content_type="application/json"
        )


def _health_handler(name: str, checks: Mapping[str, Check]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        lines: list[str] = []
        failed: list[str] = []
        for check_name, check in checks.items():
            if check_name in excluded:
                lines.append(f"[+]{check_name} excluded: ok")
                continue
            reason = _run(check)
            if reason is None:
                lines.append(f"[+]{check_name} ok")
            else:
                failed.append(check_name)
                lines.append(f"[-]{check_name} failed: {reason}")
        unknown = sorted(excluded - checks.keys())
        if unknown:
            quoted = ", ".join(f'"{check}"' for check in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            return _text(500, "\n".join([*lines, f"{name} check failed", ""]))
        if "verbose" in request.query:
            return _text(200, "\n".join([*lines, f"{name} check passed", ""]))
        return _text(200, "ok")

    return handle


def _check_handler(check: Check) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        reason = _run(check)
        return (
            _text(200, "ok") if reason is None else _text(500, f"internal server error: {reason}\n")
        )

    return handle


def _run(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        # A check that breaks must not look healthy, nor take the server down.
        log.exception("Health check raised")
        return f"{type(error).__name__}: {error}"


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, headers={"Cache-Control": "no-cache, private"})
