"""Comparing answers and making questions small. Needs no oracle."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.parity.branches import ALIKE, APART, CYCLE, SKIPPED, ZERO, missing, observe, unexpected
from tests.parity.branches import Hits as Counts
from tests.parity.compare import difference
from tests.parity.generate.configurations import configuration
from tests.parity.generate.dice import Json
from tests.parity.smaller import shrink

ANSWER: Json = {
    "id": 1,
    "nodes": {
        "a": {"code": "Success"},
        "b": {"code": "Success"},
        "c": {
            "code": "Unschedulable",
            "plugin": "NodeResourcesFit",
            "reasons": ["Insufficient example.com/a", "Insufficient example.com/b"],
        },
    },
    "scores": {
        "a": {"ImageLocality": 4, "TaintToleration": 300},
        "b": {"ImageLocality": 0, "TaintToleration": 300},
    },
    "totals": {"a": 304, "b": 300},
    "best": ["a"],
}


def changed(*path: str, to: Any) -> Json:
    other = copy.deepcopy(ANSWER)
    holder = other
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = to
    return other


@pytest.mark.parametrize(
    "other",
    [
        copy.deepcopy(ANSWER),
        changed("id", to=7),
        changed("prefilter", to=None),
        changed(
            *("nodes", "c", "reasons"),
            to=["Insufficient example.com/b", "Insufficient example.com/a"],
        ),
    ],
)
def test_the_same(other: Json) -> None:
    assert difference(ANSWER, other) is None
    assert difference(other, ANSWER) is None


@pytest.mark.parametrize(
    ("other", "kind"),
    [
        (changed("nodes", "a", "code", to="Error"), "nodes: "),
        (changed("nodes", "c", "code", to="Success"), "nodes: NodeResourcesFit"),
        (changed("nodes", "c", "plugin", to="X"), "nodes: NodeResourcesFit or X"),
        (changed("nodes", "c", "reasons", to=["Too many pods"]), "nodes: NodeResourcesFit"),
        (changed("nodes", to={}), "nodes: "),
        (changed("scores", "a", "ImageLocality", to=5), "score of ImageLocality"),
        (changed("scores", "b", to={"TaintToleration": 300}), "score of ImageLocality"),
        (changed("totals", "b", to=301), "totals"),
        (changed("best", to=["a", "b"]), "best"),
        (changed("prefilter", to={"code": "Unschedulable", "plugin": "X"}), "prefilter: X"),
        ({"id": 1, "error": "broken"}, "only theirs is an error"),
    ],
)
def test_not_the_same(other: Json, kind: str) -> None:
    found = difference(ANSWER, other)
    assert found is not None
    assert found.kind == kind
    assert str(found)


def test_errors_are_compared_by_their_words() -> None:
    assert difference({"error": "a\nb"}, {"error": "a; b"}) is None
    found = difference({"error": "a"}, {"error": "b"})
    assert found is not None
    assert found.kind == "text of an error"


def test_what_an_answer_shows() -> None:
    pod = {"spec": {"schedulerName": "default-scheduler", "containers": []}}
    shown = set(observe(configuration(), pod, ANSWER))
    assert {
        (CYCLE, "one best node"),
        ("NodeResourcesFit", "Unschedulable: several reasons"),
        ("NodeResourcesFit", "Unschedulable: Insufficient example.com/a"),
        ("NodeResourcesFit", "decides with strategy LeastAllocated"),
        ("ImageLocality", APART),
        ("ImageLocality", ZERO),
        ("TaintToleration", ALIKE),
        ("NodeAffinity", SKIPPED),
    } <= shown
    assert unexpected(Counts(shown)), "upstream has no such resources in the cases"
    assert (CYCLE, "several best nodes") in missing(Counts(shown))
    assert (CYCLE, "one best node") not in missing(Counts(shown))


def test_shrinking_keeps_what_matters() -> None:
    question: Json = {
        "id": 1,
        "objects": [
            {"kind": "Node", "metadata": {"name": f"n{number}", "labels": {"a": "b", "c": "d"}}}
            for number in range(9)
        ],
        "pod": {"metadata": {"name": "p"}, "spec": {"tolerations": [{"key": "k"}, {"key": "l"}]}},
    }

    def fails(case: Json) -> bool:
        named = {thing["metadata"]["name"]: thing for thing in case["objects"]}
        labels = named.get("n7", {}).get("metadata", {}).get("labels", {})
        tolerations = case.get("pod", {}).get("spec", {}).get("tolerations", ())
        return labels.get("c") == "d" and {"key": "l"} in tolerations

    assert shrink(question, fails) == {
        "id": 1,
        "objects": [{"kind": "Node", "metadata": {"name": "n7", "labels": {"c": "d"}}}],
        "pod": {"metadata": {"name": "p"}, "spec": {"tolerations": [{"key": "l"}]}},
    }


def test_shrinking_a_sequence_puts_steps_together() -> None:
    steps: list[Json] = [{"id": n, "apply": [{"name": f"o{n}"}], "delete": []} for n in range(6)]
    steps[5]["pod"] = {"metadata": {"name": "p"}}

    def fails(case: Json) -> bool:
        names = [thing["name"] for step in case["steps"] for thing in step.get("apply", ())]
        return {"o1", "o4"} <= set(names) and any("pod" in step for step in case["steps"])

    small = shrink({"config": {}, "steps": steps}, fails)
    (step,) = small["steps"]
    assert step["apply"] == [{"name": "o1"}, {"name": "o4"}]
