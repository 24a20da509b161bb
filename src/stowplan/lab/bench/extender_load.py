"""Ask an extender as fast as it answers, on several connections, and measure the time.

Called by `extender` and `http_costs`. Prepared bytes are sent, and of responses only the status and
the length are checked, so that the machine's CPU time is left to what is measured. A connection
asks one question after the other. One that the server has closed is opened again, which is part of
the measured time.
"""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan.http.client import ClientConnection, Disconnected
from stowplan.http.connecting import open_connection
from stowplan.http.parser import ProtocolError
from stowplan.lab.bench.sender import run_quickly

#: Without any response.
_PATIENCE_S: Final = 120.0
_MOST_ERRORS: Final = 100
_HOST: Final = "127.0.0.1"


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
    """The results of the requests of one measurement."""

    latencies_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    #: From the first request to the last answer.
    seconds: float = 0.0
    #: Of this process, which sent them.
    cpu_s: float = 0.0
    connections_made: int = 0


class _Run:
    """One measurement."""

    def __init__(self, port: int, verbs: Sequence[Verb], effort: Effort) -> None:
        self._port = port
        self._verbs = verbs
        self._effort = effort
        self._began = time.perf_counter()
        self._last = self._began
        self.load = Load()

    async def run(self, starts: Sequence[int]) -> Load:
        cpu_began = time.process_time()
        tasks = [asyncio.create_task(self._ask_in_turn(start)) for start in starts]
        pending = set(tasks)
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                if not done and time.perf_counter() - self._last > _PATIENCE_S:
                    raise LoadError(f"no answer within {_PATIENCE_S:.0f} s")
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.load.seconds = self._last - self._began
        self.load.cpu_s = time.process_time() - cpu_began
        return self.load

    async def _ask_in_turn(self, turn: int) -> None:
        connection: ClientConnection | None = None
        latencies = self.load.latencies_s
        try:
            while not self._effort.is_over(time.perf_counter() - self._began, len(latencies)):
                verb = self._verbs[turn % len(self._verbs)]
                turn += 1
                sent_at = time.perf_counter()
                if connection is None:
                    connection = await self._connect()
                try:
                    await _exchange(connection, verb)
                except (OSError, LoadError, Disconnected, ProtocolError) as error:
                    self._note_error(error)
                else:
                    self._last = time.perf_counter()
                    latencies.append(self._last - sent_at)
                if not connection.is_reusable:
                    connection.close()
                    connection = None
        finally:
            if connection is not None:
                connection.close()

    async def _connect(self) -> ClientConnection:
        connection = ClientConnection(asyncio.get_running_loop())
        try:
            await open_connection(connection, _HOST, self._port)
        except OSError as error:
            raise LoadError(f"cannot connect: {error}") from None
        self.load.connections_made += 1
        return connection

    def _note_error(self, error: Exception) -> None:
        problem = str(error)
        if isinstance(error, Disconnected):
            problem = "the connection was closed before the answer"
        self.load.errors.append(problem)
        if len(self.load.errors) >= _MOST_ERRORS:
            raise LoadError(f"{_MOST_ERRORS} requests failed; the last: {problem}")


async def _exchange(connection: ClientConnection, verb: Verb) -> None:
    """Send a request and receive all of its response; LoadError if it is wrong."""
    head = await connection.ask(verb.request, None, unpacks=False)
    try:
        if head.status != http.HTTPStatus.OK:
            raise LoadError(f"answered with status {head.status}")
        if head.length != verb.answer_bytes:
            raise LoadError(f"answered with {head.length} bytes instead of {verb.answer_bytes}")
        while await connection.piece():
            pass
    finally:
        connection.finish()
    if head.keeps_alive and not connection.is_reusable:
        raise LoadError("more was answered than announced")


def put_load(port: int, verbs: Sequence[Verb], connections: int, effort: Effort) -> Load:
    """Run one measurement; LoadError if the extender cannot be measured."""
    # Each begins elsewhere, so that no two ask the same at a time where there is a choice.
    pairs = len(verbs) // 2
    starts = [2 * (number * pairs // connections) for number in range(connections)]
    return run_quickly(_Run(port, verbs, effort).run(starts))


def ask_once(port: int, request: bytes) -> bytes:
    """The body of one answer; LoadError if there is none."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=_PATIENCE_S)
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
