"""The command line: ``python -m stowplan.bench [--nodes 1000] [--pods 3000] [--rounds 3] ...``

Called by ``make bench`` and by people. Alternates the contestants, each on a fresh control plane,
in an order that rotates from round to round, so that neither a warm machine nor a noisy neighbour
favours one of them. Progress goes to standard error, the result to standard output and a JSON file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import pstats
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

from stowplan.bench.contestants import (
    CONTESTANTS,
    KUBE,
    KUBE_SAME_PLUGINS,
    RAW,
    RAW_EVENTS,
    STOWPLAN,
    Contestant,
    same_plugins,
)
from stowplan.bench.raw import SendError
from stowplan.bench.report import (
    Run,
    by_contestant,
    disturbance,
    document,
    faults,
    ratio_line,
    ratios,
    table,
)
from stowplan.bench.run import Measurement, Workload
from stowplan.controlplane.binaries import BinaryMissing
from stowplan.controlplane.processes import ControlPlaneError
from stowplan.controlplane.targets import TARGET_BY_NAME, pinned_version

RESULTS = Path("bench-results")
BUSY_LOAD = 0.5
NOISY_REPEATS = 4
PROFILE_LINES = 30


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    # Whoever ends us ends our processes too, in order.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _bench(options)
    except (BinaryMissing, ControlPlaneError, SendError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _terminate(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench",
        description="Pods per second of Stowplan, kube-scheduler and bare binding requests, "
        "end to end on a real kube-apiserver and etcd.",
    )
    parser.add_argument("--nodes", type=_positive, default=1000, metavar="N")
    parser.add_argument("--pods", type=_positive, default=3000, metavar="N")
    parser.add_argument("--rounds", type=_positive, default=3, metavar="N")
    parser.add_argument(
        "--mode",
        choices=("backlog", "stream"),
        default="backlog",
        help="backlog: all pods wait when a contestant starts; stream: they are created while it "
        "runs, as in scheduler_perf (mind the creation rate) [default: backlog]",
    )
    parser.add_argument(
        "--only",
        type=_parse_contestants,
        default=CONTESTANTS,
        metavar="NAME,...",
        help=f"only these of: {', '.join(one.key for one in CONTESTANTS)}; "
        "a name includes what is below it",
    )
    parser.add_argument(
        "--max-noise",
        type=float,
        default=math.inf,
        metavar="CORES",
        help="repeat a run, some times, while other processes kept more cores than this busy",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help=f"[default: {RESULTS}/<time>.json]"
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="run Stowplan under cProfile and print where the time goes; its figures are worthless",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def _parse_contestants(text: str) -> tuple[Contestant, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if not any(one.is_chosen_by([name]) for one in CONTESTANTS)]
    if unknown or not names:
        known = ", ".join(one.key for one in CONTESTANTS)
        raise argparse.ArgumentTypeError(f"unknown name {', '.join(unknown)!r}; there is: {known}")
    return tuple(one for one in CONTESTANTS if one.is_chosen_by(names))


def rotated(contestants: Sequence[Contestant], round_number: int) -> list[Contestant]:
    """The order of a round: each begins with another contestant."""
    shift = (round_number - 1) % len(contestants)
    return [*contestants[shift:], *contestants[:shift]]


def least_disturbed(measure: Callable[[], Run], max_noise: float) -> Run:
    """Measure again where others were busy; what decides is their noise, never our result."""
    best = measure()
    for _ in range(NOISY_REPEATS):
        if best.others_cores <= max_noise:
            break
        best = min(best, measure(), key=lambda run: run.others_cores)
    return best


def _bench(options: argparse.Namespace) -> int:
    began = datetime.now(UTC)
    stamp = began.strftime("%Y%m%dT%H%M%SZ")
    path: Path = options.json or RESULTS / f"{stamp}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    workload = Workload(options.nodes, options.pods, stream=options.mode == "stream")
    _say_what_is_done(options)

    runs: list[Run] = []
    clock = time.monotonic()
    for round_number in range(1, options.rounds + 1):
        for contestant in rotated(options.only, round_number):
            profile = None
            if options.profile and contestant is STOWPLAN:
                profile = path.with_suffix(f".{round_number}.prof")
            say = partial(_say, clock, f"round {round_number}/{options.rounds}, {contestant.label}")
            measurement = partial(
                Measurement,
                contestant,
                workload,
                round_number=round_number,
                say=say,
                profile=profile,
            )
            runs.append(least_disturbed(partial(_measure, measurement, say), options.max_noise))
            if profile is not None:
                pstats.Stats(str(profile)).sort_stats("tottime").print_stats(PROFILE_LINES)
                print(f"The profile is in {profile}.")
    about = {
        "began": began.isoformat(timespec="seconds"),
        "command": ["python", "-m", "stowplan.bench", *sys.argv[1:]],
        "workload": {"nodes": options.nodes, "pods": options.pods, "mode": options.mode},
        "profiled": options.profile,
        "same_plugins": [plugin.name for plugin in same_plugins()],
        "kubernetes": pinned_version(TARGET_BY_NAME["kube-apiserver"].module),
        "machine": {
            "cpus": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
    }
    return _report(runs, about, path)


def _say(clock: float, prefix: str, text: str) -> None:
    print(f"[{time.monotonic() - clock:4.0f}s] {prefix}: {text}", file=sys.stderr)


def _measure(measurement: Callable[[], Measurement], say: Callable[[str], None]) -> Run:
    say("starting a control plane")
    run = measurement().measure()
    say(
        f"{run.pods_per_s:.0f} pods/s, first bind after {run.first_bind_s:.1f} s, "
        f"others' cores {run.others_cores:.1f}"
    )
    return run


def _say_what_is_done(options: argparse.Namespace) -> None:
    names = ", ".join(contestant.label for contestant in options.only)
    print(
        f"{options.nodes} nodes, {options.pods} pods, {options.mode}, {options.rounds} rounds of: "
        f"{names}; about half a minute each",
        file=sys.stderr,
    )
    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        print(
            f"The machine is busy already (load average {load:.1f}): trust ratios, not figures.",
            file=sys.stderr,
        )


def _report(runs: Sequence[Run], about: dict[str, object], path: Path) -> int:
    order = [contestant.label for contestant in CONTESTANTS]
    found = ratios(
        runs, STOWPLAN.label, [one.label for one in (KUBE, KUBE_SAME_PLUGINS, RAW, RAW_EVENTS)]
    )
    invalid = faults(runs, RAW.label)
    path.write_text(json.dumps(document(runs, found, invalid, about), indent=2) + "\n")
    print(table(runs, order))
    if KUBE_SAME_PLUGINS.label in by_contestant(runs):
        print(f"\nsame plugins: {', '.join(plugin.name for plugin in same_plugins())}")
    print()
    for ratio in found:
        print(ratio_line(ratio, is_limit=ratio.below in (RAW.label, RAW_EVENTS.label)))
    for fault in invalid:
        print(f"INVALID: {fault}")
    if warning := disturbance(runs):
        print(f"DISTURBED: {warning}")
    print(f"\nAll figures are in {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
