"""What more processes and Dask give a sweep: python -m stowplan.bench.sweeps

The same tasks are played by one process, by two, and by two Dask workers of this machine. Starting
the processes is part of the time, starting Dask's is not: a cluster is there already.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from stowplan.errors import StowplanError
from stowplan.lab.bench.as_command import as_command
from stowplan.sim.sweep.dask_cluster import LOCAL, connected
from stowplan.sim.sweep.document import Sweep, read_sweep
from stowplan.sim.sweep.folder import RESULTS, opened
from stowplan.sim.sweep.pool import Pool
from stowplan.sim.sweep.running import Runner, run_sweep

_TRACE: Final = """
generate:
  pools: [{{name: node, count: {nodes}, cpu: 16, memory: 64Gi, zones: [a, b, c]}}]
  applications:
  - name: job
    cpu: {{choice: [1, 2, 4]}}
    memory: 2Gi
    duration: {{exponential: {{mean: 10m}}, min: 10s}}
    spread: zone
  arrivals: {{kind: poisson, count: {pods}, over: 4h}}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.sweeps",
        description="A sweep on one process, on several, and on a Dask cluster of this machine.",
    )
    parser.add_argument("--tasks", type=int, default=8, metavar="N", help="[default: 8]")
    parser.add_argument("--pods", type=int, default=2_500, metavar="N", help="[default: 2500]")
    parser.add_argument("--nodes", type=int, default=60, metavar="N", help="[default: 60]")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="[default: 2]")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sweep.yaml"
        trace = _TRACE.format(nodes=chosen.nodes, pods=chosen.pods)
        (Path(folder) / "trace.yaml").write_text(trace)
        file.write_text(f"workloads: [{{trace: trace.yaml}}]\nseeds: {chosen.tasks}\n")
        _measure(read_sweep(file), chosen.workers, Path(folder))
    return 0


def _measure(sweep: Sweep, workers: int, folder: Path) -> None:
    keeps = {"keeps_run": False, "keeps_decisions": False}
    runners: list[tuple[str, AbstractContextManager[Runner]]] = [
        ("1 process", nullcontext(Pool(1, **keeps))),
        (f"{workers} processes", nullcontext(Pool(workers, **keeps))),
        (f"Dask, {workers} workers", connected(LOCAL, workers=workers, **keeps)),
    ]
    took: list[float] = []
    tables: set[bytes] = set()
    print(f"{len(sweep.tasks)} tasks\n{'':<20}{'seconds':>9}{'CPU s a task':>14}")
    for number, (name, context) in enumerate(runners):
        results = folder / str(number)
        with opened(results) as kept, context as runner:
            began = time.monotonic()
            _, progress = run_sweep(sweep, kept, runner)
            took.append(time.monotonic() - began)
        tables.add((results / RESULTS).read_bytes())
        each = progress.cpu_s / max(progress.played, 1)
        print(f"{name:<20}{took[-1]:>9.1f}{each:>14.2f}", flush=True)
    if len(tables) != 1:
        raise StowplanError("the results differ")
    print(f"{workers} processes are {took[0] / took[1]:.2f} times as fast as one")
    print(f"Dask takes {took[2] / took[1] - 1:+.1%} time beside {workers} processes")


if __name__ == "__main__":
    sys.exit(as_command(main, "nothing was kept"))
