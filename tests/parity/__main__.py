"""The command line: ``python -m tests.parity [--cases 10000] [--sequences 200] [--seed 1]``

Called by ``make parity``. Progress goes to standard error, the table to standard output. Ends with
1 if answers differ or something that the cases must show of a plugin was not shown. A difference is
made small and kept as a regression file; ``--show "case 1/17"`` makes one from its origin again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from stowplan.lab.controlplane import BinaryMissing, find_binary
from tests.parity.branches import Hits, expected, missing, unexpected
from tests.parity.examine import Examiner, Finding
from tests.parity.fuzz import WORKERS, Batch, examine, missing_of_devices, question_of, run
from tests.parity.oracle import Oracle
from tests.parity.progress import Progress
from tests.parity.regressions import FOLDER, keep

#: So many differences of different kinds are made small; whoever has more has enough to do.
_MOST_KEPT = 5


def main() -> int:
    options = _options()
    try:
        oracle = find_binary("oracle")
    except BinaryMissing as problem:
        print(problem, file=sys.stderr)
        return 1
    if options.show:
        return _show(oracle, options.show)
    total = Batch()
    started = time.monotonic()
    asked = (options.cases, options.sequences, options.device_cases, options.device_histories)
    with Progress(sum(asked), sys.stderr) as progress:
        for batch in run(
            oracle,
            seed=options.seed,
            cases=options.cases,
            sequences=options.sequences,
            device_cases=options.device_cases,
            device_histories=options.device_histories,
            workers=options.workers,
        ):
            total.add(batch)
            of_devices = batch.device_cases + batch.device_histories
            progress.advance(batch.cases + batch.sequences + of_devices, len(total.findings))
    elapsed = time.monotonic() - started
    _print_table(total.hits)
    for what, count in sorted(total.device_hits.items()):
        print(f"{'devices':<32}{count:>8}  {what}")
    _report(oracle, total.findings, options.keep)
    absent, unknown = missing(total.hits, total.cases), unexpected(total.hits)
    absent += [("DynamicResources", what) for what in missing_of_devices(total)]
    for plugin, what in absent:
        print(f"NO HIT: {plugin}: {what}")
    for plugin, what in unknown:
        print(f"NOT ON THE LIST (tests/parity/branches.py): {plugin}: {what}")
    print(
        f"{total.cases} cases and {total.sequences} sequences, {total.device_cases} cases and"
        f" {total.device_histories} histories of devices ({total.steps} steps) with seed"
        f" {options.seed}, {total.choices} choices among them, in {elapsed:.0f} s:"
        f" {len(total.findings)} differences, {len(absent)} branches without a hit"
    )
    return 1 if total.findings or absent or unknown else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--device-cases", type=int, default=10_000)
    parser.add_argument("--device-histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument(
        "--keep", type=Path, default=FOLDER, help="folder for what was answered differently"
    )
    parser.add_argument("--show", metavar="ORIGIN", help="ask one, such as 'case 1/17', and print")
    return parser.parse_args()


def _print_table(hits: Hits) -> None:
    plugin = ""
    for name, what in [*expected(), *unexpected(hits)]:
        print(f"{'' if name == plugin else name:<32}{hits[name, what]:>8}  {what}")
        plugin = name


def _report(oracle: Path, findings: list[Finding], folder: Path) -> None:
    """Show and keep the first finding of each kind."""
    kinds = {finding.difference.kind: finding for finding in reversed(findings)}
    with Oracle(oracle) as running:
        examiner = Examiner(running)
        for kind, finding in list(kinds.items())[:_MOST_KEPT]:
            alike = sum(other.difference.kind == kind for other in findings)
            print(f"\nDIFFERENT: {kind} ({alike} times; first in {finding.origin})")
            small = examiner.shrink(finding)
            print(small.difference)
            print(f"kept as {keep(small, examiner, folder)}\n")


def _show(oracle: Path, origin: str) -> int:
    with Oracle(oracle) as running:
        examiner = Examiner(running)
        batch = examine(examiner, [origin])
        print(json.dumps(question_of(origin)))
        for finding in batch.findings:
            print(finding.difference)
    return 1 if batch.findings else 0


if __name__ == "__main__":
    sys.exit(main())
