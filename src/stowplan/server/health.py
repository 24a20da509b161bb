"""The endpoints of a process: /healthz, /livez, /readyz, /metrics, /metrics/slis, /configz.

`stowplan run` starts it before anything else, so that a pod that waits for its lease is alive but
says why it is not ready. Checks are plain callables: None for healthy, else the reason. `start`
serves plain HTTP to every client that can connect; `https` serves the same site to those with
rights.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qs, unquote

from stowplan.http.messages import JSON, TEXT, Limits, PeerCertificate, Request, Response
from stowplan.http.parser import RequestHead
from stowplan.http.server import HttpServer
from stowplan.logs import V2, get_logger, kv
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.health_slis import Check, HealthSlis
from stowplan.server.listen import open_port

if TYPE_CHECKING:
    from stowplan.server.metrics import Exposition

log = get_logger(__name__)

#: The values of a query by name; a name alone has one empty value.
Query: TypeAlias = Mapping[str, list[str]]
Route: TypeAlias = Callable[[Request], Response | Awaitable[Response]]

_SNIFF: Final = "X-Content-Type-Options"
#: Probes and scrapers are few, and send no bodies worth reading.
LIMITS: Final = Limits(
    max_body=64 * 1024, request_timeout_s=30.0, idle_timeout_s=75.0, max_connections=256
)
#: Responses under way when the server stops have this long to arrive.
LINGER_S: Final = 1.0


def _ping() -> str | None:
    return None


class Site:
    """Responses by path, made at once from memory; routes may be added at any time."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        #: What changes something or takes long, for every method. Only `https_site` serves it.
        self.restricted: dict[str, Route] = {}

    def refuse(self, head: RequestHead, certificate: PeerCertificate | None) -> Response | None:
        if unquote(head.path) not in self.routes:
            return self.error(HTTPStatus.NOT_FOUND)
        if head.method not in ("GET", "HEAD"):
            refusal = self.error(HTTPStatus.METHOD_NOT_ALLOWED)
            refusal.headers["Allow"] = "GET,HEAD"
            return refusal
        return None

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        return self.routes[unquote(request.head.path)](request)

    def error(self, status: HTTPStatus, problem: str = "") -> Response:
        text = f"{status.value} {status.phrase}"
        if status is HTTPStatus.NOT_FOUND:
            text = "404 page not found\n"
        return Response(text.encode(), status.value, TEXT, {_SNIFF: "nosniff"})

    def refused(self, status: int) -> None:
        """Do not count refused requests."""


def query_of(request: Request) -> Query:
    return parse_qs(request.head.query, keep_blank_values=True)


class HealthServer:
    """Serves until `stop()`. `healthz` and `readyz` are checks by name; without any, and always
    for /livez, a response is proof enough.
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
        self.site = Site()
        self.slis = HealthSlis()
        self._server = HttpServer(self.site, LIMITS)
        for name, checks in (("healthz", healthz), ("livez", None), ("readyz", readyz)):
            self._add_health(name, checks or {"ping": _ping})
        self.site.routes["/metrics"] = self._serve_metrics
        self.site.routes["/metrics/slis"] = lambda _: Response(
            self.slis.text(), 200, "text/plain; version=0.0.4; charset=utf-8"
        )
        if configz is not None:
            self.site.routes["/configz"] = self._serve_configz
        self.site.routes["/"] = lambda _: index(self.site.routes)
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int, *, flag: str = "--port") -> None:
        """Listen; port 0 takes any free one. ConfigError if that is not possible."""
        loop = asyncio.get_running_loop()
        listening = open_port(host, port, flag=flag)
        server = await self._server.listen(lambda make: loop.create_server(make, sock=listening))
        self.host, self.port = host, server.sockets[0].getsockname()[1]
        log.info("Serving health and metrics", extra=kv(url=self.url))

    async def stop(self) -> None:
        await self._server.stop(LINGER_S)

    @property
    def url(self) -> str:
        return f"http://{shown_address(self.host)}:{self.port}"

    def _add_health(self, name: str, checks: Mapping[str, Check]) -> None:
        observed = {each: self.slis.observed(name, each, checks[each]) for each in checks}
        self.site.routes[f"/{name}"] = _health_route(name, observed)
        for check_name, check in observed.items():
            self.site.routes[f"/{name}/{check_name}"] = _check_route(check)

    def _serve_metrics(self, _: Request) -> Response:
        shown = self._exposition
        if shown is None:
            # Loaded with the first scrape, so that it does not delay the start.
            from stowplan.server.metrics import Exposition

            shown = self._exposition = Exposition(self._metrics)
        return Response(shown.text(), 200, shown.content_type)

    def _serve_configz(self, _: Request) -> Response:
        assert self._configz is not None
        # Upstream's key; tools that read /configz of components look for it.
        text = json.dumps({"componentconfig": self._configz()})
        return Response(text.encode(), 200, JSON)


def index(paths: Iterable[str]) -> Response:
    """The page that lists all others."""
    text = json.dumps({"paths": sorted({*paths} - {"/"})}, indent=2) + "\n"
    return Response(text.encode(), 200, JSON)


def shown_address(host: str) -> str:
    """A host as a URL has it."""
    return f"[{host}]" if ":" in host else host


def _health_route(name: str, checks: Mapping[str, Check]) -> Route:
    def answer(request: Request) -> Response:
        query = query_of(request)
        excluded = set(query.get("exclude", ()))
        lines: list[str] = []
        failed: list[str] = []
        for check_name, check in checks.items():
            if check_name in excluded:
                lines.append(f"[+]{check_name} excluded: ok")
                continue
            reason = check()
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
            problems = "\n".join(line for line in lines if line.startswith("[-]"))
            log.log(V2, "%s check failed: %s\n%s", ",".join(failed), name, problems)
            return _text(500, "\n".join([*lines, f"{name} check failed", ""]))
        if "verbose" in query:
            return _text(200, "\n".join([*lines, f"{name} check passed", ""]))
        return _text(200, "ok")

    return answer


def _check_route(check: Check) -> Route:
    def answer(_: Request) -> Response:
        reason = check()
        return (
            _text(200, "ok") if reason is None else _text(500, f"internal server error: {reason}\n")
        )

    return answer


def _text(status: int, text: str) -> Response:
    headers = {"Cache-Control": "no-cache, private", _SNIFF: "nosniff"}
    return Response(text.encode(), status, TEXT, headers)
