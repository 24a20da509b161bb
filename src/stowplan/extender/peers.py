"""Requests between workers: merge all metrics into one page, and let one worker reschedule.

`serving` creates one for each of several workers. The worker that has the connection answers
kube-scheduler. A scrape of /metrics can reach any worker, and must report all of them. Invariant: a
worker that hangs or died delays the others briefly, but never prevents their response.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from http import HTTPStatus
from inspect import isawaitable
from typing import Final

import msgspec

from stowplan.extender import metrics, rescheduling
from stowplan.extender.mailboxes import Mailboxes
from stowplan.extender.service import Handler, Service
from stowplan.http.messages import Request, Response, error_response
from stowplan.http.parser import Headers, RequestHead
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

#: The one that reschedules.
FIRST: Final = 0
QUESTION: Final = b"?"
UP: Final = f"{metrics.PREFIX}worker_up"
_METRICS_PATIENCE_S: Final = 1.0
#: Longer than an algorithm may think about rescheduling.
_RESCHEDULING_PATIENCE_S: Final = 90.0


class _Asked(msgspec.Struct):
    """A request without its body; `headers` are as they were received."""

    method: str
    path: str
    query: str
    headers: bytes


_read_asked: Final = msgspec.msgpack.Decoder(_Asked).decode
_read_answer: Final = msgspec.msgpack.Decoder(tuple[bytes, int, str, dict[str, str]]).decode
_write: Final = msgspec.msgpack.encode


class Peers:
    """One worker among others."""

    def __init__(
        self, mailboxes: Mailboxes, me: int, *, patience_s: float = _METRICS_PATIENCE_S
    ) -> None:
        self._mailboxes = mailboxes
        self._me = me
        self._patience_s = patience_s
        #: What this worker answers to others, by method and path.
        self._own: dict[tuple[str, str], Handler] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, service: Service) -> None:
        """Let the routes that concern all workers ask the others; call it when all are there."""
        self._take_over(service, "GET", "/metrics", self._all_metrics)
        for method in list(service.routes[rescheduling.PATH]):
            self._take_over(service, method, rescheduling.PATH, self._reschedule)

    def _take_over(self, service: Service, method: str, path: str, handler: Handler) -> None:
        route = service.routes[path][method]
        self._own[method, path] = route.handler
        service.add_route(method, path, handler, is_open=route.is_open)

    # Asking

    async def _all_metrics(self, request: Request) -> Response:
        count = self._mailboxes.count
        answers = await asyncio.gather(
            *(self._ask(worker, request, self._patience_s) for worker in range(count))
        )
        pages = [None if answer is None else answer.body.decode() for answer in answers]
        return Response(one_page(pages).encode(), 200, metrics.CONTENT_TYPE)

    async def _reschedule(self, request: Request) -> Response:
        answer = await self._ask(FIRST, request, _RESCHEDULING_PATIENCE_S)
        if answer is not None:
            return answer
        problem = "the worker that reschedules does not answer"
        return error_response(HTTPStatus.SERVICE_UNAVAILABLE, problem, Retry_After="5")

    async def _ask(self, worker: int, request: Request, patience_s: float) -> Response | None:
        """None if there was no answer."""
        if worker == self._me:
            return await self._answer(request)
        head = request.head
        asked = _Asked(head.method, head.path, head.query, head.headers.raw)
        here, there = socket.socketpair()
        here.setblocking(False)
        with there:
            if not self._mailboxes.send(worker, QUESTION + _write(asked), there):
                here.close()
                return None
        try:
            async with asyncio.timeout(patience_s):
                reader, writer = await asyncio.open_unix_connection(sock=here)
                try:
                    return Response(*_read_answer(await reader.read()))
                finally:
                    writer.close()
        except (OSError, msgspec.MsgspecError):
            return None  # the time is over, or it ended meanwhile

    # Being asked

    def take(self, message: bytes, reply: socket.socket) -> None:
        """A question from another worker."""
        task = asyncio.create_task(self._reply(message[len(QUESTION) :], reply), name="peer")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, message: bytes, reply: socket.socket) -> None:
        try:
            _, writer = await asyncio.open_unix_connection(sock=reply)
            try:
                asked = _read_asked(message)
                headers = Headers.parse(asked.headers)
                head = RequestHead(asked.method, asked.path, asked.query, headers, 0, True)
                answer = await self._answer(Request(head, b""))
                parts = (answer.body, answer.status, answer.content_type, answer.headers)
                writer.write(_write(parts))
                await writer.drain()
            finally:
                writer.close()
        except Exception as error:
            log.warning("A worker's question could not be answered", extra=kv(err=error))

    async def _answer(self, request: Request) -> Response:
        method = "GET" if request.head.method == "HEAD" else request.head.method
        coming = self._own[method, request.head.path](request)
        return await coming if isawaitable(coming) else coming


def one_page(pages: Iterable[str | None]) -> str:
    """The metrics of all workers, told apart by a label; None for one that did not answer."""
    heads: dict[str, list[str]] = {
        UP: [f"# HELP {UP} 1 if the worker's metrics are here.", f"# TYPE {UP} gauge"]
    }
    samples: dict[str, list[str]] = {UP: []}
    for worker, page in enumerate(pages):
        samples[UP].append(f'{UP}{{worker="{worker}"}} {int(page is not None)}')
        _sort_in(page or "", _labeller(worker), heads, samples)
    lines = [line for name, head in heads.items() for line in (*head, *samples[name])]
    return "".join(f"{line}\n" for line in lines)


def _sort_in(
    page: str,
    labelled: Callable[[str], str],
    heads: dict[str, list[str]],
    samples: dict[str, list[str]],
) -> None:
    """Group all samples of a metric under one HELP and TYPE, as the format requires."""
    name, is_new = "", True
    for line in page.split("\n"):
        if line.startswith(("# HELP ", "# TYPE ")):
            before, name = name, line.split(" ", 3)[2]
            if name != before:
                is_new = name not in heads
                heads.setdefault(name, [])
                samples.setdefault(name, [])
            if is_new:
                heads[name].append(line)
        elif line:
            samples[name].append(labelled(line))


def _labeller(worker: int) -> Callable[[str], str]:
    label = f'worker="{worker}"'

    def labelled(sample: str) -> str:
        brace, space = sample.find("{"), sample.find(" ")
        if 0 <= brace < space:
            return f"{sample[: brace + 1]}{label},{sample[brace + 1 :]}"
        return f"{sample[:space]}{{{label}}}{sample[space:]}"

    return labelled
