"""Random cases and sequences are what the comparisons take them for. Needs no oracle."""

from __future__ import annotations

import json

import pytest

from stowplan.cluster.table import NodeTable
from tests.parity.detours import long_way
from tests.parity.fuzz import question_of
from tests.parity.generate.case import Key, key_of
from tests.parity.generate.dice import Json
from tests.parity.tight import tight


def objects_after(steps: list[Json]) -> dict[Key, Json]:
    """What is there when all steps are done; fails on a step that says two things at once."""
    there: dict[Key, Json] = {}
    for step in steps:
        applied = {key_of(thing): thing for thing in step.get("apply", ())}
        deleted = [
            (gone["kind"], gone.get("namespace", ""), gone["name"])
            for gone in step.get("delete", ())
        ]
        assert len(applied) == len(step.get("apply", ()))
        assert not applied.keys() & set(deleted)
        for key in deleted:
            del there[key]
        there.update(applied)
    return there


@pytest.mark.parametrize("origin", ["case 1/0", "sequence 1/0", "sequence 1/9"])
def test_the_same_seed_is_the_same_question(origin: str) -> None:
    assert json.dumps(question_of(origin)) == json.dumps(question_of(origin))
    assert json.dumps(question_of(origin)) != json.dumps(question_of(f"{origin}1"))


def test_objects_of_a_case_are_there_once() -> None:
    for number in range(100):
        line = question_of(f"case 2/{number}")
        keys = [key_of(thing) for thing in line["objects"]]
        assert len(keys) == len(set(keys))


def test_the_long_way_ends_where_the_case_begins() -> None:
    changed = 0
    for number in range(50):
        line = question_of(f"case 3/{number}")
        steps = long_way(line)["steps"]
        there = objects_after(steps)
        assert there == {key_of(thing): thing for thing in line["objects"]}
        assert steps[-1]["pod"] == line["pod"]
        before = objects_after(steps[:1])
        changed += any(before.get(key, thing) != thing for key, thing in there.items())
    assert changed > 40


@pytest.mark.parametrize("number", range(12))
def test_a_sequence_adds_changes_removes_and_asks(number: int) -> None:
    story = question_of(f"sequence 4/{number}")
    steps = story["steps"]
    assert len(steps) >= 50
    assert sum("pod" in step for step in steps) > 25
    changes: dict[str, int] = {"add": 0, "change": 0, "delete": 0}
    for place, step in enumerate(steps[1:], 1):
        before = objects_after(steps[:place])
        for thing in step["apply"]:
            changes["change" if key_of(thing) in before else "add"] += 1
        changes["delete"] += len(step["delete"])
    assert min(changes.values()) > 3, changes
    assert sum(changes.values()) > 50, changes


def test_large_sequences_are_large() -> None:
    there = objects_after(question_of("sequence 4/9")["steps"])
    assert sum(key[0] == "Node" for key in there) > 50
    assert sum(key[0] == "Pod" for key in there) > 100


def test_tight_tables_grow() -> None:
    with tight():
        assert NodeTable().capacity == 2
    assert NodeTable().capacity > 2
