"""Simulate schedulers under seeded faults, and check the API server's history.

Prints each failing seed with what was found; ends with 1 if any failed. docs/fault-simulation.md
explains scripts, faults and checks.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from stowplan.errors import StowplanError
from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine, format_elapsed
from stowplan.sim.faults.generate import LONG, SHORT, generate
from stowplan.sim.faults.run import run_script
from stowplan.sim.faults.script import Script, read_script
from stowplan.sim.faults.shrink import shrink

_SHOWN = 5


def main() -> int:
    options = _options()
    try:
        if options.script is not None:
            return _run_one(read_script(options.script), options)
        if options.shrink or options.trace:
            return _run_one(generate(options.seed, options.form), options)
        return _run_many(options)
    except StowplanError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.sim.faults", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed; default 1")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds; default 1")
    parser.add_argument(
        "--long",
        action="store_const",
        dest="form",
        const=LONG,
        default=SHORT,
        help="draw 10 to 40 pods and up to 16 faults for each seed, not 2 to 6 and up to 3",
    )
    parser.add_argument("--script", type=Path, metavar="FILE", help="run a script, not a seed")
    parser.add_argument(
        "--shrink", action="store_true", help="make the failing script small and print it"
    )
    parser.add_argument(
        "--trace", action="store_true", help="print every request and step of the run"
    )
    return parser.parse_args()


def _run_one(script: Script, options: argparse.Namespace) -> int:
    result = run_script(script)
    if options.trace:
        print("\n".join(result.trace))
    for finding in result.findings:
        print(f"FOUND {finding}", file=sys.stderr)
    if not result.findings:
        print(f"nothing found: {len(script.steps)} steps, {result.virtual_s:.0f} virtual seconds")
        return 0
    if options.shrink:
        print(_shrunk(script, result.findings[0]).text(), end="")
    return 1


def _shrunk(script: Script, finding: str) -> Script:
    """The smallest script that still shows the same kind of finding."""
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S)
    tried = 0

    def fails(smaller: Script) -> bool:
        nonlocal tried
        tried += 1
        found = run_script(smaller).findings
        return any(_kind(each) == _kind(finding) for each in found)

    def progress(smaller: Script) -> None:
        line.update(f"{len(smaller.steps)} steps left after {tried} runs")

    smallest = shrink(script, fails, progress)
    line.say(f"{len(script.steps)} steps made {len(smallest.steps)} by {tried} runs")
    return smallest


def _kind(finding: str) -> str:
    """What was found, without names and numbers."""
    return " ".join(word for word in finding.split()[:12] if word.isalpha())


def _run_many(options: argparse.Namespace) -> int:
    seeds = range(options.seed, options.seed + options.runs)
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S)
    began, computing, done, failed, virtual_s = time.monotonic(), time.process_time(), 0, 0, 0.0
    is_cut = False
    try:
        for seed in seeds:
            result = run_script(generate(seed, options.form))
            done, virtual_s = done + 1, virtual_s + result.virtual_s
            if result.findings:
                failed += 1
                line.say(f"seed {seed}: {len(result.findings)} findings")
                for finding in result.findings[:_SHOWN]:
                    line.say(f"  {finding}")
            line.update(f"{done}/{len(seeds)} runs, {failed} failed")
    except KeyboardInterrupt:
        is_cut = True  # what was run until then counts
    line.erase()
    took, cpu_s = time.monotonic() - began, time.process_time() - computing
    print(
        f"{done} runs from seed {options.seed}, {failed} failed; {format_elapsed(virtual_s)} of"
        f" virtual time in {took:.0f} s; {60 * done / max(cpu_s, 1e-9):.0f} runs per minute of CPU"
    )
    if failed:
        form = " --long" if options.form is LONG else ""
        print(f"Fix: --seed N{form} --shrink prints a small script of a failing seed")
    return 130 if is_cut else int(failed > 0)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of strings must have the same order in every run of a seed.
        arguments = [sys.executable, "-m", "stowplan.sim.faults", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606  ourselves
    sys.exit(main())
