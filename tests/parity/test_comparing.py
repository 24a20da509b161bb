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


CHOICE: Json = {
    "node": "a",
    "evaluated": 3,
    "feasible": 2,
    "totals": ANSWER["totals"],
    "scores": ANSWER["scores"],
}
CHOSEN: Json = {**ANSWER, "choice": {"node": "a", "evaluated": 3, "feasible": 2}}
UNFIT: Json = {"message": "0/3 nodes are available: 3 Too many pods.", "plugins": ["X"]}
FAILED: Json = {**ANSWER, "choice": {"node": "", "evaluated": 0, "feasible": 0, **UNFIT}}
TIED: Json = {**CHOSEN, "totals": {"a": 300, "b": 300}, "best": ["a", "b"]}


def chosen(*choices: Json, answer: Json = ANSWER, start: int = 0) -> Json:
    return {**answer, "choices": list(choices), "order": ["a", "b", "c"], "start": start}


def test_every_choice_is_compared() -> None:
    assert difference(chosen(CHOICE, CHOICE), CHOSEN) is None
    assert difference(chosen(UNFIT), FAILED) is None
    for wrong, kind in [
        ({**CHOICE, "node": "b"}, "decide: node"),
        ({**CHOICE, "evaluated": 2}, "decide: evaluated"),
        ({**CHOICE, "scores": {}}, "decide: scores"),
        (UNFIT, "decide: node"),
        ({"error": "x"}, "decide: node"),
    ]:
        found = difference(chosen(CHOICE, wrong), CHOSEN)
        assert found is not None
        assert found.kind == kind
        assert "2. time" in str(found)
    found = difference(chosen({**UNFIT, "message": "0/3 nodes are available."}), FAILED)
    assert found is not None
    assert found.kind == "decide: message"


def test_of_some_of_the_feasible_nodes_only_the_choice_is_compared() -> None:
    theirs = {**CHOSEN, "totals": {"a": 304, "b": 300, "c": 299}}
    ours = {**theirs, "best": ["a"]}
    partly = {**CHOICE, "totals": {"a": 7, "c": 9}}
    assert difference(chosen(partly, answer=ours), theirs) is None
    assert difference(chosen({**partly, "node": "c"}, answer=ours), theirs) is not None
    assert difference(chosen({**partly, "evaluated": 2}, answer=ours), theirs) is not None


def test_the_first_in_the_order_wins_a_tie() -> None:
    first = {**CHOICE, "totals": TIED["totals"]}
    second = {**first, "node": "b"}
    ours = {**TIED, "scores": ANSWER["scores"]}
    for order, start, winner in [
        ("abc", 0, "a"),
        ("bac", 0, "b"),
        ("abc", 1, "b"),
        ("abc", 2, "a"),
    ]:
        theirs = {**TIED, "order": list(order)}
        for choice in (first, second):
            found = difference(chosen(choice, answer=ours, start=start), theirs)
            assert (found is None) == (choice["node"] == winner)


def test_any_of_the_best_may_be_chosen_where_pre_filter_names_nodes() -> None:
    nodes = {**ANSWER["nodes"], "c": {"code": "ExcludedByPreFilter"}}
    theirs = {**TIED, "nodes": nodes}
    ours = {**TIED, "nodes": nodes}
    choice = {**CHOICE, "totals": TIED["totals"]}
    assert difference(chosen({**choice, "node": "b"}, answer=ours), theirs) is None
    assert difference(chosen({**choice, "node": "c"}, answer=ours), theirs) is not None


def test_where_a_plugin_breaks_nothing_is_chosen() -> None:
    broken: Json = {"error": "a"}
    assert difference(chosen({"error": "b"}, answer=broken), broken) is None
    assert difference(chosen(CHOICE, answer=broken), broken) is not None
    # Except before the search comes to that node, as where the pod was nominated to.
    assert difference(chosen({"node": "a", "evaluated": 1}, answer=broken), broken) is None


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
