"""Many random cases and sequences on all cores: workers with an oracle each.

Called by `python -m tests.parity` and by the tests. The main process hands out numbers and adds up;
a worker makes the cases, asks, and returns what it found. What must stay true: a run is the same
for the same seed, whatever the number of workers.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.parity.branches import Hits
from tests.parity.device_examine import examine_devices, lines_of
from tests.parity.device_hits import MUST, MUST_OF_HISTORIES
from tests.parity.examine import Examiner, Finding
from tests.parity.generate.case import line, random_case
from tests.parity.generate.dice import Json
from tests.parity.generate.sequence import sequence
from tests.parity.oracle import Oracle

WORKERS = min(os.cpu_count() or 1, 8)
_CASES_AT_ONCE = 20
_SEQUENCES_AT_ONCE = 2


@dataclass
class Batch:
    """What came of some cases or sequences."""

    cases: int = 0
    sequences: int = 0
    steps: int = 0
    #: Times that we chose a node and the oracle had to choose the same.
    choices: int = 0
    hits: Hits = field(default_factory=Hits)
    #: Questions about devices, histories of them, and what they have shown.
    device_cases: int = 0
    device_histories: int = 0
    device_hits: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Batch) -> None:
        self.cases += other.cases
        self.sequences += other.sequences
        self.steps += other.steps
        self.choices += other.choices
        self.hits.update(other.hits)
        self.device_cases += other.device_cases
        self.device_histories += other.device_histories
        self.device_hits.update(other.device_hits)
        self.findings += other.findings


def run(
    oracle: Path,
    *,
    seed: int,
    cases: int = 0,
    sequences: int = 0,
    device_cases: int = 0,
    device_histories: int = 0,
    workers: int = WORKERS,
) -> Iterator[Batch]:
    """Batches as they are done; the findings in them are not shrunk."""
    # Not forked: the caller may have threads.
    context = multiprocessing.get_context("spawn")
    origins = [
        *_portions(f"case {seed}", cases, _CASES_AT_ONCE),
        *_portions(f"sequence {seed}", sequences, _SEQUENCES_AT_ONCE),
        *_portions(f"devices {seed}", device_cases, _CASES_AT_ONCE),
        *_portions(f"device history {seed}", device_histories, _SEQUENCES_AT_ONCE),
    ]
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = [pool.submit(_work, oracle, some) for some in origins]
        try:
            for job in jobs:
                yield job.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _portions(kind: str, total: int, size: int) -> list[list[str]]:
    names = [f"{kind}/{number}" for number in range(total)]
    return [names[start : start + size] for start in range(0, total, size)]


def _work(oracle: Path, origins: list[str]) -> Batch:
    return examine(_examiner(oracle), origins)


@cache
def _examiner(oracle: Path) -> Examiner:
    """The worker's own; never closed: the oracle ends with the worker, whose pipe it reads."""
    return Examiner(Oracle(oracle).__enter__())


def examine(examiner: Examiner, origins: list[str]) -> Batch:
    """Ask about what `question_of` makes of these origins."""
    batch = Batch()
    examiner.hits = batch.hits
    examiner.choices = 0
    for origin in origins:
        if origin.startswith("device"):
            _examine_devices(examiner, origin, batch)
            continue
        question = question_of(origin)
        if "steps" in question:
            found = examiner.sequence(question)
            batch.sequences += 1
            batch.steps += len(question["steps"])
        else:
            found = examiner.case(question)
            batch.cases += 1
        if found is not None:
            found.origin = origin
            batch.findings.append(found)
    batch.choices += examiner.choices
    return batch


def _examine_devices(examiner: Examiner, origin: str, batch: Batch) -> None:
    done = examine_devices(examiner.oracle, lines_of(origin))
    if "history" in origin:
        batch.device_histories += 1
        batch.steps += len(done.asked)
    else:
        batch.device_cases += 1
    batch.choices += done.choices
    batch.device_hits.update(done.hits)
    if done.difference is not None:
        batch.findings.append(Finding(done.question, done.difference, origin))


def missing_of_devices(batch: Batch, *, least: int = 3000) -> list[str]:
    """What a run of so many questions about devices, or more, had to show and did not."""
    must = MUST if batch.device_cases >= least else []
    must = [*must, *(MUST_OF_HISTORIES if batch.device_histories >= least // 30 else [])]
    return [what for what in must if not batch.device_hits[what]]


def question_of(origin: str) -> Json:
    """The line of `case 1/17`, or the sequence of `sequence 1/3`; one in ten is large.

    Of questions about devices the first line: the others depend on the answers.
    """
    if origin.startswith("device"):
        return {"devices": True, "steps": [next(lines_of(origin))]}
    if origin.startswith("sequence "):
        return sequence(origin, large=origin.endswith("9"))
    return line(random_case(origin), origin)
