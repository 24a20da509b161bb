"""Inputs that fuzzing began with or found, read again by their readers; docs/fuzzing.md."""

from __future__ import annotations

import random
import re
from itertools import islice
from pathlib import Path

import pytest

from tests.fuzzing.corpus import CORPUS, kept
from tests.fuzzing.findings import problem_of
from tests.fuzzing.mutations import mutations
from tests.fuzzing.readers import READERS

PAGE = Path(__file__).parents[3] / "docs" / "fuzzing.md"


@pytest.mark.parametrize("name", READERS)
def test_kept_inputs(name: str) -> None:
    inputs = kept(name)
    for data in [*inputs, *islice(mutations(inputs, random.Random(0)), 50)]:
        assert problem_of(READERS[name], data) == "", data[:500]


@pytest.mark.parametrize("name", READERS)
def test_some_kept_input_is_accepted(name: str) -> None:
    """Mutations of inputs that are all refused at once would find nothing."""
    reader = READERS[name]

    def is_accepted(data: bytes) -> bool:
        try:
            reader.read(data)
        except reader.expected:
            return False
        return True

    assert any(map(is_accepted, kept(name)))


def test_every_reader_has_inputs_and_the_other_way_round() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == {*READERS}
    assert [file for file in CORPUS.rglob("*") if file.stat().st_size > 12_000] == []


def test_the_page_lists_every_reader_with_what_feeds_it() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == {name: reader.fed_by for name, reader in READERS.items()}
