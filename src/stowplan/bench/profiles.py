"""Where Stowplan's time goes on a workload: a profile, cut down to what a report can show.

``python -m stowplan.bench.profiles FILE run ...`` is `stowplan run ...` under cProfile in CPU time:
waiting for the API server is nothing that could be quicker. `session` keeps the digest beside the
results, and `report` shows it for workloads that miss a target.
"""

from __future__ import annotations

import cProfile
import pstats
import runpy
import sys
import time
from pathlib import Path
from typing import Any, cast

from stowplan.bench.terminal import aligned

LINES = 20


def digest(profile: Path) -> str:
    """The functions that took most of the time themselves."""
    stats = cast(dict[tuple[str, int, str], Any], pstats.Stats(str(profile)).stats)  # type: ignore[attr-defined]
    timed = sorted(((each[2], each[1], where) for where, each in stats.items()), reverse=True)
    total = sum(seconds for seconds, _, _ in timed) or 1.0
    lines = [["function", "share", "seconds", "calls"]]
    for seconds, calls, where in timed[:LINES]:
        lines.append([_name(*where), f"{seconds / total:.1%}", f"{seconds:.2f}", f"{calls:,}"])
    return aligned(lines)


def _name(file: str, line: int, function: str) -> str:
    """`scheduler/engine.py:120 attempt`, the module's name for others, `{built-in}` as it is."""
    if file == "~":
        return function
    path = Path(file)
    if "stowplan" in path.parts:
        inside = len(path.parts) - path.parts[::-1].index("stowplan")
        return f"{Path(*path.parts[inside:])}:{line} {function}"
    return f"{path.name}:{line} {function}"


def main() -> None:
    file = sys.argv.pop(1)
    profiler = cProfile.Profile(time.process_time)
    try:
        profiler.runcall(runpy.run_module, "stowplan", run_name="__main__", alter_sys=True)
    finally:
        profiler.dump_stats(file)


if __name__ == "__main__":
    main()
