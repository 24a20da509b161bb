"""The console as a server: a mirror, the pages, and a clock that tells clients what changed.

`cli.console` runs it beside informers of its own, `server.serving` beside a scheduler. Without
`Access` it serves plain HTTP, and the socket must listen on loopback.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.clock import Clock, SystemClock
from stowplan.console.columns import NodeColumns, node_details
from stowplan.console.decision import explain_pod, recorded_attempt
from stowplan.console.events import EventHub
from stowplan.console.fixes import FixSearch
from stowplan.console.flow import FlowRecorder
from stowplan.console.history import NodeHistory
from stowplan.console.hosts import is_named
from stowplan.console.mirror import ClusterMirror
from stowplan.console.pending import waiting_pods
from stowplan.console.shadow import ShadowView
from stowplan.console.sign_in import SignInSite, TokenCheck
from stowplan.console.site import PREFIX, ConsoleSite, Query
from stowplan.console.try_cluster import MOST_BYTES, TryCluster
from stowplan.errors import ServerError
from stowplan.http.messages import Limits
from stowplan.http.server import HttpServer
from stowplan.http.server_tls import ServerTls
from stowplan.http.tls_listener import TlsListener
from stowplan.loader.numbers import whole_number
from stowplan.logs import get_logger
from stowplan.scheduler.engine import Engine

log = get_logger(__name__)

PORT: Final = 10270
_LIMITS: Final = Limits(
    max_body=32 * 1024, request_timeout_s=30.0, idle_timeout_s=75.0, max_connections=128
)
_TICK_S: Final = 1.0
_HEARTBEAT_TICKS: Final = 10
_LINGER_S: Final = 0.5
_MOST_FOUND: Final = 30
#: Seconds without changes of the queue for pages after a listing, for every pod listed: the
#: scheduler works in the same thread. About 20 times what the listing takes.
_QUIET_S: Final = 60e-6


@dataclass(frozen=True, slots=True)
class Access:
    """What a console needs that others can reach: TLS, and a check of tokens."""

    tls: ServerTls
    check: TokenCheck
    #: The names that the certificate is for.
    names: Callable[[], Collection[str]]


class Console:
    """Serves until `stop`."""

    def __init__(
        self,
        mirror: ClusterMirror,
        engine: Engine | None = None,
        clock: Clock | None = None,
        *,
        embedded: EmbeddedCluster | None = None,
        shadow: ShadowView | None = None,
    ) -> None:
        """With an `engine`, its queue and metrics are shown too.

        With an `embedded` cluster, the mirrored one, the page Try changes it. With a `shadow` there
        is a page about it.
        """
        boot = uuid4().hex[:12]
        self._mirror = mirror
        self._engine = engine
        self._columns = NodeColumns(mirror.table, boot)
        self._history = NodeHistory(self._columns)
        self._hub = EventHub(boot)
        self._clock = clock = clock or SystemClock()
        self.flow = FlowRecorder(mirror, engine, clock)
        self._fixes = FixSearch(mirror, clock, has_scheduler=engine is not None)
        #: Why the scheduler of this process does not schedule, as a standby; "" if it does.
        self.why_idle: Callable[[], str] = lambda: ""
        self._queue_seen: object = None
        self._listing: asyncio.Task[dict[str, Any]] | None = None
        #: Clients get no changes of the queue before this time.
        self._queue_quiet_until = 0.0
        self._site = site = ConsoleSite()
        site.events = self._hub.stream
        site.resources = {
            "cluster": self._cluster,
            "nodes": self._node,
            "queue": self.queue,
            "pods": self._pods,
            "flow": self._flow,
            "about": lambda rest, query: {
                "tries": embedded is not None,
                "shadows": shadow is not None,
                "standby": self.why_idle(),
            },
            "session": lambda rest, query: None if rest else {"user": ""},
        }
        self._shadow = shadow
        self._shadow_seen = 0
        if shadow is not None:
            site.resources["shadow"] = lambda rest, query: None if rest else shadow.view()
        self._limits = _LIMITS
        if embedded is not None:
            self._limits = replace(_LIMITS, max_body=MOST_BYTES)
            trying = TryCluster(embedded, mirror.config.written)
            site.resources["try"] = trying.read
            site.writes["try"] = trying.write
        self._server: HttpServer | None = None
        self._listener: TlsListener | None = None
        self._ticking: asyncio.Task[None] | None = None
        self.url = ""

    async def start(self, listening: socket.socket, access: Access | None = None) -> None:
        """Serve on a socket; without `access` it must listen on loopback."""
        loop = asyncio.get_running_loop()
        host, port, *_ = listening.getsockname()
        if host in ("0.0.0.0", "::"):  # noqa: S104 - the user's choice
            host = socket.gethostname()
        scheme = "http" if access is None else "https"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PREFIX}"
        if access is None:
            self._server = HttpServer(self._site, self._limits)
            await self._server.listen(lambda make: loop.create_server(make, sock=listening))
        else:
            names = access.names
            self._site.schemes = ("https",)
            self._site.is_own_host = lambda host: is_named(host, names())
            self._site.host_advice = (
                "the Host header must be an address or a name of the certificate"
            )
            guarded = SignInSite(self._site, access.check, self._clock)
            self._server = HttpServer(guarded, self._limits)
            self._listener = TlsListener(self._server, access.tls, listening)
        self._ticking = asyncio.create_task(self._tick(), name="console")

    async def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._hub.close()
        if self._listener is not None:
            self._listener.close()
        if self._server is not None:
            await self._server.stop(_LINGER_S)

    # Resources

    def _cluster(self, rest: list[str], query: Query) -> Any:
        if rest == ["past"]:
            ago = whole_number(query.get("ago", ["0"])[0])
            self._columns.refresh()
            return None if ago is None else self._history.at(self._clock.time() - ago)
        if rest:
            return None
        shown = self._columns.snapshot(query.get("group", [""])[0])
        return {**shown, "synced": self._mirror.is_synced()}

    def _node(self, rest: list[str], query: Query) -> Any:
        return node_details(self._mirror.table, rest[0]) if len(rest) == 1 else None

    def queue(self, rest: list[str], query: Query) -> Any:
        if rest:
            return None
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._list_queue(), name="queue")
        # Clients share a listing, and one that leaves does not end it.
        return asyncio.shield(self._listing)

    async def _list_queue(self) -> dict[str, Any]:
        seen = self._queue_version()
        standby = self.why_idle()
        # The queue of a standby holds what was listed, as if no pod had been tried.
        shown = await waiting_pods(self._mirror, None if standby else self._engine)
        listed = sum(each["pods"] for each in shown["states"])
        self._queue_quiet_until = self._clock.monotonic() + listed * _QUIET_S
        self._queue_seen = seen  # what came meanwhile is published again
        return {**shown, "standby": standby}

    def _flow(self, rest: list[str], query: Query) -> Any:
        if rest:
            return None
        view, standby = self.flow.view(), self.why_idle()
        return {**view, "live": view["live"] and not standby, "standby": standby}

    def _pods(self, rest: list[str], query: Query) -> Any:
        match rest:
            case []:
                return self._search(query.get("q", [""])[0])
            case [namespace, name]:
                thing = self._mirror.find_pod(namespace, name)
                return thing and {
                    **explain_pod(self._mirror, self._engine, thing),
                    "standby": self.why_idle(),
                }
            case [namespace, name, "fixes"]:
                thing = self._mirror.find_pod(namespace, name)
                return thing and self._fixes.find(thing)
            case [namespace, name, "attempts", number] if number.isdecimal() and len(number) < 10:
                if standby := self.why_idle():
                    raise ServerError(standby, status=HTTPStatus.SERVICE_UNAVAILABLE)
                return recorded_attempt(self._engine, f"{namespace}/{name}", int(number))
        return None

    async def _search(self, text: str) -> list[dict[str, Any]]:
        found = await self._mirror.search_pods(text, _MOST_FOUND)
        return [
            {"pod": pod.key, "node": pod.spec.node_name, "phase": pod.status.phase} for pod in found
        ]

    # Time

    async def _tick(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_S)
            ticks += 1
            try:
                self._publish(self.flow.sample(), ticks)
                self._history.record(self._clock.time())
            except Exception as error:  # a defect of the console must not end a scheduler
                log.error("The console could not be updated", exc_info=error)

    def _publish(self, sample: dict[str, Any], ticks: int) -> None:
        has_changed = self._columns.refresh()
        if not len(self._hub):
            return
        if has_changed:
            self._hub.publish("layout", {"layout": self._columns.layout})
        elif (changes := self._columns.changes()) is not None:
            self._hub.publish("nodes", changes)
        is_quiet = self._clock.monotonic() < self._queue_quiet_until
        if not is_quiet and (seen := self._queue_version()) != self._queue_seen:
            self._queue_seen = seen
            self._hub.publish("queue", {})
        if self._shadow is not None and self._shadow.version != self._shadow_seen:
            self._shadow_seen = self._shadow.version
            self._hub.publish("shadow", {})
        more = {"plugins": self.flow.plugins(), "standby": self.why_idle()}
        self._hub.publish("flow", {**sample, **more})
        if not ticks % _HEARTBEAT_TICKS:
            self._hub.heartbeat()

    def _queue_version(self) -> object:
        counts = self._engine.queue.counts if self._engine is not None else None
        return self._mirror.pending_version, counts, self.why_idle()
