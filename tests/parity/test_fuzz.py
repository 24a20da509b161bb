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


def test_every_answer_is_the_oracles_and_every_branch_is_hit() -> None:
    """One test, because the run takes a while: all that it has to say is said at once."""
    oracle: Path = require_binaries("oracle")["oracle"]
    done = Batch()
    for batch in run(oracle, seed=SEED, cases=CASES, sequences=SEQUENCES):
        done.add(batch)
    assert (done.cases, done.sequences) == (CASES, SEQUENCES)
    problems = [f"{finding.origin}: {finding.difference}" for finding in done.findings[:5]]
    if problems:
        advice = f"make parity SEED={SEED} N={CASES} SEQUENCES={SEQUENCES}"
        problems.append(f"{advice} makes the differences small and keeps them")
    problems += [f"no hit: {plugin}: {what}" for plugin, what in missing(done.hits, CASES)]
    problems += [
        f"not on the list in branches.py: {plugin}: {what}"
        for plugin, what in unexpected(done.hits)
    ]
    assert not problems, "\n".join(problems)


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
    assert refused < 30, "hardly any case is one that an API server would have taken"
