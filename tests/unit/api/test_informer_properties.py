"""Whatever cuts, repeats and forgets on the way: the informer ends with what the server has."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer, InformerOptions
from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.api.watch import LineSplitter
from tests.examples import examples
from tests.unit.api.api_kit import (
    bookmark,
    event_line,
    pod,
    pod_list,
    reply,
    scripted_server,
    status_body,
    until,
)


@given(
    st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line)),
    st.binary(max_size=5).filter(lambda tail: b"\n" not in tail),
    st.randoms(use_true_random=False),
)
def test_lines_do_not_depend_on_how_they_were_cut(
    lines: list[bytes], tail: bytes, rng: random.Random
) -> None:
    data = b"".join(line + b"\n" for line in lines) + tail
    splitter = LineSplitter()
    found: list[bytes] = []
    while data:
        size = rng.randint(1, len(data))
        found += splitter.feed(data[:size])
        data = data[size:]
    assert found == [line for line in lines if line.strip()]


def test_a_line_that_never_ends_is_given_up() -> None:
    splitter = LineSplitter(limit=10)
    assert splitter.feed(b"12345") == []
    assert splitter.feed(b"67890\n123456") == [b"1234567890"]
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        splitter.feed(b"78901")


@dataclass
class History:
    """A server with a short memory: changes happen while it answers, streams break anywhere."""

    rng: random.Random
    changes_left: int
    version: int = 1
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[tuple[int, bytes]] = field(default_factory=list)
    forgotten: int = 0

    def change(self) -> None:
        if self.changes_left == 0:
            return
        self.changes_left -= 1
        self.version += 1
        name = self.rng.choice("abcd")
        known = self.objects.get(name)
        if known is None:
            uid = f"{name}-{self.version}"
            self.objects[name] = pod(name, version=self.version, uid=uid)
            self._emit("ADDED", self.objects[name])
        elif self.rng.random() < 0.5:
            self.objects[name] = pod(name, version=self.version, uid=known["metadata"]["uid"])
            self._emit("MODIFIED", self.objects[name])
        else:
            del self.objects[name]
            self._emit("DELETED", pod(name, version=self.version, uid=known["metadata"]["uid"]))

    def _emit(self, kind: str, obj: dict[str, Any]) -> None:
        self.events.append((self.version, event_line(kind, obj)))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.change()
        if "watch" not in request.query:
            if self.rng.random() < 0.2 and self.changes_left:
                return reply(b"<junk>", status=self.rng.choice([200, 500]))
            return reply(pod_list(*self.objects.values(), version=self.version))
        since = int(request.query["resourceVersion"])
        if self.changes_left and self.rng.random() < 0.3:
            self.forgotten = self.version
        if since < self.forgotten:
            return reply(status_body(410, "Expired"), status=410)
        stream = web.StreamResponse()
        await stream.prepare(request)
        await self._stream(request, stream, since)
        return stream

    async def _stream(self, request: web.Request, stream: web.StreamResponse, since: int) -> None:
        while True:
            pending = [line for version, line in self.events if version > since]
            data = b"".join(pending) + (bookmark(self.version) if pending else b"")
            since = self.version
            if self.changes_left and self.rng.random() < 0.5:
                data = data[: self.rng.randint(0, len(data))] + self.rng.choice([b"", b"junk\n"])
                await stream.write(data)
                assert request.transport is not None
                if self.rng.random() < 0.5:
                    request.transport.abort()
                return
            if data:
                await stream.write(data)
            await asyncio.sleep(0.001)
            self.change()


class Replica:
    """Follows the handlers only, and checks that each call makes sense after those before it."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, str]] = {}

    def add(self, obj: Pod) -> None:
        assert obj.metadata.name not in self.objects
        self.objects[obj.metadata.name] = (obj.uid, obj.metadata.resource_version)

    def update(self, old: Pod, new: Pod) -> None:
        assert self.objects[old.metadata.name] == (old.uid, old.metadata.resource_version)
        assert old.uid == new.uid
        assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
        self.objects[new.metadata.name] = (new.uid, new.metadata.resource_version)

    def delete(self, obj: Pod) -> None:
        assert self.objects.pop(obj.metadata.name)[0] == obj.uid


async def follow(seed: int, changes: int) -> None:
    history = History(random.Random(seed), changes)
    replica = Replica()
    broken: list[BaseException] = []

    def checked(handler: Any) -> Any:
        def call(*objects: Pod) -> None:
            try:
                handler(*objects)
            except BaseException as error:
                broken.append(error)
                raise

        return call

    async with scripted_server(history.handle) as server, ApiClient(server.config) as client:
        informer = Informer(
            client,
            PODS,
            on_add=checked(replica.add),
            on_update=checked(replica.update),
            on_delete=checked(replica.delete),
            options=InformerOptions(retry_initial_s=0.001, retry_limit_s=0.002),
        )
        task = asyncio.create_task(informer.run())
        await until(
            lambda: history.changes_left == 0 and informer.resource_version == history.version
        )
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not broken
    expected = {
        name: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
        for name, obj in history.objects.items()
    }
    assert replica.objects == expected
    in_store = {
        obj.metadata.name: (obj.uid, obj.metadata.resource_version)
        for obj in informer.store.values()
    }
    assert in_store == expected


@examples(25)
@given(seed=st.integers(0, 2**32), changes=st.integers(1, 40))
def test_nothing_is_lost_on_the_way(seed: int, changes: int) -> None:
    asyncio.run(follow(seed, changes))
