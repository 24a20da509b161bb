"""`make fuzz`: random examples for the property tests, then random bytes for every reader.

`make test` runs the property tests on fixed examples (profile `fixed` of tests/conftest.py) and
feeds readers their kept inputs. Here each turn runs one file of property tests with the profile
`explore` and a seed of its own. Every second turn is the scheduler machine, the others take turns.
A turn depends on its seed alone: nothing is remembered between turns, and the seed also decides the
order of sets (PYTHONHASHSEED). Then each reader of `tests.fuzzing` gets inputs by mutation, and as
many by coverage where atheris is installed. docs/fuzzing.md describes both.

A failure is reported at once with the command that repeats it, what is needed for that is kept in
fuzz-failures/, and the rest goes on. The exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from tests.fuzzing import corpus, run
from tests.fuzzing.findings import problem_of

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


def fuzz_readers(
    names: Sequence[str], inputs: int, seed: int, engines: Sequence[str], *, keep: bool = False
) -> int:
    """Feed readers, one at a time; returns how many engines have findings."""
    engines = [each for each in engines if each != "coverage" or has_atheris()]
    how = " and as many by ".join(engines)
    print(f"Feeding {len(names)} readers {inputs:,} inputs each by {how}; SEED={seed}", flush=True)
    failed = 0
    for engine in engines:
        arguments = ["--engine", engine, "--inputs", str(inputs), "--seed", str(seed)]
        command = [sys.executable, "-m", "tests.fuzzing.run", *arguments, *names]
        failed += subprocess.run([*command, *(["--keep"] if keep else [])], cwd=ROOT).returncode
    total = len(names) * len(engines) * inputs
    print(f"Fed {len(names)} readers {total:,} inputs; SEED={seed}")
    return failed


def has_atheris() -> bool:
    """Whether inputs can be found by coverage; says so if not."""
    if importlib.util.find_spec("atheris") is not None:
        return True
    print("No inputs by coverage: atheris is not installed (requirements/fuzz.txt)", flush=True)
    return False


def repeat(name: str, file: Path) -> int:
    """Read one input again."""
    from tests.fuzzing.readers import READERS

    data = file.read_bytes()
    problem = problem_of(READERS[name], data)
    print(f"{name}, {len(data)} bytes: {problem or 'no finding'}")
    if problem.partition(" ")[0] not in ("", "hang:"):
        READERS[name].read(data)  # for its traceback
    return 1 if problem else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, metavar="N", default=5.0, help="for property tests; default: 5"
    )
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: random")
    parser.add_argument("--reader", metavar="NAME", help="only this reader of bytes, or `all`")
    parser.add_argument(
        "--inputs", type=int, default=2_000, metavar="N", help="per reader; default: 2000"
    )
    parser.add_argument("--engine", choices=run.ENGINES, help="default: both")
    parser.add_argument("--repeat", type=Path, metavar="FILE", help="give --reader this input")
    parser.add_argument(
        "--keep", action="store_true", help="add inputs that reach new lines to tests/data/fuzz"
    )
    options = parser.parse_args()
    seed = secrets.randbits(31) if options.seed is None else options.seed
    names = sorted(each.name for each in corpus.CORPUS.iterdir())
    if options.reader not in (None, "all", *names):
        parser.error(f"no reader {options.reader}; there are {', '.join(names)}")
    if options.repeat is not None:
        if options.reader in (None, "all"):
            parser.error("--repeat goes with --reader NAME")
        if not options.repeat.is_file():
            parser.error(f"--repeat {options.repeat}: no such file")
        return repeat(options.reader, options.repeat)
    failed = 0 if options.reader else explore(options.minutes, seed)
    chosen = names if options.reader in (None, "all") else [options.reader]
    engines = [options.engine] if options.engine else run.ENGINES
    failed += fuzz_readers(chosen, options.inputs, seed, engines, keep=options.keep)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
