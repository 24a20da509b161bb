"""Asks an extender as fast as it answers, on several connections, and takes the time.

Prepared bytes go out, and of answers only the status and the length are looked at, so that the
machine's time is left to those who are measured. A connection asks one question after the other,
the next when the last is answered; one that the server has closed is made anew, which is part of
the time. Called by `extender`; one thread, no event loop.
"""

from __future__ import annotations

import http.client
import re
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_BUFFER: Final = 1024 * 1024
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSES: Final = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
#: Without any answer.
_PATIENCE_S: Final = 120.0
_MOST_ERRORS: Final = 100
_BOTH: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


class LoadError(Exception):
    """The extender cannot be asked."""


@dataclass(frozen=True, slots=True)
class Verb:
    """Bytes to send, and how long a right answer's body is."""

    request: bytes
    answer_bytes: int


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to go on: so many seconds, or longer while there are few answers."""

    seconds: float
    at_least: int = 0
    at_most_s: float = 0.0

    def is_over(self, took_s: float, answers: int) -> bool:
        return took_s >= self.seconds and (answers >= self.at_least or took_s >= self.at_most_s)


@dataclass(slots=True)
class Load:
    """What became of the requests of one measurement."""

    latencies_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    #: From the first request to the last answer.
    seconds: float = 0.0
    #: Of this process, which sent them.
    cpu_s: float = 0.0
    connections_made: int = 0


class _Client:
    """Asks one question after the other."""

    def __init__(self, port: int, verbs: Sequence[Verb], turn: int, buffer: bytearray) -> None:
        self._port = port
        self._verbs = verbs
        self._turn = turn
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._verb = verbs[0]
        self._unsent: memoryview = memoryview(b"")
        self._head = b""
        self._left = -1
        #: Whether the server ends the connection after its answer.
        self.closes = False
        self.sent_at = 0.0
        #: Events that the selector tells of; 0 if it does not know the socket.
        self.waits_for = 0
        self.socket: socket.socket | None = None

    def begin(self) -> bool:
        """The next question; True if a connection was made for it."""
        self._verb = self._verbs[self._turn % len(self._verbs)]
        self._turn += 1
        self._head, self._left, self.closes = b"", -1, False
        self.sent_at = time.perf_counter()
        self._unsent = memoryview(self._verb.request)
        is_new = self.socket is None
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self._port), _PATIENCE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.setblocking(False)
        self.send()
        return is_new

    @property
    def is_sending(self) -> bool:
        return len(self._unsent) > 0

    def send(self) -> bool:
        """Whether all of it is on its way."""
        assert self.socket is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> bool:
        """Whether the answer is complete; LoadError if it is wrong."""
        assert self.socket is not None
        try:
            count = self.socket.recv_into(self._buffer)
        except BlockingIOError:
            return False
        if not count:
            raise LoadError("the connection was closed before the answer")
        if self._left < 0:
            self._head += self._view[:count]
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return False
            count = len(self._head) - end - 4
            self._read_head(self._head[:end])
        self._left -= count
        if self._left < 0:
            raise LoadError("more was answered than was told")
        return self._left == 0

    def _read_head(self, head: bytes) -> None:
        found = _LENGTH.search(head)
        if found is None or not head.startswith(b"HTTP/1.1 200 "):
            raise LoadError(f"answered with {head[:60].decode('latin-1')!r}")
        self._left = int(found[1])
        if self._left != self._verb.answer_bytes:
            expected = self._verb.answer_bytes
            raise LoadError(f"answered with {self._left} bytes instead of {expected}")
        self.closes = _CLOSES.search(head) is not None

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class _Run:
    """One measurement."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._selector = selectors.DefaultSelector()
        self._began = time.perf_counter()
        self._last = self._began
        self._waiting = 0
        self.load = Load()

    def run(self, clients: Sequence[_Client]) -> Load:
        cpu_began = time.process_time()
        try:
            for client in clients:
                self._begin(client)
            while self._waiting:
                ready = self._selector.select(_PATIENCE_S)
                if not ready:
                    raise LoadError(f"no answer within {_PATIENCE_S:.0f} s")
                for key, _ in ready:
                    self._go_on(key.data)
        finally:
            self._selector.close()
            for client in clients:
                client.close()
        self.load.seconds = self._last - self._began
        self.load.cpu_s = time.process_time() - cpu_began
        return self.load

    def _begin(self, client: _Client) -> None:
        try:
            if client.begin():
                self.load.connections_made += 1
        except OSError as error:
            raise LoadError(f"cannot connect: {error}") from None
        assert client.socket is not None
        wanted = _BOTH if client.is_sending else selectors.EVENT_READ
        if not client.waits_for:
            self._selector.register(client.socket, wanted, client)
        elif client.waits_for != wanted:
            self._selector.modify(client.socket, wanted, client)
        client.waits_for = wanted
        self._waiting += 1

    def _go_on(self, client: _Client) -> None:
        assert client.socket is not None
        try:
            if client.is_sending and client.send():
                client.waits_for = selectors.EVENT_READ
                self._selector.modify(client.socket, selectors.EVENT_READ, client)
            if not client.receive():
                return
        except (OSError, LoadError) as error:
            self._note_error(str(error))
            client.closes = True
        else:
            self._last = time.perf_counter()
            self.load.latencies_s.append(self._last - client.sent_at)
        if client.closes:
            self._selector.unregister(client.socket)
            client.waits_for = 0
            client.close()
        self._waiting -= 1
        took_s = time.perf_counter() - self._began
        if not self._effort.is_over(took_s, len(self.load.latencies_s)):
            self._begin(client)

    def _note_error(self, problem: str) -> None:
        self.load.errors.append(problem)
        if len(self.load.errors) >= _MOST_ERRORS:
            raise LoadError(f"{len(self.load.errors)} requests failed; the last: {problem}")


def put_load(port: int, verbs: Sequence[Verb], connections: int, effort: Effort) -> Load:
    """LoadError if it makes no sense to go on."""
    buffer = bytearray(_BUFFER)
    # Each begins elsewhere, so that no two ask the same at a time where there is a choice.
    pairs = len(verbs) // 2
    starts = [2 * (number * pairs // connections) for number in range(connections)]
    clients = [_Client(port, verbs, start, buffer) for start in starts]
    return _Run(effort).run(clients)


def ask_once(port: int, request: bytes) -> bytes:
    """The body of one answer; LoadError if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    try:
        connection.connect()
        connection.sock.sendall(request)
        answer = http.client.HTTPResponse(connection.sock, method="POST")
        answer.begin()
        body = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise LoadError(f"status {answer.status}: {body[:200].decode('latin-1')}")
        return body
    except (OSError, http.client.HTTPException) as error:
        raise LoadError(str(error) or type(error).__name__) from None
    finally:
        connection.close()
