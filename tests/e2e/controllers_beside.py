"""Controllers of the embedded API server beside kube-controller-manager's: play steps, compare."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import aiohttp

from stowplan.apiserver.server import ApiServer
from stowplan.lab.controlplane import ControlPlane
from tests.controlplane_fixtures import require_binaries
from tests.e2e.scheduler_play import session_with

Json: TypeAlias = dict[str, Any]
MERGE = {"Content-Type": "application/merge-patch+json"}
PATIENCE_S = 40.0


@dataclass
class Case(ABC):
    """One case on one API server, in a namespace of its own."""

    session: aiohttp.ClientSession
    name: str

    async def begin(self) -> None:
        await self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.name}})

    async def send(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = MERGE if method == "PATCH" else None
        async with self.session.request(method, path, json=body, headers=headers) as answer:
            found: Json = await answer.json()
            assert answer.status < 300, f"{method} {path}: {found}"
            return found

    @abstractmethod
    async def view(self) -> Json:
        """The state to compare, without random names, UIDs and times."""


C = TypeVar("C", bound=Case)
Step: TypeAlias = Callable[[C], Awaitable[None]]


@asynccontextmanager
async def embedded(server: ApiServer) -> AsyncIterator[aiohttp.ClientSession]:
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        await server.stop()


@asynccontextmanager
async def real(
    controllers: str, *flags: str, kwok: bool = False
) -> AsyncIterator[aiohttp.ClientSession]:
    """A control plane with these controllers of kube-controller-manager."""
    require_binaries(
        "etcd", "kube-apiserver", "kube-controller-manager", *(["kwok"] if kwok else [])
    )
    with ControlPlane() as plane:
        plane.start_controller_manager(*flags, controllers=controllers)
        if kwok:
            plane.start_kwok()
        ca_file = str(plane.certificate_authority)
        async with session_with(plane.url, ca_file, plane.admin_token) as session:
            yield session


async def assert_same(
    cases: Mapping[str, Sequence[Step[C]]],
    world: Callable[[aiohttp.ClientSession, str], C],
    ours: aiohttp.ClientSession,
    theirs: aiohttp.ClientSession,
    *,
    again_after_s: float = 0.0,
) -> None:
    """Play all cases at once on both servers; the states must be the same after each step.

    With `again_after_s`, the last states are compared once more: a controller that has not started
    leaves the same state as one that has nothing to do.
    """
    worlds = {name: (world(ours, name), world(theirs, name)) for name in cases}
    found = await asyncio.gather(
        *(_play(name, cases[name], *pair) for name, pair in worlds.items())
    )
    if again_after_s:
        await asyncio.sleep(again_after_s)
        for name, pair in worlds.items():
            if late := await _compare(*pair):
                found.append("\n".join([f"{name}, later:", *late]))
    assert not any(found), "embedded != kube-controller-manager\n" + "\n".join(filter(None, found))


async def _play(name: str, steps: Sequence[Step[C]], ours: C, theirs: C) -> str:
    """What differs after the first step in which something does; empty if nothing does."""
    await asyncio.gather(ours.begin(), theirs.begin())
    for step in steps:
        after = f"{name}, {getattr(step, '__name__', '?').strip('_')}"
        try:
            await asyncio.gather(step(ours), step(theirs))
        except AssertionError as error:
            return f"{after}: {error}"
        if found := await _differences(after, ours, theirs):
            return found
    return ""


async def _differences(after: str, ours: Case, theirs: Case) -> str:
    """What still differs when both controllers have had time to act."""
    deadline = time.monotonic() + PATIENCE_S
    while found := await _compare(ours, theirs):
        if time.monotonic() > deadline:
            return "\n".join([f"after {after}:", *found])
        await asyncio.sleep(0.2)
    return ""


async def _compare(ours: Case, theirs: Case) -> list[str]:
    mine, real_ones = await asyncio.gather(ours.view(), theirs.view())
    return [
        f"  {thing}:\n    embedded {mine.get(thing)}\n    real     {real_ones.get(thing)}"
        for thing in sorted(mine.keys() | real_ones.keys())
        if mine.get(thing) != real_ones.get(thing)
    ]
