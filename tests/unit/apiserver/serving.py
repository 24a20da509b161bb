"""A thin client over real HTTP, and builders of small objects, for the API server's tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer

Json = dict[str, Any]

NO_KUBELET = KubeletOptions(enabled=False)
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
PATIENCE_S = 20.0


class Answer:
    """Status, headers and decoded body of a response."""

    def __init__(self, status: int, headers: Any, raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        return str(self.body["reason"])


class Api:
    """Requests to one server; `server` gives the tests its hooks."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        headers = {"Accept": accept}
        data = raw
        if body is not None:
            data = msgspec.json.encode(body)
        if data is not None:
            headers["Content-Type"] = content_type
        async with self.session.request(method, path, data=data, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, accept: str = "application/json") -> Any:
        answer = await self.request("GET", path, accept=accept)
        assert answer.status == 200, answer.raw
        return answer.body

    async def create(self, path: str, body: Json) -> Json:
        answer = await self.request("POST", path, body)
        assert answer.status == 201, answer.raw
        created: Json = answer.body
        return created

    async def patch(self, path: str, body: Any, content_type: str = MERGE) -> Json:
        answer = await self.request("PATCH", path, body, content_type=content_type)
        assert answer.status == 200, answer.raw
        patched: Json = answer.body
        return patched

    async def bind(self, name: str, node: str, **metadata: Any) -> Answer:
        body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        return await self.request("POST", f"{PODS}/{name}/binding", body)

    @asynccontextmanager
    async def watch(
        self, path: str, query: str = "", accept: str = "application/json"
    ) -> AsyncIterator[Watch]:
        url = f"{path}?watch=1&{query}"
        async with self.session.get(
            url, headers={"Accept": accept}, timeout=aiohttp.ClientTimeout(total=None)
        ) as response:
            yield Watch(response)

    async def eventually(self, path: str, holds: Callable[[Answer], bool]) -> Answer:
        """Looks until it holds; the last answer is in the complaint when it never does."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.request("GET", path)
                if holds(answer):
                    return answer
                await asyncio.sleep(0.01)


class Watch:
    """An open watch stream, one event at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> Json | None:
        """The next event, None when the server has ended the stream."""
        async with asyncio.timeout(PATIENCE_S):
            line = await self.response.content.readline()
        return msgspec.json.decode(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The types and names of the next events."""
        seen: list[tuple[str, str]] = []
        for _ in range(count):
            event = await self.next()
            assert event is not None, f"the stream ended after {seen}"
            seen.append((event["type"], event["object"]["metadata"].get("name", "")))
        return seen

    async def rest(self) -> list[tuple[str, str]]:
        """All that comes until the server ends the stream."""
        seen: list[tuple[str, str]] = []
        while (event := await self.next()) is not None:
            seen.append((event["type"], event["object"]["metadata"].get("name", "")))
        return seen


@asynccontextmanager
async def serving(kubelet: KubeletOptions = NO_KUBELET, **options: Any) -> AsyncIterator[Api]:
    server = ApiServer(kubelet=kubelet, **options)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield Api(server, session)
    finally:
        await server.stop()


def pod(name: str = "a", metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec},
    }


def node(name: str = "n1", **rest: Any) -> Json:
    return {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4"}}, **rest}
