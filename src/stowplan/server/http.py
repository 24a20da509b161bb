"""The process's own HTTP face: /healthz, /livez, /readyz, /metrics, /configz.

`stowplan run` starts it before anything else, so that a pod that waits for its lease is alive but
says why it is not ready. Checks are plain callables: None for well, else the reason.
Plain HTTP; it tells nothing secret, and binds to whatever address its flag says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from stowplan.logs import get_logger, kv
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.server.listen import cannot_listen
from stowplan.server.plain_http import PlainServer, Query, Response, Route

if TYPE_CHECKING:
    from stowplan.server.metrics import Exposition

log = get_logger(__name__)

Check: TypeAlias = Callable[[], str | None]

# kube-scheduler's old port for plain HTTP; 10259 is its TLS port.
DEFAULT_PORT: Final = 10251
_JSON: Final = "application/json; charset=utf-8"


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
        self._plain = PlainServer()
        for name, checks in (("healthz", healthz), ("livez", None), ("readyz", readyz)):
            self._add_health(name, checks or {"ping": _ping})
        self._plain.routes["/metrics"] = self._serve_metrics
        if configz is not None:
            self._plain.routes["/configz"] = self._serve_configz
        self._plain.routes["/"] = self._serve_index
        self.host = ""
        self.port = 0

    async def start(self, host: str, port: int, *, flag: str = "--port") -> None:
        """Listen; port 0 takes any free one. ConfigError if that is not possible."""
        try:
            self.port = await self._plain.start(host, port)
        except OSError as error:
            raise cannot_listen(error, host, port, flag=flag) from None
        self.host = host
        log.info("Serving health and metrics", extra=kv(url=self.url))

    async def stop(self) -> None:
        await self._plain.stop()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def _add_health(self, name: str, checks: Mapping[str, Check]) -> None:
        self._plain.routes[f"/{name}"] = _health_route(name, checks)
        for check_name, check in checks.items():
            self._plain.routes[f"/{name}/{check_name}"] = _check_route(check)

    def _serve_metrics(self, _: Query) -> Response:
        shown = self._exposition
        if shown is None:
            # Only now: a scheduler that starts is in a hurry, and its first scrape is not.
            from stowplan.server.metrics import Exposition

            shown = self._exposition = Exposition(self._metrics)
        return Response(shown.text(), content_type=shown.content_type)

    def _serve_configz(self, _: Query) -> Response:
        assert self._configz is not None
        # Upstream's key; tools that read /configz of components look for it.
        text = json.dumps({"componentconfig": self._configz()})
        return Response(text.encode(), content_type=_JSON)

    def _serve_index(self, _: Query) -> Response:
        paths = sorted(path for path in self._plain.routes if path != "/")
        text = json.dumps({"paths": paths}, indent=2) + "\n"
        return Response(text.encode(), content_type=_JSON)


def _health_route(name: str, checks: Mapping[str, Check]) -> Route:
    def answer(query: Query) -> Response:
        excluded = set(query.get("exclude", ()))
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
        if "verbose" in query:
            return _text(200, "\n".join([*lines, f"{name} check passed", ""]))
        return _text(200, "ok")

    return answer


def _check_route(check: Check) -> Route:
    def answer(_: Query) -> Response:
        reason = _run(check)
        return (
            _text(200, "ok") if reason is None else _text(500, f"internal server error: {reason}\n")
        )

    return answer


def _run(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:
        # A check that breaks must not look healthy, nor take the server down.
        log.exception("Health check raised")
        return f"{type(error).__name__}: {error}"


def _text(status: int, text: str) -> Response:
    return Response(text.encode(), status, headers={"Cache-Control": "no-cache, private"})
