"""Servers of ours, fed bytes by a connection without a socket.

A site must answer every byte stream without an internal error (500), with heads that our own
parser accepts, and equally however the bytes are cut.
"""

from __future__ import annotations

import asyncio
import atexit
import copy
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.console.site import ConsoleSite
from stowplan.console.try_cluster import TryCluster
from stowplan.extender.algorithms.plugins import Plugins
from stowplan.extender.mutation import Mutator
from stowplan.extender.service import Service
from stowplan.http.messages import Limits, Site
from stowplan.http.parser import END_OF_HEAD, parse_request, parse_response
from stowplan.http.server import HttpServer
from stowplan.http.server_connection import ServerConnection
from stowplan.judge.configuration import default_registry
from stowplan.scheduler.ledger import Ledger
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.process import SchedulerProcess
from stowplan.server.access_metrics import AccessMetrics
from stowplan.server.authentication import Authenticator
from stowplan.server.authorization import Authorizer, OpenPaths
from stowplan.server.client_cas import ClientCas
from stowplan.server.decide_api import add_decide
from stowplan.server.explain_api import add_explain
from stowplan.server.health import HealthServer
from stowplan.server.https_site import HttpsSite
from stowplan.server.serving_options import ServingOptions
from stowplan.server.v1 import V1
from stowplan.server.zpages import add_zpages
from stowplan.testing import node, pod
from tests.console_stage import Stage
from tests.unit.judge.live_engine import live_engine

LIMITS = Limits(max_body=64 * 1024, request_timeout_s=30.0)
_CONTAINERS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
OBJECTS: list[dict[str, Any]] = [
    *(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"zone": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        for name in ("n1", "n2")
    ),
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"containers": _CONTAINERS, "nodeSelector": {"zone": "none"}},
    },
]


@cache
def loop() -> asyncio.AbstractEventLoop:
    """One for all inputs."""
    made = asyncio.new_event_loop()
    atexit.register(_close, made)
    return made


def _close(made: asyncio.AbstractEventLoop) -> None:
    """End the tasks of servers, which look for slow clients."""
    tasks = asyncio.all_tasks(made)
    for task in tasks:
        task.cancel()
    if tasks:
        made.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    made.close()


class Wire(asyncio.Transport):
    """Remembers what was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self._is_closing = False

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """All bytes come at once anyway."""

    def resume_reading(self) -> None:
        """The same."""

    def get_write_buffer_size(self) -> int:
        return 0


async def exchange(server: HttpServer, *pieces: bytes) -> list[bytes]:
    """What a client gets that sends these pieces and then closes."""
    connection, wire = ServerConnection(server), Wire()
    connection.connection_made(wire)
    for piece in pieces:
        if not piece or wire.is_closing():
            continue
        view = connection.get_buffer(len(piece))
        count = min(len(piece), len(view))
        view[:count] = piece[:count]
        connection.buffer_updated(count)
    while connection._task is not None:
        await connection._task
    if not wire.is_closing():
        connection.eof_received()
    connection.connection_lost(None)
    return wire.sent


def served(make: Callable[[], Site]) -> Callable[[bytes], object]:
    """A reader that is a server; it is made with the first input."""

    @cache
    def server() -> HttpServer:
        return HttpServer(make(), LIMITS)

    async def both(server: HttpServer, data: bytes) -> tuple[list[bytes], list[bytes]]:
        half = len(data) // 2
        return await exchange(server, data), await exchange(server, data[:half], data[half:])

    def read(data: bytes) -> None:
        at_once, in_pieces = map(statuses, loop().run_until_complete(both(server(), data)))
        assert at_once == in_pieces, f"at once {at_once}, in two pieces {in_pieces}"

    return read


def statuses(sent: list[bytes]) -> list[int]:
    """The statuses of responses that must be proper HTTP, and none of them an internal error."""
    found = []
    for each in sent:
        if each.startswith(b"HTTP/1.1 ") and not each.startswith(b"HTTP/1.1 100 "):
            parsed = parse_response(each)
            assert parsed is not None, each[:300]
            assert parsed[0].status != 500, each[:600]
            found.append(parsed[0].status)
    return found


class _Reviews:
    """An API server that knows every token and allows everything."""

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        user = {"username": "u", "groups": ["g"]}
        status = {"authenticated": True, "user": user, "allowed": True}
        return msgspec.json.encode({"status": status})

    async def close(self) -> None:
        """Nothing is open."""


def scheduler_site() -> Site:
    """The HTTPS port of a scheduler that schedules: health, metrics, zpages and /v1."""
    client = ApiClient(ClusterConfig(server="http://127.0.0.1:1"), transport=_Reviews())  # type: ignore[arg-type]  # a stand-in for requests alone
    engine = live_engine(OBJECTS)
    engine.ledger = Ledger(engine.clock, 1 << 20)
    process = SchedulerProcess(engine, client)
    for informer in process.informers.values():
        informer.synced.set()
    process.scheduling.set()
    while engine.attempt() is not None:
        pass
    server = HealthServer(SchedulerMetrics(), configz=dict)
    site = server.site
    add_zpages(site, {"v": "2"}, profiling=False)
    v1 = V1(site)
    add_decide(v1, process, default_registry())
    add_explain(v1, process)
    options, access = ServingOptions(authentication_skip_lookup=True), AccessMetrics()
    open_paths = OpenPaths(("/healthz", "/livez"))
    return HttpsSite(
        site,
        Authenticator(ClientCas(options), client, access, token_ttl_s=10.0),
        Authorizer(client, open_paths, access, allowed_ttl_s=10.0, denied_ttl_s=10.0),
        open_paths,
        access,
    )


def extender_site() -> Site:
    algorithm = Plugins(plugins=["NodeResourcesFit", "NodeAffinity", "TaintToleration"])
    service = Service(algorithm, algorithm_timeout_s=60.0)
    service.add_route("POST", "/mutate", Mutator(None).handle)
    return service


def console_site() -> Site:
    """The console of a demo, whose page Try may change a cluster."""
    stage = Stage()
    stage.add_nodes([node("n1", cpu=4)])
    stage.add_pods([pod("web", cpu=9)])
    site: ConsoleSite = stage.console._site
    site.writes["try"] = _try_anew
    return site


async def _try_anew(rest: list[str], body: bytes) -> Any:
    return await TryCluster(EmbeddedCluster(history_size=100), dict).write(rest, body)


def embedded_api(data: bytes) -> None:
    """A request to a fresh embedded API server that has a node and a pod."""
    head, _, body = data.partition(END_OF_HEAD)
    asked = parse_request(head)
    target = parse_path(asked.path)
    if target is None:
        return
    headers = asked.headers
    request = ApiRequest(
        asked.method,
        target,
        dict(parse_qsl(asked.query, keep_blank_values=True)),
        body,
        headers.get("content-type"),
        headers.get("accept"),
        headers.get("user-agent"),
    )
    cluster = EmbeddedCluster(history_size=100)
    for obj in OBJECTS[1:]:
        namespace = obj["metadata"].get("namespace", "")
        plural = f"{obj['kind'].lower()}s"
        cluster.create("", "v1", plural, copy.deepcopy(obj), namespace=namespace)
    if request.is_watch:
        loop().run_until_complete(_watched(cluster, request))
    else:
        cluster.rest.answer(request)


async def _watched(cluster: EmbeddedCluster, request: ApiRequest) -> None:
    """Open the stream; what it sends are objects of the store."""
    cluster.rest.watch(request).close()
