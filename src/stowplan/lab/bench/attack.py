"""Hostile pods against the engine, without sockets: ``python -m stowplan.bench.attack``.

Measures what one expensive pod costs all other pods. The engine is the one that runs live
(`scheduler.assembly`); `bench.attack_trial` drives it in the order of the live loop. Each case runs
in a forked process with a limit of time and memory, on a cluster that is built once. Time is CPU
time of the thread, so that other load on the machine does not count.

The exit code is 1 if a case misses a target: other pods wait at most 0.5 s, memory rises by at most
64 MiB and returns.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stowplan.lab.bench.as_command import as_command
from stowplan.lab.bench.attack_search import search
from stowplan.lab.bench.attack_trial import (
    AttackedCluster,
    Report,
    TimeLimitError,
    memory_trial,
    time_trial,
)
from stowplan.lab.bench.hostile import ATTACKS, Attack, stored_size
from stowplan.loader.json_text import load_json
from stowplan.output_file import check_output_file

#: The targets.
WAIT_S = 0.5
RISE_MIB = 64.0
#: What may stay of a deleted pod: buckets of hash tables that grew, and the like.
LEAK_MIB = 1.0
#: Memory that a case may take before it is stopped; a process that swaps measures nothing.
_MEMORY_LIMIT = 1536 * 1024 * 1024


@dataclass(frozen=True)
class AttackCase:
    """One hostile pod on one cluster."""

    attack: Attack
    factor: float
    label_sets: int
    #: Created with a nodeName: it needs no decision.
    is_standing: bool

    @property
    def size(self) -> int:
        return int(self.attack.size * self.factor)

    @property
    def title(self) -> str:
        how = "standing" if self.is_standing else "pending"
        return f"{self.attack.name}, {self.size:,}, {how}, {self.label_sets:,} label sets"


def run_case(cluster: AttackedCluster, case: AttackCase, limit_s: float, *, memory: bool) -> Report:
    """Both trials of a case, each in a process of its own."""

    def manifest(serial: int) -> dict[str, Any]:
        return case.attack.manifest(case.factor, serial)

    report = forked(
        lambda report: time_trial(cluster, manifest, report, is_standing=case.is_standing), limit_s
    )
    if memory:
        # Allocations are traced, which makes everything slower.
        traced = forked(
            lambda report: memory_trial(cluster, manifest, report, is_standing=case.is_standing),
            limit_s * 2,
        )
        report.take_memory(traced)
    report.stored_bytes = stored_size(manifest(0))
    return report


def forked(measure: Callable[[Report], None], limit_s: float) -> Report:
    """Run a trial in a child process; a limit that it meets is noted in its report."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            # The report says what a lack of memory broke.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            text = json.dumps(asdict(_limited(measure, limit_s)))
            with os.fdopen(writing, "w") as answer:
                answer.write(text)
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading) as answer:
            text = answer.read()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.waitpid(child, 0)
    return Report(**load_json(text)) if text else Report(problem="the trial failed")


def _limited(measure: Callable[[Report], None], limit_s: float) -> Report:
    report = Report()

    def stop(_signal: int, _frame: object) -> None:
        raise TimeLimitError

    signal.signal(signal.SIGPROF, stop)
    # Again and again: the first may be lost in a callback whose exceptions are ignored.
    signal.setitimer(signal.ITIMER_PROF, limit_s, 1)
    limit = resident_bytes() + _MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
    try:
        measure(report)
    except TimeLimitError:
        report.problem = report.problem or f"stopped after {limit_s:.0f} s"
    except MemoryError:
        report.problem = "out of memory"
    except Exception as problem:
        report.problem = f"{type(problem).__name__}: {problem}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return report


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def misses(report: Report) -> list[str]:
    """The targets that a case misses."""
    found = []
    if report.problem:
        found.append(report.problem)
    if report.wait_s > WAIT_S:
        found.append("wait")
    if report.longest_s > WAIT_S:
        found.append("piece")
    if report.rise_mib is not None and report.rise_mib > RISE_MIB:
        found.append("memory")
    if report.leak_mib is not None and report.leak_mib > LEAK_MIB:
        found.append("leak")
    return found


# What is shown

_HEAD = (
    f"{'pod':<32}{'size':>7}{'kB':>6}{'sets':>7}{'how':>9}{'wait s':>8}{'piece s':>9}"
    f"{'of':>16}{'cpu s':>8}{'work':>7}{'defer':>6}{'plain ms: before':>17}{'beside':>8}"
    f"{'after':>7}{'MiB: peak':>10}{'kept':>7}{'leak':>7}  missed"
)


def line(case: AttackCase, report: Report) -> str:
    """A row of the table."""

    def mib(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    how = "standing" if case.is_standing else "pending"
    return (
        f"{case.attack.name:<32}{case.size:>7}{report.stored_bytes // 1000:>6}{case.label_sets:>7}"
        f"{how:>9}{report.wait_s:>8.3f}{report.longest_s:>9.3f}{report.longest_of:>16}"
        f"{report.cpu_s:>8.2f}{report.work / 1e9:>7.2f}{report.deferrals:>6}"
        f"{report.plain_before_ms:>17.2f}{report.plain_beside_ms:>8.2f}{report.plain_after_ms:>7.2f}{mib(report.rise_mib):>10}"
        f"{mib(report.kept_mib):>7}{mib(report.leak_mib):>7}  {', '.join(misses(report)) or 'none'}"
    )


_EXPLAINED = """columns:
  kB       size of the pod as protobuf, which etcd limits to 1,573 kB
  sets     distinct label sets among the standing pods
  how      pending: it is scheduled; standing: created with a nodeName, an informer event alone
  wait     longest wait of a plain pod in another namespace, from the start of a piece of work for
           the hostile pod until the plain pod is decided
  piece    longest synchronous piece: a decision, its confirmation, or an informer event
  cpu      all work for the hostile pod until it is decided
  work     what the decisions counted as work for it; about a second each
  defer    times that a decision was deferred
  plain    decision and events of a plain pod: before, beside and after the hostile pod
  peak     memory growth at its highest
  kept     memory growth after two hostile pods were deleted and 2,500 plain pods came and went
  leak     the part of it that the second one left
"""


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stowplan.bench.attack",
        description="What one hostile pod costs the others: waiting, CPU time and memory, "
        "on a synthetic cluster without a control plane.",
        epilog=_EXPLAINED,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only pods with this text")
    parser.add_argument(
        "--factors", type=_numbers, default=[1.0, 2.0, 4.0], metavar="N,N", help="[default: 1,2,4]"
    )
    parser.add_argument(
        "--label-sets",
        type=_numbers,
        default=[50.0, 10_000.0],
        metavar="N,N",
        help="distinct label sets among the standing pods [default: 50,10000]",
    )
    parser.add_argument("--nodes", type=int, default=5_000, metavar="N", help="[default: 5000]")
    parser.add_argument("--pods", type=int, default=10_000, metavar="N", help="[default: 10000]")
    parser.add_argument(
        "--limit", type=float, default=60.0, metavar="S", help="CPU seconds a trial [default: 60]"
    )
    parser.add_argument(
        "--how", choices=("pending", "standing", "both"), default="both", help="[default: both]"
    )
    parser.add_argument(
        "--search",
        type=float,
        metavar="S",
        help="search so many seconds for expensive pods instead, among all sizes of their lists",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the search [default: 0]"
    )
    parser.add_argument("--no-memory", action="store_true", help="leave out the memory trial")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    check_output_file(options.json, "--json")
    # A pod that exhausts the memory of its trial is logged with a traceback by the engine.
    logging.getLogger("stowplan").setLevel(logging.CRITICAL)
    if options.search is not None:
        return _search(options)
    attacks = [attack for attack in ATTACKS if options.only in attack.name]
    if not attacks:
        names = ", ".join(attack.name for attack in ATTACKS)
        print(f"error: no hostile pod has {options.only!r} in its name: {names}", file=sys.stderr)
        return 2
    hows = {"pending": [False], "standing": [True], "both": [False, True]}[options.how]
    done: list[tuple[AttackCase, Report]] = []
    print(_HEAD, flush=True)
    for label_sets in map(int, options.label_sets):
        cluster = AttackedCluster(options.nodes, options.pods, label_sets)
        for attack in attacks:
            for factor in options.factors:
                for is_standing in hows:
                    case = AttackCase(attack, factor, label_sets, is_standing)
                    report = run_case(cluster, case, options.limit, memory=not options.no_memory)
                    done.append((case, report))
                    print(line(case, report), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(document(done), indent=2) + "\n")
    missed = sum(bool(misses(report)) for _, report in done)
    print(f"\n{len(done)} cases, {missed} miss a target.")
    return 1 if missed else 0


def _search(options: argparse.Namespace) -> int:
    missed = 0
    everything: list[dict[str, object]] = []
    for label_sets in map(int, options.label_sets):
        cluster = AttackedCluster(options.nodes, options.pods, label_sets)
        worst = search(
            lambda trial: forked(trial, options.limit),
            cluster,
            options.search / len(options.label_sets),
            options.seed,
            lambda text: print(text, file=sys.stderr, flush=True),
        )
        print(f"\n{label_sets:,} label sets: the worst pods, longest wait first")
        for found in worst:
            missed += bool(misses(found.report) or misses(found.standing))
            for how, report in (("pending", found.report), ("standing", found.standing)):
                print(
                    f"{how:>9} wait {report.wait_s:.3f} s, {report.longest_of} "
                    f"{report.longest_s:.3f} s, cpu {report.cpu_s:.2f} s, work "
                    f"{report.work / 1e9:.2f}, plain {report.plain_beside_ms:.2f} ms  "
                    f"{', '.join(misses(report)) or 'in bounds'}: {found.spelled}"
                )
        everything += [asdict(found) | {"label_sets": label_sets} for found in worst]
    if options.json is not None:
        options.json.write_text(json.dumps(everything, indent=2) + "\n")
    return 1 if missed else 0


def document(done: Sequence[tuple[AttackCase, Report]]) -> dict[str, object]:
    """Everything as JSON."""
    return {
        "unit": "CPU seconds, MiB",
        "targets": {"wait_s": WAIT_S, "rise_mib": RISE_MIB, "leak_mib": LEAK_MIB},
        "python": platform.python_version(),
        "cases": [
            {
                "pod": case.attack.name,
                "size": case.size,
                "label_sets": case.label_sets,
                "is_standing": case.is_standing,
                **asdict(report),
                "missed": misses(report),
            }
            for case, report in done
        ],
    }


if __name__ == "__main__":
    sys.exit(as_command(main, "the cases above are complete, no file was written"))
