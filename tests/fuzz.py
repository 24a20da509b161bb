"""`make fuzz`: explore the property tests with random examples for a given time.

`make test` runs the same tests on fixed examples (profile `fixed` of tests/conftest.py). Here each
turn runs one file with the profile `explore` and a seed of its own. Every second turn is the
scheduler machine, the others take turns. A turn depends on its seed alone: nothing is remembered
between turns, and the seed also decides the order of sets (PYTHONHASHSEED).

A file that fails is reported at once, its output is kept in fuzz-failures/, and the others go on.
The exit code is 1 if any failed. No turn begins after the time is up.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
FAILURES = ROOT / "fuzz-failures"
MACHINE = TESTS / "property" / "test_scheduler_machine.py"
#: A failing example is made smaller for up to five minutes, and there may be several.
_TURN_S = 1800
_EXAMPLES = re.compile(r"^\s+- (\d+) passing, (\d+) failing", re.MULTILINE)


def property_tests() -> list[Path]:
    """All files with tests of hypothesis, but for the scheduler machine."""
    return [
        file
        for file in sorted(TESTS.rglob("test_*.py"))
        if file != MACHINE and re.search(r"^from hypothesis\b", file.read_text(), re.MULTILINE)
    ]


def turns(others: list[Path]) -> Iterator[Path]:
    for number in count():
        yield MACHINE
        yield others[number % len(others)]


def command(file: Path, seed: int) -> list[str]:
    return [
        sys.executable,
        *("-m", "pytest", str(file.relative_to(ROOT))),
        *("--hypothesis-profile=explore", f"--hypothesis-seed={seed}"),
        *("--hypothesis-show-statistics", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis"),
        *("-o", f"timeout={_TURN_S}"),
    ]


def hash_seed(seed: int) -> str:
    return str(seed % 2**32)


def report(file: Path, seed: int, output: str) -> None:
    FAILURES.mkdir(exist_ok=True)
    kept = FAILURES / f"{file.stem}-{seed}.txt"
    again = f"PYTHONHASHSEED={hash_seed(seed)} " + " ".join(command(file, seed))
    kept.write_text(f"{again}\n\n{output}")
    found = [
        line for line in output.splitlines() if re.match(r"[ |]*E? +\w*(Error|Exception)", line)
    ]
    print(f"\nFAILED {file.relative_to(ROOT)} with seed {seed}")
    print("\n".join(found[:10]))
    print(f"Kept in {kept.relative_to(ROOT)}. To run it again:\n  {again}\n", flush=True)


def explore(minutes: float, base: int, now: Callable[[], float] = time.monotonic) -> int:
    """The number of files that failed."""
    print(f"Exploring for {minutes:g} minutes; SEED={base}", flush=True)
    began = now()
    examples, failed = 0, set[Path]()
    files = turns(property_tests())
    for seed in count(base):
        passed_s = now() - began
        if passed_s >= 60 * minutes:
            break
        file = next(file for file in files if file not in failed)
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed(seed)}
        ran = subprocess.run(
            command(file, seed), cwd=ROOT, env=environment, capture_output=True, text=True
        )
        tried = sum(int(ok) + int(no) for ok, no in _EXAMPLES.findall(ran.stdout))
        examples += tried
        took_s = now() - began - passed_s
        name = file.relative_to(TESTS)
        print(
            f"{passed_s / 60:6.1f} min  seed {seed}  {name}: {tried} examples in {took_s:.0f} s,"
            f" {examples:,} in all, {len(failed)} files failed",
            flush=True,
        )
        if ran.returncode:
            failed.add(file)
            report(file, seed, ran.stdout + ran.stderr)
    minutes_taken = (now() - began) / 60
    print(f"Explored {examples:,} examples in {minutes_taken:.1f} minutes; SEED={base}")
    for file in sorted(failed):
        print(f"FAILED {file.relative_to(ROOT)}")
    return len(failed)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: random")
    parser.add_argument("--reader", metavar="NAME", help="fuzz one reader of bytes, or `all`")
    parser.add_argument("--inputs", type=int, default=10_000, metavar="N", help="for --reader")
    options = parser.parse_args()
    seed = secrets.randbits(31) if options.seed is None else options.seed
    if options.reader is not None:
        from tests.fuzz_readers import READERS, fuzz_reader

        names = READERS if options.reader == "all" else [options.reader]
        return 1 if sum(fuzz_reader(name, options.inputs, seed) for name in names) else 0
    return 1 if explore(options.minutes, seed) else 0


if __name__ == "__main__":
    sys.exit(main())
