"""What other programs answer, fed to the code that asked them: API server, etcd, plugins.

The API server's lists and watches go the whole way: pages or lines, objects, an informer, the
handlers of a scheduler, a decision. Everything that an input brought is taken away afterwards, so
that inputs do not depend on each other.
"""

from __future__ import annotations

import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import Any, cast

import msgspec

from stowplan.api.client import ApiClient
from stowplan.api.decoding import decode_answer
from stowplan.api.exec_credentials import _read_answer
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig, ExecConfig
from stowplan.api.lease import _decode_lease
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.api.status_errors import error_from_response, error_from_status
from stowplan.api.transport import Params, Requests
from stowplan.audit.etcd import Etcd, Revision
from stowplan.audit.history import audit_history
from stowplan.errors import StowplanError
from stowplan.http.parser import ChunkedDecoder, ProtocolError, parse_request, parse_response
from stowplan.http.response_body import ResponseBody
from stowplan.scheduler.barrier import _decode_version
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.server.authentication import _user
from stowplan.server.authorization import _decision
from stowplan.sim.virtual.time_loop import TimeLoop
from tests.fuzzing.sites import OBJECTS
from tests.unit.judge.live_engine import live_engine

_EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
_KIND = re.compile(rb'"kind":\s*"(\w+?)(?:List)?"')
#: Decisions about what one input brought.
_MOST_ATTEMPTS = 20


class _Enough(Exception):
    """The input was read to its end."""


class _ApiServer:
    """Answers the first request with a list, the first watch with a stream, and ends there."""

    def __init__(self, listed: bytes, watched: bytes) -> None:
        self._lists = [listed]
        self._streams = [watched]

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        if not self._lists:
            raise _Enough
        return self._lists.pop()

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params, inactivity_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if not self._streams:
            raise _Enough
        data = self._streams.pop()

        async def chunks() -> AsyncIterator[bytes]:
            half = len(data) // 2
            yield data[:half]
            yield data[half:]

        yield chunks()

    async def close(self) -> None:
        """Nothing is open."""


@cache
def _loop() -> TimeLoop:
    """Pauses between attempts take no time on it."""
    return TimeLoop()


@cache
def _engine() -> tuple[Engine, dict[str, Resource[Any]]]:
    engine = live_engine(OBJECTS)
    resources: list[Resource[Any]] = [PODS, NODES, *engine.looked_up()]
    return engine, {each.kind: each for each in resources}


def listed(data: bytes) -> None:
    _follow(data, _ApiServer(data, b""))


def watched(data: bytes) -> None:
    _follow(data, _ApiServer(_EMPTY, data))


def _follow(data: bytes, server: _ApiServer) -> None:
    engine, resources = _engine()
    named = _KIND.search(data)
    resource = resources.get(named[1].decode() if named else "", PODS)
    handlers = EventHandlers(engine)
    on_add, on_update, on_delete = _handlers(handlers, resource)

    async def run() -> dict[str, Any]:
        client = ApiClient(ClusterConfig(server="in-process:"), transport=cast(Requests, server))
        informer: Informer[Any] = Informer(
            client,
            resource,
            on_add=on_add,
            on_update=on_update,
            on_delete=on_delete,
            clock=_loop().clock,
        )
        try:
            await informer.run()
        except _Enough:
            pass
        return informer.store

    store = _loop().run_until_complete(run())
    for _ in range(_MOST_ATTEMPTS):
        outcome = engine.attempt()
        if outcome is None:
            break
    for obj in store.values():
        on_delete(obj)


def _handlers(handlers: EventHandlers, resource: Resource[Any]) -> tuple[Callable[..., None], ...]:
    if resource is PODS:
        return handlers.add_pod, handlers.update_pod, handlers.delete_pod
    if resource is NODES:
        return handlers.add_node, handlers.update_node, handlers.delete_node
    return (
        lambda obj: handlers.set_object(resource, obj),
        lambda old, new: handlers.set_object(resource, new),
        lambda obj: handlers.delete_object(resource, obj),
    )


def single(data: bytes) -> None:
    """Bodies of single responses: leases, reviews, versions and refusals."""
    for decode in (_decode_lease, _decode_version):
        _try(lambda data: decode_answer(decode, data, request="GET /", kind="one"), data)  # noqa: B023 - called at once
    _try(_user, data)
    _try(_decision, data)
    error_from_status(data, request="GET /")
    text, _, body = data.partition(b"\n")
    after = text.decode("latin-1")
    for code in (409, 429, 500):
        error_from_response(code, body, request="GET /", retry_after=after)


def _try(read: Callable[[bytes], object], data: bytes) -> None:
    try:
        read(data)
    except StowplanError:
        pass


def response(data: bytes) -> None:
    """A response with its body, packed or not, in two pieces."""
    found = parse_response(data)
    if found is None:
        return
    head, start = found
    body, rest = ResponseBody(head, unpacks=True), data[start:]
    half = len(rest) // 2
    for piece in (rest[:half], rest[half:]):
        body.feed(piece)
        while body.has_more:
            body.more()


def http(data: bytes) -> None:
    for read in (parse_request, response, ChunkedDecoder().feed):
        try:
            read(data)
        except ProtocolError:
            pass


def history_of_objects() -> list[Revision]:
    """A history in which the pod of the kept audit logs is bound."""
    bound = {"metadata": {"uid": "u"}, "spec": {"nodeName": "n1"}}
    return [
        Revision(number, "Pod", "default", "web", msgspec.Raw(msgspec.json.encode(each)))
        for number, each in enumerate([{"metadata": {"uid": "u"}}, bound], start=1)
    ]


class _Etcd(Etcd):
    """Gets each answer from a part of the input; parts end with an empty line."""

    def __init__(self, data: bytes) -> None:
        super().__init__("http://127.0.0.1:1")
        self._parts = iter(data.split(b"\n\n"))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return io.BytesIO(next(self._parts, b""))


def etcd(data: bytes) -> None:
    audit_history(_Etcd(data).history())


_PLUGINS = [
    ExecConfig("plugin", api_version=f"client.authentication.k8s.io/{each}")
    for each in ("v1", "v1beta1")
]


def exec_plugin(data: bytes) -> None:
    for plugin in _PLUGINS:
        _try(partial(_read_answer, plugin), data)
