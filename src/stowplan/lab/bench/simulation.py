"""What a simulation in virtual time costs: ``python -m stowplan.bench.simulation``.

Each row is a `stowplan simulate` or `stowplan replay` process of its own; reported are its CPU
time and its peak memory. Pods of fifty shapes arrive at exact moments (milliseconds) within an hour
and run for some minutes, so that thousands run at a time. The replayed day was recorded by
`stowplan.recording` while such pods arrived, nodes failed and were drained.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from stowplan.errors import StowplanError
from stowplan.lab.bench.as_command import as_command
from stowplan.loader.yaml_text import dump_yaml
from stowplan.recording.files import Output
from stowplan.recording.recorder import Recorder
from stowplan.sim.scenarios import Cluster, Options, play_trace, run_scenario
from stowplan.sim.traces import generate

_ZONES: Final = ["a", "b", "c"]
#: Thirty and twenty shapes.
_APPLICATIONS: Final[list[dict[str, Any]]] = [
    {
        "name": "web",
        "weight": 3,
        "cpu": {"choice": ["100m", "200m", "300m", "500m", 1]},
        "memory": {"choice": ["128Mi", "256Mi", "512Mi", "1Gi", "1536Mi", "2Gi"]},
        "duration": {"exponential": {"mean": "10m"}},
    },
    {
        "name": "batch",
        "cpu": {"choice": [1, "1500m", 2, 3, 4]},
        "memory": {"choice": ["1Gi", "2Gi", "3Gi", "4Gi"]},
        "duration": {"exponential": {"mean": "5m"}},
    },
]


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """CPU seconds and the peak of resident memory of one process."""

    cpu_s: float
    peak_mib: float


def trace(nodes: int, pods: int, over: str, *, seed: int = 7) -> dict[str, Any]:
    """Describe pods of fifty shapes that arrive over that time, as `generate:` of a scenario."""
    return {
        "seed": seed,
        "pools": [{"name": "node", "count": nodes, "cpu": 8, "memory": "32Gi", "zones": _ZONES}],
        "applications": _APPLICATIONS,
        "arrivals": {"kind": "poisson", "count": pods, "over": over},
    }


def record_day(path: Path, *, nodes: int, pods: int, seed: int = 7) -> None:
    """Record a virtual cluster over 24 hours, in which nodes fail and are drained."""
    description = trace(nodes, pods, "24h", seed=seed)
    description["pools"][0] |= {
        "failures": {"meanTimeBetween": "2000h", "meanTimeToRepair": "20m"},
        "drains": {"every": "1h", "lasts": "10m"},
    }
    day = generate(description)

    async def scenario(cluster: Cluster) -> None:
        for manifest in day.objects():
            await cluster.create(manifest)
        await cluster.settle()
        clock = cluster.target.clock
        recorder = Recorder(cluster.client, Output(path, clock=clock), clock=clock)
        recording = cluster.start(recorder.run())
        await play_trace(cluster, replace(day, make_objects=lambda: iter(())))
        recording.cancel()

    outcome = run_scenario(scenario, options=Options(writes_events=False, keeps_entries=False))
    if outcome.problem:
        raise StowplanError(f"the day could not be recorded: {outcome.problem}")


def measure(*command: str) -> ProcessCost:
    """Run `stowplan COMMAND`; raises StowplanError if it fails."""
    with tempfile.TemporaryFile() as said:
        arguments = [sys.executable, "-m", "stowplan", *command]
        process = subprocess.Popen(arguments, stdout=said, stderr=subprocess.STDOUT)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise StowplanError(f"stowplan {command[0]} ended with {process.returncode}: {last}")
    return ProcessCost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.simulation",
        description="CPU time and peak memory of `stowplan simulate` on generated pods of fifty "
        "shapes, and of `stowplan replay` of a recorded day.",
    )
    parser.add_argument("--pods", type=int, default=100_000, metavar="N", help="[default: 100000]")
    parser.add_argument(
        "--nodes", type=int, nargs="*", default=[2_000, 10_000], metavar="N", help="numbers of "
        "nodes to simulate on [default: 2000 10000]",
    )  # fmt: skip
    parser.add_argument(
        "--replayed", type=int, default=20_000, metavar="N", help="pods of the day; 0 leaves the "
        "replay out [default: 20000]",
    )  # fmt: skip
    parser.add_argument("--replay-nodes", type=int, default=500, metavar="N", help="[default: 500]")
    chosen = parser.parse_args(arguments)
    print(f"{'':<44}{'CPU s':>8}{'MiB':>7}{'us/pod':>9}")
    with tempfile.TemporaryDirectory(prefix="stowplan-bench-") as folder:
        for nodes in chosen.nodes:
            file = Path(folder, "scenario.yaml")
            steps = [{"workload": {"generate": trace(nodes, chosen.pods, "1h")}}]
            file.write_text(dump_yaml({"name": "fifty shapes", "steps": steps}), "utf-8")
            cost = measure("simulate", str(file), "--timeline", "none")
            _print(f"simulate {chosen.pods:,} pods on {nodes:,} nodes", cost, chosen.pods)
        if chosen.replayed:
            file = Path(folder, "day.jsonl.gz")
            record_day(file, nodes=chosen.replay_nodes, pods=chosen.replayed)
            cost = measure("replay", str(file))
            what = f"replay {chosen.replayed:,} pods, {chosen.replay_nodes:,} nodes, 24 h"
            _print(what, cost, chosen.replayed)
    return 0


def _print(what: str, cost: ProcessCost, pods: int) -> None:
    per_pod = cost.cpu_s / pods * 1e6
    print(f"{what:<44}{cost.cpu_s:>8.1f}{cost.peak_mib:>7.0f}{per_pod:>9,.0f}", flush=True)


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
