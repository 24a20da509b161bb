"""The metrics page: whatever path is asked for, the counters are the answer.

Plain HTTP. It shows names of pods and nodes and takes nothing in.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from stowplan.server.listen import cannot_listen
from stowplan.static.counters import BindCounters
from stowplan.static.lines import log

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SHUTDOWN_S: Final = 1.0


class Exporter:
    """Serves from `start` to `stop`."""

    def __init__(self, counters: BindCounters) -> None:
        self._counters = counters
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int, *, where: str) -> int:
        """The port; 0 takes any that is free. ConfigError, which names `where`, if it is taken."""
        runner = web.ServerRunner(
            web.Server(self._answer, access_log=None), shutdown_timeout=_SHUTDOWN_S
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as problem:
            await runner.cleanup()
            raise cannot_listen(problem, host, port, flag=where) from None
        self._runner = runner
        bound: int = runner.addresses[0][1]
        log.debug("Starting prometheus exporter on %s", bound)
        return bound

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        return web.Response(body=self._counters.text(), headers={"Content-Type": _CONTENT_TYPE})
