"""Reads the workload of a task: a trace, a recording or a scenario."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from stowplan.errors import ConfigError
from stowplan.sim.scenarios.files import Playable, Wishes, read_playables
from stowplan.sim.sweep.tasks import Workload
from stowplan.sim.traces.load import load_replay, load_trace
from stowplan.sim.traces.model import ReadCounts, Trace


def check_workload(workload: Workload, plugins: Collection[str]) -> tuple[ReadCounts, bool]:
    """Read a workload: its broken rows and gaps, and whether it can differ from seed to seed.

    Raises ConfigError if it is invalid.
    """
    if workload.kind == "scenario":
        read_scenario(workload, 0, plugins)
        return ReadCounts(), True
    trace = read_trace(workload, 0)
    return trace.reading, trace.is_seeded


def read_trace(workload: Workload, seed: int) -> Trace:
    file, nodes = Path(workload.file), Path(workload.nodes) if workload.nodes else None
    if workload.kind == "recording":
        return load_replay(file, nodes=nodes, reschedule=workload.reschedule)
    return load_trace(
        file,
        columns=workload.columns or None,
        nodes=nodes,
        node_columns=workload.node_columns or None,
        seed=seed,
        limit=workload.limit,
        reschedule=workload.reschedule,
    )


def read_scenario(workload: Workload, seed: int, plugins: Collection[str]) -> Playable:
    wishes = Wishes(seed=seed, pattern=workload.workload, plugins=tuple(plugins))
    playables = read_playables(Path(workload.file), wishes)
    if len(playables) > 1:
        raise ConfigError(
            f"has {len(playables)} workloads. Fix: choose one with `workload: NAME`",
            where=workload.file,
        )
    return playables[0]
