"""The endless stream of changes: over broken watches, and its end where the server refuses."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from stowplan.api.client import ApiClient
from stowplan.api.follow import follow
from stowplan.api.resources import PODS
from stowplan.errors import Forbidden
from tests.unit.api.api_kit import event_line, pod, pod_list, reply, scripted_server, status_body


async def test_each_change_is_told_once_over_a_watch_that_ends() -> None:
    over = asyncio.Event()
    watches = [
        [event_line("MODIFIED", pod("a", version=2)), event_line("ADDED", pod("b", version=3))],
        [event_line("DELETED", pod("a", version=4))],
    ]
    asked: list[dict[str, str]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        if "watch" not in request.query:
            return reply(pod_list(pod("a", version=1), version=1))
        stream = web.StreamResponse()
        await stream.prepare(request)
        if watches:
            for line in watches.pop(0):
                await stream.write(line)
        else:
            await over.wait()
        return stream

    async with scripted_server(handle) as server, ApiClient(server.config) as client:
        seen: list[tuple[str, str, str]] = []
        changes = follow(client, PODS, namespace="ns", label_selector="app=web")
        async for change in changes:
            metadata = change.object.metadata
            seen.append((change.type, metadata.name, metadata.resource_version))
            if change.type == "DELETED":
                break
        over.set()
    assert seen == [
        ("ADDED", "a", "1"),
        ("MODIFIED", "a", "2"),
        ("ADDED", "b", "3"),
        ("DELETED", "a", "4"),
    ]
    assert {query["labelSelector"] for query in asked} == {"app=web"}
    assert {seen.path for seen in server.seen} == {"/api/v1/namespaces/ns/pods"}


async def test_a_refused_list_ends_the_stream_with_its_error() -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return reply(status_body(403, "Forbidden", "no pods for you"), status=403)

    async with scripted_server(refuse) as server, ApiClient(server.config) as client:
        with pytest.raises(Forbidden, match="no pods for you"):
            await anext(follow(client, PODS))
