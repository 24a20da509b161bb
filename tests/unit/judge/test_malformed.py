"""Every object that an API server refuses is refused, with its name and the field."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.resources import CATALOGED, NODES, PODS
from stowplan.apiserver.kinds import KINDS
from stowplan.judge import Judge, answer
from tests.unit.judge.malformed import GOOD, MISTAKES, Mistake

CLUSTER_WIDE = {kind.kind for kind in KINDS if not kind.namespaced}


@pytest.mark.parametrize("kind", GOOD)
def test_the_good_ones_are_good(kind: str) -> None:
    assert "error" not in answer({"objects": [GOOD[kind]], "pod": GOOD["Pod"]})


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_the_error_names_object_and_field(mistake: Mistake) -> None:
    judge = Judge(strict=True)
    said = judge.answer({"objects": [GOOD["Node"], mistake.made()], "pod": GOOD["Pod"]})
    assert said.keys() == {"id", "error"}
    name = mistake.made()["metadata"].get("name")
    namespace = "" if mistake.kind in CLUSTER_WIDE else "default/"
    shown = f"{mistake.kind} {namespace}{name}" if isinstance(name, str) else mistake.kind
    assert said["error"].startswith(f"objects[1]: {shown}: ")
    problems = said["error"].removeprefix(f"objects[1]: {shown}: ").split("; ")
    assert any(
        problem.startswith(mistake.field) and mistake.words in problem for problem in problems
    ), said["error"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_what_is_not_refused_is_complained_of(mistake: Mistake) -> None:
    warnings: list[str] = []
    question = {"objects": [GOOD["Node"], mistake.made()], "pod": GOOD["Pod"]}
    said = Judge(warn=warnings.append).answer(question)
    if "error" not in said:
        assert any(mistake.field in warning for warning in warnings)
        assert all(text.endswith("(an API server would refuse it)") for text in warnings)


@pytest.mark.parametrize(
    ("kind", "change", "complaint"),
    [
        (
            "Node",
            {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
            "spec.taints[1]: Duplicate value",
        ),
        ("Service", {"spec": {"selector": {"app": "web"}}}, "spec.ports: Required value"),
        ("ReplicationController", {"spec": {"selector": {"a": "b"}}}, "spec.template: Required"),
        (
            "Pod",
            {"spec": {"containers": [{"name": "main"}]}},
            "spec.containers[0].image: Required value",
        ),
    ],
)
def test_an_object_whose_meaning_is_clear_is_taken(
    kind: str, change: dict[str, Any], complaint: str
) -> None:
    warnings: list[str] = []
    made = {**GOOD[kind], "metadata": {"name": "odd"}, **change}
    question = {"objects": [GOOD["Node"], made], "pod": GOOD["Pod"]}
    said = Judge(warn=warnings.append).answer(question)
    assert "error" not in said
    assert complaint in warnings[0]
    assert complaint in Judge(strict=True).answer(question)["error"]


def test_no_kind_that_plugins_read_is_missing_here() -> None:
    kinds = {NODES.kind, PODS.kind} | {resource.kind for resource in CATALOGED}
    assert kinds <= GOOD.keys()
    assert {mistake.kind for mistake in MISTAKES} == GOOD.keys()
