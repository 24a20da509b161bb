"""Requests that together pass an int64: a node that holds them is full, whatever is added up."""

from __future__ import annotations

import pytest

from tests.parity.compare import difference
from tests.parity.examine import Examiner, alone
from tests.parity.generate.case import line, random_case
from tests.parity.generate.dice import Dice
from tests.parity.generate.huge import beyond
from tests.parity.oracle import Oracle

pytestmark = pytest.mark.e2e

CASES = 150


def test_sums_beyond_an_int64_are_exact(oracle: Oracle) -> None:
    """The oracle, whose sums wrap around, is asked about pods that ask for a bit less."""
    examiner = Examiner(oracle)
    insufficient = 0
    for number in range(CASES):
        case = random_case(f"beyond {number}")
        tamed = beyond(Dice(f"beyond {number}"), case)
        (theirs,) = examiner.answers(line(tamed))
        found = difference(alone(examiner.judge, line(case)), theirs)
        assert found is None, f"{number}: {found}"
        insufficient += "Insufficient" in str(theirs)
    assert insufficient > CASES / 10
