"""A server that plays a script of lists and watches to an informer, and what the informer told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer, InformerOptions
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from tests.unit.api.api_kit import (
    ScriptedServer,
    event_line,
    pod,
    reply,
    scripted_server,
    status_body,
)

GONE = status_body(410, "Expired", "too old resource version")
HOLD: Any = object()
CUT: Any = object()


@dataclass
class Refusal:
    """An answer with an error instead of a list or stream."""

    code: int
    message: str = ""
    retry_after: str = ""

    def answer(self) -> web.Response:
        headers = {"Retry-After": self.retry_after} if self.retry_after else None
        return reply(status_body(self.code, "", self.message), status=self.code, headers=headers)


@dataclass
class Script:
    """What the server does: lists and watches in turn, the last of each again and again.

    A watch is a list of chunks to write; `HOLD` keeps the stream open until the test ends,
    `CUT` breaks the connection, a Refusal answers with an error.
    """

    lists: list[Any]
    watches: list[Any] = field(default_factory=lambda: [[HOLD]])
    over: asyncio.Event = field(default_factory=asyncio.Event)
    lists_served: int = 0
    watched_from: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            number = len(self.watched_from)
            self.watched_from.append(request.query["resourceVersion"])
            return await self._watch(request, self.watches[min(number, len(self.watches) - 1)])
        answer = self.lists[min(self.lists_served, len(self.lists) - 1)]
        self.lists_served += 1
        return answer.answer() if isinstance(answer, Refusal) else reply(answer)

    async def _watch(self, request: web.Request, plan: Any) -> web.StreamResponse:
        if isinstance(plan, Refusal):
            return plan.answer()
        stream = web.StreamResponse()
        await stream.prepare(request)
        for step in plan:
            if step is HOLD:
                await self.over.wait()
            elif step is CUT:
                assert request.transport is not None
                request.transport.abort()
                break
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await stream.write(step)
                await asyncio.sleep(0)
        return stream


@dataclass
class Observed:
    """What the handlers were told, in order."""

    log: list[str] = field(default_factory=list)

    def add(self, obj: Pod) -> None:
        self.log.append(f"+{obj.metadata.name}@{obj.metadata.resource_version}")

    def update(self, old: Pod, new: Pod) -> None:
        versions = f"{old.metadata.resource_version}>{new.metadata.resource_version}"
        self.log.append(f"~{new.metadata.name}@{versions}")

    def delete(self, obj: Pod) -> None:
        self.log.append(f"-{obj.metadata.name}@{obj.metadata.resource_version}")


@dataclass
class Running:
    informer: Informer[Pod]
    observed: Observed
    server: ScriptedServer
    script: Script
    task: asyncio.Task[None]

    @property
    def log(self) -> list[str]:
        return self.observed.log


#: Retries at once.
QUICK = InformerOptions(retry_initial_s=0.01, retry_limit_s=0.05)


@asynccontextmanager
async def running(
    script: Script, *, options: InformerOptions = QUICK, **more: Any
) -> AsyncIterator[Running]:
    observed = Observed()
    async with scripted_server(script.handle) as server, ApiClient(server.config) as client:
        informer = Informer(
            client,
            PODS,
            on_add=observed.add,
            on_update=observed.update,
            on_delete=observed.delete,
            options=options,
            **more,
        )
        task = asyncio.create_task(informer.run())
        try:
            yield Running(informer, observed, server, script, task)
        finally:
            script.over.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def added(name: str, version: int, **changes: Any) -> bytes:
    return event_line("ADDED", pod(name, version=version, **changes))


def modified(name: str, version: int, **changes: Any) -> bytes:
    return event_line("MODIFIED", pod(name, version=version, **changes))


def deleted(name: str, version: int, **changes: Any) -> bytes:
    return event_line("DELETED", pod(name, version=version, **changes))
