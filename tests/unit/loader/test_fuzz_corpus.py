"""Inputs that fuzzing began with or found, read again by their readers."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from tests.fuzz_readers import READERS, kept, mutations, problem_of


@pytest.mark.parametrize("name", READERS)
def test_kept_inputs(name: str) -> None:
    inputs = kept(name)
    assert inputs != [b""], "tests/data/fuzz has a folder with the reader's name"
    for data in [*inputs, *islice(mutations(inputs, random.Random(0)), 50)]:
        assert problem_of(READERS[name], data) == "", data[:500]
