"""Feed readers a number of inputs each: `python -m tests.fuzzing.run --engine mutation json yaml`.

`tests.fuzz` starts one process for each engine. Each reader gets a fork of it, because an input can
end a process by a signal, or use all memory. Inputs of the engine `mutation` depend on the seed and
the corpus alone. The engine `coverage` (atheris) begins with the corpus and goes on with what
reached new code.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import logging
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from stowplan.present.status_line import StatusLine
from tests.fuzzing import corpus
from tests.fuzzing.findings import Current, Findings, Reader, limit_memory, problem_of
from tests.fuzzing.mutations import LONGEST, mutations

ENGINES = ("mutation", "coverage")
_PLAIN_S = 60.0


class Feed:
    """One reader and the inputs that it got, shown while they are read."""

    def __init__(
        self, name: str, reader: Reader, what: str, wanted: int, folder: Path, line: StatusLine
    ) -> None:
        self.findings = Findings(name)
        self._reader = reader
        self._what = what
        self._wanted = wanted
        self._current = Current(folder / "current", LONGEST)
        self._fed = 0
        self._began = time.monotonic()
        self._line = line

    def read(self, data: bytes) -> bool:
        """Have an input read; True if it was the last."""
        self._current.put(data)
        problem = problem_of(self._reader, data)
        if problem:
            self.findings.add(problem, data)
        self._fed += 1
        if self._fed % 64 == 0:
            self._line.update(lambda: f"{self._what}: {self._fed:,} of {self._wanted:,}")
        if self._fed < self._wanted:
            return False
        self._line.erase()
        took_s = max(time.monotonic() - self._began, 0.001)
        print(
            f"{self._what}: {self._fed:,} inputs in {took_s:.0f} s"
            f" ({self._fed / took_s:,.0f} a second), {len(self.findings)} findings",
            flush=True,
        )
        return True


def by_mutation(name: str, feed: Feed, seed: int) -> None:
    limit_memory()
    stream = mutations(corpus.kept(name), random.Random(seed))
    while not feed.read(next(stream)):
        pass
    _end(1 if len(feed.findings) else 0)


def by_coverage(name: str, feed: Feed, seed: int, new: Path) -> None:
    atheris = importlib.import_module("atheris")  # without types

    def read(data: bytes) -> None:
        if feed.read(data):
            _end(1 if len(feed.findings) else 0)

    new.mkdir()
    limits = ["-runs=-1", f"-max_len={LONGEST}", "-timeout=60", "-rss_limit_mb=4096"]
    quiet = ["-verbosity=0", f"-artifact_prefix={new.parent}/"]
    places = [str(new), str(corpus.CORPUS / name)]
    atheris.Setup(["fuzz", *limits, *quiet, f"-seed={seed % 2**31 or 1}", *places], read)
    atheris.Fuzz()


def keep_new(name: str, reader: Reader, new: Path) -> None:
    """Add those inputs to the corpus that run lines which no kept one runs."""
    found = [file.read_bytes() for file in new.iterdir()]
    for data in corpus.kept(name):  # what is made once is no input's merit
        problem_of(reader, data)
    added, gone = corpus.keep_adding(
        name, found, lambda data: corpus.lines_of(lambda: problem_of(reader, data))
    )
    print(f"{name}: {added} inputs added to the corpus, {gone} dropped", flush=True)
    _end(0)


def feed_reader(name: str, reader: Reader, options: argparse.Namespace, terminal: TextIO) -> bool:
    """Feed one reader in a process of its own; False if there was a finding."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)

        def feed() -> None:
            line = StatusLine(terminal, plain_interval_s=_PLAIN_S, delay_s=1.0)
            feed = Feed(name, reader, f"{name} ({options.engine})", options.inputs, folder, line)
            if options.engine == "coverage":
                by_coverage(name, feed, options.seed, folder / "new")
            else:
                by_mutation(name, feed, options.seed)

        status = _in_child(feed)
        if status not in (0, 1):
            how = f"by signal {-status}" if status < 0 else f"with {status}"
            data = Current.read(folder / "current")
            Findings(name).add(f"the process ended {how}: {options.engine}", data)
        if options.keep and (folder / "new").exists():
            _in_child(lambda: keep_new(name, reader, folder / "new"))
    return status == 0


def _in_child(work: Callable[[], None]) -> int:
    """The exit code of a fork that does the work; negative for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    atexit._clear()  # what the parent registered is for the parent to do
    try:
        work()
    except BaseException:
        print(traceback.format_exc())
    _end(3)
    return 3


def _end(code: int) -> None:
    """End a fork, with its own clean-up and none of libFuzzer's."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def silence() -> TextIO:
    """Keep atheris and libFuzzer, which write about themselves, off standard error."""
    terminal = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    return terminal


def load_readers(engine: str) -> Mapping[str, Reader]:
    """All readers; for atheris with code that tells which branches are taken."""
    if engine == "coverage":
        atheris = importlib.import_module("atheris")
        with atheris.instrument_imports(include=["stowplan"]):
            from tests.fuzzing import readers
    else:
        from tests.fuzzing import readers
    readers.find_distributions_once()
    return readers.READERS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing.run", description=__doc__)
    parser.add_argument("readers", nargs="+", metavar="READER")
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--inputs", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--keep", action="store_true", help="add to the corpus what adds coverage")
    options = parser.parse_args()
    logging.getLogger("stowplan").propagate = False
    warnings.simplefilter("ignore")
    terminal = silence() if options.engine == "coverage" else sys.stderr
    readers = load_readers(options.engine)
    failed = [
        name for name in options.readers if not feed_reader(name, readers[name], options, terminal)
    ]
    for name in failed:
        print(f"FAILED {name} ({options.engine})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
