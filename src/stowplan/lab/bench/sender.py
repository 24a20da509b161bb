"""Send requests as fast as the API server takes them, with as little code as possible.

Used by `raw` for its bindings and by `live` for everything a workload writes. It uses callbacks on
the connections of `stowplan.http`, without a task per request, because the machine's CPU time is
left to what is measured. Invariant: a request costs no more here than in a scheduler's own client.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import deque
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.tls import build_context
from stowplan.http.client import ClientConnection
from stowplan.http.connecting import open_connection

T = TypeVar("T")

CONNECTIONS = 64
KEEPALIVE_S = 60.0  # below the API server's own 90 s
JSON = "application/json"


def run_quickly(work: Coroutine[Any, Any, T]) -> T:
    """asyncio.run, with uvloop where it is installed, as Stowplan itself runs."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    """The same, and SIGTERM ends it as Ctrl-C does: in order, by KeyboardInterrupt.

    A handler that raises would do so in whatever is just running, and if that is a connection
    uvloop takes it for that connection's trouble alone.
    """

    async def cancelled_by_signal() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    before = signal.getsignal(signal.SIGTERM)
    try:
        return run_quickly(cancelled_by_signal())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGTERM, before)


class SendError(Exception):
    """The API server refused a request, or the connection broke. `status` is HTTP's, or 0."""

    def __init__(self, problem: str, status: int = 0) -> None:
        super().__init__(problem)
        self.status = status


class Sender:
    """Keeps all its connections busy; use as an async context manager.

    Requests are taken from the iterators given to `submit` and `perform` at the moment they are
    sent, so that an iterator can note the time. `tolerated` are statuses that are no failure of a
    submitted request, such as 404 for deleting what may be gone.
    """

    def __init__(
        self,
        config: ClusterConfig,
        connections: int = CONNECTIONS,
        tolerated: Collection[int] = (),
    ) -> None:
        parts = urlsplit(config.server)
        self._host, self._port = parts.hostname or "", parts.port or 443
        self._head = (
            f" HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {config.token}\r\n"
            f"User-Agent: stowplan-bench\r\nAccept: {JSON}\r\nContent-Type: "
        )
        self._tls = build_context(config) if parts.scheme == "https" else None
        self._size = connections
        self._tolerated = tolerated
        self._connections: set[_Connection] = set()
        self._idle: list[_Connection] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._jobs: deque[_Job] = deque()
        self._sources: deque[Iterator[bytes]] = deque()
        self._failure: SendError | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        for _ in range(self._size):
            await self._open()
        return self

    async def _open(self) -> None:
        connection = _Connection(self)
        try:
            await open_connection(connection, self._host, self._port, tls=self._tls)
        except OSError as problem:
            self.lost(SendError(f"cannot connect to the API server: {problem}"))
            return
        self._connections.add(connection)
        self.proceed(connection)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._opening:
            task.cancel()
        for connection in self._connections:
            connection.close()

    def request(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        method: str = "POST",
        content_type: str = JSON,
    ) -> bytes:
        """A request as it goes over the wire."""
        content = "" if body is None else json.dumps(body, separators=(",", ":"))
        head = f"{method} {path}{self._head}{content_type}\r\nContent-Length: {len(content)}"
        return f"{head}\r\n\r\n{content}".encode()

    def submit(self, requests: Iterable[bytes]) -> None:
        """Send these after all that were submitted before; `drain` tells how they went."""
        self._sources.append(iter(requests))
        self._wake()

    def submit_chain(self, requests: Iterable[bytes]) -> None:
        """Send these one after the other, each when the one before is answered."""
        job = _Job(iter([((request, ()) for request in requests)]))
        job.done.add_done_callback(self._chain_done)
        self._jobs.append(job)
        self._wake()

    def _chain_done(self, done: asyncio.Future[None]) -> None:
        problem = done.exception()
        if isinstance(problem, SendError):
            self.lost(problem)

    async def drain(self) -> None:
        """Wait until everything is answered; raises SendError if a submitted request failed."""
        while self._failure is None and (self._sources or self._is_busy):
            self._changed.clear()
            await self._changed.wait()
        self.check()

    @property
    def _is_busy(self) -> bool:
        return bool(self._opening) or len(self._idle) < len(self._connections)

    def check(self) -> None:
        """Raise SendError if a submitted request failed."""
        if self._failure is not None:
            raise self._failure

    async def perform(self, chains: Iterable[Iterable[tuple[bytes, Collection[int]]]]) -> None:
        """Send chains of requests side by side, those of one chain one after the other.

        Each request comes with the statuses that are no failure. Several calls take turns.
        """
        job = _Job(iter(chains))
        self._jobs.append(job)
        self._wake()
        await job.done

    async def call(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        method: str = "POST",
        content_type: str = JSON,
    ) -> None:
        """Send one request; it does not wait for what is submitted."""
        await self.perform([[(self.request(path, body, method, content_type), ())]])

    # The connections call these.

    def proceed(self, connection: _Connection) -> None:
        """Give a free connection its next request."""
        while self._jobs:
            chain = self._jobs[0].next_chain()
            if chain is None:
                self._jobs.popleft()
                continue
            self._jobs.rotate(-1)
            if chain.proceed(connection):
                return
        while self._sources and self._failure is None:
            request = next(self._sources[0], None)
            if request is not None:
                connection.ask_for(request, self)
                return
            self._sources.popleft()
        connection.rests()
        self._idle.append(connection)
        self._changed.set()

    def gone(self, connection: _Connection) -> None:
        """An idle connection was closed; another is opened when there is something to send."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def succeeded(self, connection: _Connection) -> None:
        self.proceed(connection)

    def refused(self, connection: _Connection, problem: SendError) -> None:
        if problem.status not in self._tolerated:
            self.lost(problem)
        self.proceed(connection)

    def lost(self, problem: SendError) -> None:
        """Fail everything: an answer is lost, so the effect of its request is unknown."""
        self._failure = self._failure or problem
        for job in self._jobs:
            job.fail(problem)
        self._changed.set()

    def _wake(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            if connection.is_stale:
                self._connections.discard(connection)
                connection.close()
            else:
                self.proceed(connection)
        for _ in range(self._size - len(self._connections) - len(self._opening)):
            task = asyncio.get_running_loop().create_task(self._open())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        self._changed.set()


class _Asker(Protocol):
    """The callbacks of a request."""

    def succeeded(self, connection: _Connection) -> None: ...
    def refused(self, connection: _Connection, problem: SendError) -> None: ...
    def lost(self, problem: SendError) -> None: ...


class _Job:
    """One `perform`: chains that are still to come, and how many are under way."""

    def __init__(self, chains: Iterator[Iterable[tuple[bytes, Collection[int]]]]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._chains = chains
        self._under_way = 0
        self._exhausted = False

    def next_chain(self) -> _Chain | None:
        if self.done.done():
            return None
        chain = next(self._chains, None)
        if chain is None:
            self._exhausted = True
            self._settle()
            return None
        self._under_way += 1
        return _Chain(self, iter(chain))

    def chain_ended(self) -> None:
        self._under_way -= 1
        self._settle()

    def fail(self, problem: SendError) -> None:
        if not self.done.done():
            self.done.set_exception(problem)

    def _settle(self) -> None:
        if self._exhausted and self._under_way == 0 and not self.done.done():
            self.done.set_result(None)


class _Chain:
    """Requests of which each waits for the one before."""

    def __init__(self, job: _Job, requests: Iterator[tuple[bytes, Collection[int]]]) -> None:
        self._job = job
        self._requests = requests
        self._tolerated: Collection[int] = ()

    def proceed(self, connection: _Connection) -> bool:
        """Send the next one; False if there is none."""
        following = next(self._requests, None)
        if following is None:
            self._job.chain_ended()
            return False
        request, self._tolerated = following
        connection.ask_for(request, self)
        return True

    def succeeded(self, connection: _Connection) -> None:
        if not self.proceed(connection):
            connection.sender.proceed(connection)

    def refused(self, connection: _Connection, problem: SendError) -> None:
        if problem.status in self._tolerated:
            self.succeeded(connection)
            return
        self.lost(problem)
        connection.sender.proceed(connection)

    def lost(self, problem: SendError) -> None:
        self._job.fail(problem)


class _Connection(ClientConnection):
    """Calls the asker of a request when its response is complete."""

    def __init__(self, sender: Sender) -> None:
        super().__init__(asyncio.get_running_loop())
        self.sender = sender
        #: Waits for an answer; None while the connection is idle.
        self._asker: _Asker | None = None
        self._is_closing = False

    @property
    def is_stale(self) -> bool:
        """True if the API server may be about to close it."""
        return time.monotonic() - self.idle_since > KEEPALIVE_S

    def rests(self) -> None:
        self._asker = None
        self.idle_since = time.monotonic()

    def ask_for(self, request: bytes, asker: _Asker) -> None:
        self._asker = asker
        self.send(request)

    def close(self) -> None:
        self._is_closing = True
        super().close()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._asker is None and not self._is_closing:
            self.sender.gone(self)
        super().connection_lost(problem)

    def on_progress(self) -> None:
        if self._is_closing or self._asker is None:
            return
        if self.failure is not None:
            problem = SendError(f"the API server closed a connection: {self.failure}")
            self._asker.lost(problem)
            self.sender.lost(problem)
        elif self.is_complete and self.head is not None:
            status, content = self.head.status, self.take_unread()
            self.finish()
            if status < 300:
                self._asker.succeeded(self)
            else:
                shown = f"the API server answered {status}: {content.decode(errors='replace')}"
                self._asker.refused(self, SendError(shown, status))
