"""A fixed run of the fuzzer: the same cases and sequences every time, 0 differences.

`make parity` is the same with more cases and any seed; see tests/parity/__main__.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.judge import Judge
from tests.controlplane_fixtures import require_binaries
from tests.parity.branches import missing, unexpected
from tests.parity.compare import difference
from tests.parity.fuzz import Batch, question_of, run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SEED = 4
CASES = 1500
SEQUENCES = 24


@pytest.fixture(scope="module")
def done() -> Batch:
    """What came of the whole run, by workers on all cores."""
    oracle: Path = require_binaries("oracle")["oracle"]
    total = Batch()
    for batch in run(oracle, seed=SEED, cases=CASES, sequences=SEQUENCES):
        total.add(batch)
    return total


def test_every_answer_is_the_oracles(done: Batch) -> None:
    assert (done.cases, done.sequences) == (CASES, SEQUENCES)
    shown = [f"{finding.origin}: {finding.difference}" for finding in done.findings[:5]]
    advice = f"make parity SEED={SEED} N={CASES} SEQUENCES={SEQUENCES} makes them small"
    assert not done.findings, "\n".join([*shown, advice])


def test_every_branch_was_hit(done: Batch) -> None:
    assert missing(done.hits, CASES) == []


def test_the_list_of_branches_is_complete(done: Batch) -> None:
    assert unexpected(done.hits) == []


def test_checked_lines_are_refused_or_answered_alike() -> None:
    """The fuzzer asks without checking, because some cases are nastier than an API server takes."""
    unchecked, checked = Judge(check=False), Judge()
    refused = 0
    for number in range(150):
        line = question_of(f"case {SEED}/{number}")
        answer = checked.answer(line)
        if "error" in answer:
            refused += 1
        else:
            assert difference(answer, unchecked.answer(line)) is None
    assert refused < 120, "hardly any case is one that an API server would have taken"
