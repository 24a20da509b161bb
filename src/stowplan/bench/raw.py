"""Requests as fast as the API server takes them: the `raw` contestant, and what creates its pods.

Run by the benchmark as ``python -m stowplan.bench.raw``: it binds every pod it finds to the next
node in turn, and nothing else, so its rate is the limit of the machine. What must stay true:
nothing here costs more than a scheduler's own client could. That is why HTTP is spoken by hand;
aiohttp takes twice the CPU time a request, and on a machine where the API server wants every core
that would be a lower limit than the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

import uvloop

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS
from stowplan.api.tls import build_context

CONNECTIONS = 64
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class SendError(Exception):
    """The API server refused a request, or the connection broke."""


class Sender:
    """Keeps all its connections busy with POSTs; use as an async context manager.

    Requests are taken from the iterators given to `submit` at the moment they are sent, so that
    an iterator can note the time.
    """

    def __init__(self, config: ClusterConfig, connections: int = CONNECTIONS) -> None:
        parts = urlsplit(config.server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._head = (
            f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {config.token}\r\n"
            "User-Agent: stowplan-bench\r\nAccept: application/json\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._tls = build_context(config) if parts.scheme == "https" else None
        self._size = connections
        self._connections: list[_Connection] = []
        self._idle: list[_Connection] = []
        self._sources: deque[Iterator[bytes]] = deque()
        self._failure: SendError | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for _ in range(self._size):
            _, connection = await loop.create_connection(
                lambda: _Connection(self), self._host, self._port, ssl=self._tls
            )
            self._connections.append(connection)
        self._idle = list(self._connections)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for connection in self._connections:
            connection.close()

    def request(self, path: str, body: Mapping[str, Any]) -> bytes:
        """A POST as it goes over the wire."""
        content = json.dumps(body, separators=(",", ":"))
        return f"POST {path}{self._head}{len(content)}\r\n\r\n{content}".encode()

    def submit(self, requests: Iterable[bytes]) -> None:
        """Send these after all that were submitted before."""
        self._sources.append(iter(requests))
        idle, self._idle = self._idle, []
        for connection in idle:
            self.answered(connection)

    async def drain(self) -> None:
        """Wait until everything is answered; raises SendError if a request failed."""
        while self._failure is None and (self._sources or len(self._idle) < self._size):
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    # The connections call these.

    def answered(self, connection: _Connection) -> None:
        """A connection is free again."""
        while self._sources and self._failure is None:
            request = next(self._sources[0], None)
            if request is not None:
                connection.send(request)
                return
            self._sources.popleft()
        self._idle.append(connection)
        self._changed.set()

    def failed(self, problem: str) -> None:
        self._failure = self._failure or SendError(problem)
        self._changed.set()


class _Connection(asyncio.Protocol):
    """HTTP/1.1, one request at a time, as much of it as kube-apiserver's answers need."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closing:
            self._sender.failed(f"the API server closed a connection: {error}")

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._transport.write(request)

    def close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(_END_OF_HEAD)
        if end < 0:
            return
        head = received[: end + 2].lower()
        at = head.find(_LENGTH)
        if at >= 0:
            length = int(head[at + len(_LENGTH) : head.index(b"\r\n", at + 2)])
            is_complete = len(received) >= end + len(_END_OF_HEAD) + length
        else:
            is_complete = received.endswith(_LAST_CHUNK)
        if not is_complete:
            return
        self._received = b""
        if received[9:10] != b"2":
            self._sender.failed(received.decode(errors="replace"))
            return
        self._sender.answered(self)


# -- the contestant -------------------------------------------------------------------------------


def binding(pod: Pod, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
        | {"uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }


def scheduled_event(pod: Pod, node: str) -> dict[str, Any]:
    """What a scheduler writes for every pod it has bound."""
    name, namespace = pod.metadata.name, pod.metadata.namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": namespace},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "raw",
        "reportingInstance": "raw",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned {pod.key} to {node}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace}
        | {"uid": pod.uid},
    }


async def bind_everything(kubeconfig: str, *, pods: int, with_events: bool) -> None:
    """Bind that many pods as they come, then stay until killed: the figures are read from outside.

    An event follows its bind at once, in the same queue, so that binds and events keep in step.
    """
    config = load_cluster_config(kubeconfig=kubeconfig)
    async with ApiClient(config) as client, Sender(config) as sender:
        nodes = [node.metadata.name for node in (await client.list_all(NODES)).items]
        seen = 0
        have_all = asyncio.Event()

        def requests(pod: Pod, node: str) -> Iterator[bytes]:
            name, space = pod.metadata.name, f"namespaces/{pod.metadata.namespace}"
            yield sender.request(f"/api/v1/{space}/pods/{name}/binding", binding(pod, node))
            if with_events:
                event = scheduled_event(pod, node)
                yield sender.request(f"/apis/events.k8s.io/v1/{space}/events", event)

        def bind(pod: Pod) -> None:
            nonlocal seen
            sender.submit(requests(pod, nodes[seen % len(nodes)]))
            seen += 1
            if seen >= pods:
                have_all.set()

        informer: Informer[Pod] = Informer(
            client,
            PODS,
            field_selector="spec.nodeName=",
            on_add=bind,
            on_update=lambda _old, _new: None,
            on_delete=lambda _pod: None,
        )
        following = asyncio.create_task(informer.run())
        await have_all.wait()
        # A scheduler has to watch what becomes of its pods, the limit does not.
        following.cancel()
        await sender.drain()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stowplan.bench.raw")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--events", action="store_true")
    options = parser.parse_args()
    uvloop.run(bind_everything(options.kubeconfig, pods=options.pods, with_events=options.events))


if __name__ == "__main__":
    main()
