"""What a pod costs a virtual simulation: callbacks of the loop, and memory once it has ended."""

from __future__ import annotations

import gc
import tracemalloc
from asyncio import Handle
from collections.abc import Callable

import pytest

from stowplan.api.objects import Pod
from stowplan.lab.bench.simulation import trace
from stowplan.sim.scenarios import Cluster, Options, play_trace, run_scenario
from stowplan.sim.scenarios.trace_play import TraceProgress
from stowplan.sim.traces import generate

_NODES = 20
_OPTIONS = Options(writes_events=False, keeps_entries=False, verify_decisions=0)


def _play(pods: int, at_end: Callable[[], None] | None = None) -> None:
    async def scenario(cluster: Cluster) -> None:
        # Twenty pods a minute, of which most end in ten: as many at a time however many there are.
        day = generate(trace(_NODES, pods, f"{pods // 20}m"))
        await play_trace(cluster, day, keeps_finished=10)
        if at_end is not None:
            at_end()

    outcome = run_scenario(scenario, options=_OPTIONS)
    assert not outcome.problem
    assert outcome.counts["bound"] == outcome.counts["finished"] == pods


def _retained(pods: int) -> tracemalloc.Snapshot:
    """What is allocated when the last pod has ended: the least of two runs.

    Whatever else allocates in this process (threads, tables that grow once) only adds to a run.
    """
    found: list[tracemalloc.Snapshot] = []

    def look() -> None:
        gc.collect()
        found.append(tracemalloc.take_snapshot())

    for _ in range(2):
        tracemalloc.start()
        try:
            _play(pods, look)
        finally:
            tracemalloc.stop()
    return min(found, key=_size)


def _size(snapshot: tracemalloc.Snapshot) -> int:
    return sum(trace.size for trace in snapshot.traces)


def test_a_finished_pod_leaves_little_memory() -> None:
    """Its name, not its manifest, its decisions or its events."""
    _play(20)
    few, many = 250, 400  # more changes than a cluster's history has
    before, after = _retained(few), _retained(many)
    grown = "\n".join(str(line) for line in after.compare_to(before, "lineno")[:10])
    assert (_size(after) - _size(before)) / (many - few) < 8_000, grown


def test_only_tasks_that_a_change_concerns_are_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = 0
    run = Handle._run

    def counted(self: Handle) -> None:
        nonlocal ran
        ran += 1
        run(self)

    monkeypatch.setattr(Handle, "_run", counted)
    _play(100)
    few, ran = ran, 0
    _play(200)
    assert (ran - few) / 100 < 20


def test_waiting_for_quiet_looks_at_no_pod_while_none_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def counted(self: Pod) -> bool:
        nonlocal looks
        looks += 1
        return self.metadata.deletion_timestamp is not None

    async def scenario(cluster: Cluster) -> None:
        nonlocal looks
        for number in range(50):
            await cluster.create_pod(f"p{number}", cpu=1)
        await cluster.settle()
        looks = 0
        for _ in range(20):
            await cluster.settle()

    monkeypatch.setattr(Pod, "is_terminating", property(counted))
    assert not run_scenario(scenario, options=_OPTIONS).problem
    assert looks == 0


def test_progress_is_reported_while_the_last_pods_run() -> None:
    reports: list[TraceProgress] = []

    async def scenario(cluster: Cluster) -> None:
        day = generate(trace(_NODES, 300, "1s"))
        await play_trace(cluster, day, on_progress=reports.append)

    assert not run_scenario(scenario, options=_OPTIONS).problem
    assert {100, 200, 300} <= {each.finished for each in reports if each.arrived == 300}
