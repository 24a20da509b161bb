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
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias, cast

from stowplan.present.tables import format_figures

LINES = 12
_IMPORTS = "start: imports"
_ELSEWHERE = "Python and libraries"

#: File, line, name.
_Function: TypeAlias = tuple[str, int, str]


def digest(profile: Path) -> str:
    """The packages, and the functions, that took most of the time themselves."""
    stats = cast(dict[_Function, Any], pstats.Stats(str(profile)).stats)  # type: ignore[attr-defined]  # missing in typeshed
    timed = sorted(((each[2], each[1], where) for where, each in stats.items()), reverse=True)
    total = sum(seconds for seconds, _, _ in timed) or 1.0
    packages = [["package, with what it calls of others", "share", "seconds"]]
    for package, seconds in _by_package(stats).most_common():
        if seconds / total >= 0.01:
            packages.append([package, f"{seconds / total:.1%}", f"{seconds:.2f}"])
    lines = [["function", "share", "seconds", "calls"]]
    for seconds, calls, where in timed[:LINES]:
        lines.append([_name(*where), f"{seconds / total:.1%}", f"{seconds:.2f}", f"{calls:,}"])
    return f"{format_figures(packages)}\n\n{format_figures(lines)}"


def _by_package(stats: dict[_Function, Any]) -> Counter[str]:
    """Seconds by package of ours; time in other code counts for its caller."""
    seconds: Counter[str] = Counter()
    for where, (_, _, own, _, callers) in stats.items():
        package = _package(where)
        if package or not callers:
            seconds[package or _ELSEWHERE] += own
            continue
        for caller, (_, _, share, _) in callers.items():
            seconds[_package(caller) or _ELSEWHERE] += share
    return seconds


def _package(where: _Function) -> str:
    """Empty: not ours."""
    file, _, function = where
    if file.startswith("<frozen importlib") or function == "<module>":
        return _IMPORTS
    inside = _inside(file)
    return "" if inside is None else inside.parts[0]


def _inside(file: str) -> Path | None:
    """A file's path inside the package."""
    parts = Path(file).parts
    if "stowplan" not in parts:
        return None
    return Path(*parts[len(parts) - parts[::-1].index("stowplan") :])


def _name(file: str, line: int, function: str) -> str:
    """`scheduler/engine.py:120 attempt`, the module's name for others, `{built-in}` as it is."""
    if file == "~":
        return function
    return f"{_inside(file) or Path(file).name}:{line} {function}"


def main() -> None:
    file = sys.argv.pop(1)
    profiler = cProfile.Profile(time.process_time)
    try:
        profiler.runcall(runpy.run_module, "stowplan", run_name="__main__", alter_sys=True)
    finally:
        profiler.dump_stats(file)


if __name__ == "__main__":
    main()
