"""Trouble that is told once a minute, however often it happens."""

from __future__ import annotations

import asyncio

import pytest

from stowplan.clock import VirtualClock
from stowplan.extender.background import Troubles, data_lines, end
from stowplan.extender.metrics import Metric


def test_trouble_is_counted_always_and_told_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    clock = VirtualClock()
    troubles = Troubles("reading tea leaves", clock)
    troubles.over()
    assert caplog.messages == []
    for _ in range(3):
        troubles.add("too dark")
        clock.advance(20)
    assert (troubles.count, troubles.last, caplog.messages) == (3, "too dark", ["Failing"])
    troubles.add("no tea")
    assert caplog.messages == ["Failing", "Failing"]
    troubles.over()
    troubles.over()
    assert (troubles.last, caplog.messages[2:]) == ("", ["Works again"])
    troubles.add("no tea")
    troubles.over()
    assert len(caplog.messages) == 3, "neither the failure nor its end, within the same minute"
    assert troubles.count == 5


class Part:
    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def measures(self) -> tuple[Metric, ...]:
        return self._metrics


def test_lines_of_all_parts() -> None:
    parts = [
        Part(Metric("kubeapi_nodes", 2)),
        Part(
            Metric("mutations", 3, {"result": "patched"}), Metric("mutations", 0, {"result": "x"})
        ),
    ]
    assert list(data_lines(parts)) == [
        "# HELP wca_scheduler_kubeapi_nodes Nodes that are known and not of the control plane.",
        "# TYPE wca_scheduler_kubeapi_nodes gauge",
        "wca_scheduler_kubeapi_nodes 2.0",
        "# HELP wca_scheduler_mutations Pods sent to /mutate, by result.",
        "# TYPE wca_scheduler_mutations counter",
        'wca_scheduler_mutations{result="patched"} 3.0',
        'wca_scheduler_mutations{result="x"} 0.0',
    ]


async def test_ending_tasks_waits_for_them() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end(task, None)
    assert ended == [True]
    await end()
