"""Lists and watches of names: nothing is missed, however often the API server ends a watch."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, web

from stowplan.api.kubeconfig import ClusterConfig
from stowplan.lab.bench.follow import METADATA_ONLY, Followed, FollowedChange, follow, session
from stowplan.lab.controlplane.processes import ControlPlaneError


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


class Server:
    """Lists what is there; each watch tells the next few changes, then the server ends it."""

    def __init__(
        self, items: Sequence[dict[str, Any]], *watches: Sequence[tuple[str, dict[str, Any]]]
    ) -> None:
        self._items = items
        self._watches = list(watches)
        self.queries: list[dict[str, str]] = []
        self.accepted: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.queries.append(dict(request.query))
        self.accepted.append(request.headers["Accept"])
        if "watch" not in request.query:
            listed = {"metadata": {"resourceVersion": "20"}, "items": list(self._items)}
            return web.json_response(listed)
        if not self._watches:
            raise web.HTTPServiceUnavailable
        changes = [{"type": kind, "object": each} for kind, each in self._watches.pop(0)]
        return web.Response(text="".join(json.dumps(change) + "\n" for change in changes))


@asynccontextmanager
async def a_client(server: Server) -> AsyncIterator[ClientSession]:
    app = web.Application()
    app.router.add_get("/things", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        config = ClusterConfig(server=f"http://{host}:{port}", token="secret")
        async with session(config, METADATA_ONLY) as client:
            yield client
    finally:
        await runner.cleanup()


async def seen(server: Server, count: int) -> list[tuple[str, str]]:
    """The first few changes, by type and name."""
    found: list[FollowedChange[Followed]] = []
    async with (
        a_client(server) as client,
        aclosing(follow(client, "/things", {"a": "b"}, Followed)) as all_,
    ):
        while len(found) < count:
            found.append(await anext(all_))
    return [(change.type, change.object.metadata.name) for change in found]


async def test_goes_on_where_the_server_ended_a_watch() -> None:
    """What is there comes in no order: the newest thing seen says nothing about the others."""
    there = [thing("newest", 20), thing("old", 3), thing("middle", 11)]
    server = Server(
        there,
        [],
        [("ADDED", thing("more", 21)), ("DELETED", thing("old", 24))],
        [("BOOKMARK", thing("", 40))],
        [("ADDED", thing("last", 41))],
    )
    assert await seen(server, 6) == [
        ("ADDED", "newest"),
        ("ADDED", "old"),
        ("ADDED", "middle"),
        ("ADDED", "more"),
        ("DELETED", "old"),
        ("ADDED", "last"),
    ]
    listing, *watches = server.queries
    assert listing == {"a": "b"}
    assert [query["resourceVersion"] for query in watches] == ["20", "20", "24", "40"]
    assert all(query["a"] == "b" for query in watches)


async def test_only_watches_ask_for_the_encoding() -> None:
    """A list of an encoding that is made for single objects would be refused."""
    server = Server([], [("ADDED", thing("x", 21))])
    await seen(server, 1)
    assert server.accepted == ["application/json", METADATA_ONLY]


async def test_a_version_that_is_gone_is_an_error() -> None:
    gone = {"metadata": {}, "code": 410, "message": "too old resource version"}
    server = Server([], [("ERROR", gone)])
    with pytest.raises(ControlPlaneError, match=r"watch of /things: .*too old"):
        await seen(server, 1)
