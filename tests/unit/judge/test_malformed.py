"""Every object that an API server refuses is refused, with its name and the field."""

from __future__ import annotations

import pytest

from stowplan.api.resources import CATALOGED, NODES, PODS
from stowplan.apiserver.kinds import KINDS
from stowplan.judge import answer
from tests.unit.judge.malformed import GOOD, MISTAKES, Mistake

CLUSTER_WIDE = {kind.kind for kind in KINDS if not kind.namespaced}


@pytest.mark.parametrize("kind", GOOD)
def test_the_good_ones_are_good(kind: str) -> None:
    assert "error" not in answer({"objects": [GOOD[kind]], "pod": GOOD["Pod"]})


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_the_error_names_object_and_field(mistake: Mistake) -> None:
    said = answer({"objects": [GOOD["Node"], mistake.made()], "pod": GOOD["Pod"]})
    assert said.keys() == {"id", "error"}
    name = mistake.made()["metadata"].get("name")
    namespace = "" if mistake.kind in CLUSTER_WIDE else "default/"
    shown = f"{mistake.kind} {namespace}{name}" if isinstance(name, str) else mistake.kind
    assert said["error"].startswith(f"objects[1]: {shown}: ")
    problems = said["error"].removeprefix(f"objects[1]: {shown}: ").split("; ")
    assert any(
        problem.startswith(mistake.field) and mistake.words in problem for problem in problems
    ), said["error"]


def test_no_kind_that_plugins_read_is_missing_here() -> None:
    kinds = {NODES.kind, PODS.kind} | {resource.kind for resource in CATALOGED}
    assert kinds <= GOOD.keys()
    assert {mistake.kind for mistake in MISTAKES} == GOOD.keys()
