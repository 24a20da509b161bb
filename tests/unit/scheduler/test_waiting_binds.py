"""Binding cycles that wait, for volumes say, hold up neither other pods nor the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stowplan.api.objects import Pod
from stowplan.framework.status import Status, error
from stowplan.scheduler import loop
from stowplan.scheduler.eviction import Evictor
from stowplan.scheduler.loop import SchedulingLoop
from stowplan.testing import pod
from tests.unit.api.api_kit import until
from tests.unit.scheduler.live_bench import Live, live
from tests.unit.scheduler.scheduler_kit import plugin


class Patience:
    """A plugin that lets pods called `slow-...` wait in PreBind."""

    def __init__(self) -> None:
        self.it: Live | None = None
        self.began: list[str] = []

    async def pre_bind(self, cycle: Any, asking: Pod, node: str) -> Status | None:
        assert self.it is not None
        name = asking.metadata.name
        self.began.append(name)
        if name.startswith("slow") and not await self.it.handle.wakeup().wait(100):
            return error("stopped")
        return None


async def test_pods_that_wait_do_not_count_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_MAX_BINDS", 1)
    patience = Patience()
    async with live(plugin("Patience", pre_bind=patience.pre_bind)) as it:
        patience.it = it
        evictor = Evictor(it.engine, it.client, it.recorder, it.store.get)
        scheduling = SchedulingLoop(it.engine, it.binder, it.reporter, evictor)
        it.handle.wakeup = scheduling.wakeups.new
        slow = [it.post(pod(f"slow-{number}", cpu="1m")) for number in range(3)]
        quick = it.post(pod("quick", cpu="1m"))
        running = asyncio.create_task(scheduling.run())
        await until(lambda: scheduling.wakeups.waiting == 3 and "quick" in patience.began)
        await until(lambda: scheduling.binds_in_flight == 3)
        assert await it.node_of(quick) == "n1"

        running.cancel()
        assert await scheduling.drain(30), "the waiting ones are woken and end"
        for each in slow:
            assert await it.node_of(each) == ""
            assert it.where(each) == "error_backoff"
