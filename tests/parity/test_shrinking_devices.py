"""Shrinking a finding about devices. Needs no oracle: a stand-in differs from us on purpose."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any, cast

import pytest

from tests.parity.device_answers import DeviceStream
from tests.parity.device_examine import examine_devices, lines_of
from tests.parity.examine import Examiner, Finding
from tests.parity.generate.dice import Json
from tests.parity.oracle import Oracle


class Differing:
    """Answers as we do, but contradicts us about a pod while a slice is in the cluster."""

    def __init__(self, slice_name: str) -> None:
        self._slice = slice_name
        self.questions = 0

    def answer(self, question: Json) -> Json:
        self.questions += 1
        if question["fresh"]:
            self._us, self._is_there = DeviceStream(), False
        told = {name: value for name, value in question.items() if name != "fresh"}
        said = copy.deepcopy(self._us.respond(told))
        for thing in question.get("apply", ()):
            is_it = (thing["kind"], thing["metadata"]["name"]) == ("ResourceSlice", self._slice)
            self._is_there = self._is_there or is_it
        if self._is_there and "devices" in said:
            said["devices"]["preenqueue"] = {"code": "Error", "reasons": ["on purpose"]}
        return said


def first_slice(line: Json) -> str:
    things = line["apply"]
    return str(next(each["metadata"]["name"] for each in things if each["kind"] == "ResourceSlice"))


@pytest.mark.parametrize("origin", ["devices 1/0", "device history 1/0"])
def test_a_finding_about_devices_is_made_small(origin: str) -> None:
    name = first_slice(next(lines_of(origin)))
    oracle = Differing(name)
    found = examine_devices(cast("Oracle", oracle), lines_of(origin))
    assert found.difference is not None
    assert found.difference.kind == "devices: preenqueue"
    examiner = Examiner(cast("Oracle", oracle))
    small = examiner.shrink(Finding(found.question, found.difference, origin))
    assert small.difference.kind == "devices: preenqueue"
    assert small.origin == origin
    things = [thing for step in small.question["steps"] for thing in step.get("apply", ())]
    assert [thing["metadata"]["name"] for thing in things] == [name], "nothing else matters"
    assert sum("pod" in step for step in small.question["steps"]) == 1
    assert examiner.again(small.question) is not None, "it can be shown again"


def test_shrinking_asks_the_same_questions_each_time() -> None:
    origin = "device history 1/0"
    name = first_slice(next(lines_of(origin)))
    shrunk: list[Any] = []
    for _ in range(2):
        oracle = Differing(name)
        found = examine_devices(cast("Oracle", oracle), lines_of(origin))
        assert found.difference is not None
        small = Examiner(cast("Oracle", oracle)).shrink(Finding(found.question, found.difference))
        shrunk.append((small.question, oracle.questions))
    assert shrunk[0] == shrunk[1]


def test_a_kept_history_takes_answers_like_the_one_it_was_made_from() -> None:
    """`walk` sends our answer to each line, and a list would not take it."""
    origin = "device history 1/0"
    asked = examine_devices(cast("Oracle", Differing("none")), lines_of(origin)).asked
    question = {"devices": True, "steps": list(islice(asked, 5))}
    examiner = Examiner(cast("Oracle", Differing("none")))
    assert examiner.again(question) is None
    assert len(examiner.answers(question)) == sum("pod" in step for step in asked[:5])
