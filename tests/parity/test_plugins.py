"""Our plugins against kube-scheduler's own, on random clusters.

Which plugins are compared follows from the registry: whatever it shares with kube-scheduler's
default profile. A difference is shown with the smallest question that still brings it about, which
can be given to the oracle as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from stowplan.errors import PluginError
from stowplan.framework.plugin import points_of
from stowplan.plugins.registry import IN_TREE
from tests.parity.generate.case import large_case, random_case
from tests.parity.generate.configurations import SHARED
from tests.parity.oracle import Oracle, OracleError
from tests.parity.ours import COLUMNS, PER_NODE, World
from tests.parity.smaller import shrink

Json: TypeAlias = dict[str, Any]
#: From what we say and what the oracle says to a pair that must be equal.
Compare: TypeAlias = Callable[[World, Json], tuple[Any, Any]]

pytestmark = pytest.mark.e2e

CASES = 450
LARGE_CASES = 20
POINTS = {plugin.name: points_of(plugin) for plugin in IN_TREE}
FILTERS = [name for name in SHARED if "filter" in POINTS[name]]
SCORES = [name for name in SHARED if "score" in POINTS[name]]
#: Upstream ranges over a Go map for these, so the order of its reasons is anybody's guess.
REASONS_IN_ANY_ORDER = {"NodeResourcesFit"}


@pytest.fixture(scope="module")
def asked(oracle: Oracle) -> list[tuple[Json, World, Json]]:
    """Every question, read by us, and the oracle's answer."""
    cases = [{**random_case(seed, plain=True), "scoreAll": True} for seed in range(CASES)]
    return [(case, World(case), oracle.ask(case)) for case in cases]


def _check(asked: list[tuple[Json, World, Json]], oracle: Oracle, compare: Compare) -> None:
    for case, world, answer in asked:
        ours, theirs = _pair(compare, world, answer)
        if ours != theirs:
            _report(case, oracle, compare)


def _pair(compare: Compare, world: World, answer: Json) -> tuple[Any, Any]:
    try:
        return compare(world, answer)
    except Exception as problem:
        # To be shown with the question that it came from, as any other difference.
        return f"{type(problem).__name__}: {problem}", "an answer"


def _report(case: Json, oracle: Oracle, compare: Compare) -> None:
    """Fail with the smallest question that brings about a difference."""

    def differs(smaller: Json) -> bool:
        if "pod" not in smaller:
            return False
        try:
            ours, theirs = _pair(compare, World(smaller), oracle.ask(smaller))
        except OracleError:
            return False
        return bool(ours != theirs)

    small = shrink(case, differs)
    ours, theirs = _pair(compare, World(small), oracle.ask(small))
    pytest.fail(
        f"we say      {json.dumps(ours, sort_keys=True)}\n"
        f"upstream    {json.dumps(theirs, sort_keys=True)}\n"
        f"when asked  {json.dumps(small)}",
        pytrace=False,
    )


def _errors(name: str, answer: Json | None) -> list[str]:
    """What upstream's cycle would end with, for each node on which the plugin fails."""
    return [
        f'running "{name}" filter plugin: {", ".join(verdict["reasons"])}'
        for verdict in ((answer or {}).get("nodes") or {}).values()
        if verdict["code"] == "Error"
    ]


def _sorted_reasons(answer: Json | None) -> Json | None:
    for verdict in (answer or {}).get("nodes", {}).values():
        verdict.get("reasons", []).sort()
    return answer


@pytest.mark.parametrize("form", [COLUMNS, PER_NODE])
@pytest.mark.parametrize("name", FILTERS)
def test_filters(
    name: str, form: str, asked: list[tuple[Json, World, Json]], oracle: Oracle
) -> None:
    def compare(world: World, answer: Json) -> tuple[Any, Any]:
        theirs = answer["filter"].get(name)
        errors = _errors(name, theirs)
        try:
            ours = world.filter(name, form)
        except PluginError as problem:
            # Upstream asks several nodes at once, so that any of these errors may be the first.
            return str(problem), str(problem) if str(problem) in errors else errors
        if name in REASONS_IN_ANY_ORDER:
            ours, theirs = _sorted_reasons(ours), _sorted_reasons(theirs)
        return ours, theirs

    _check(asked, oracle, compare)


@pytest.mark.parametrize("form", [COLUMNS, PER_NODE])
@pytest.mark.parametrize("name", SCORES)
def test_scores(
    name: str, form: str, asked: list[tuple[Json, World, Json]], oracle: Oracle
) -> None:
    _check(
        asked, oracle, lambda world, answer: (world.score(name, form), answer["score"].get(name))
    )


def test_order_of_nodes(asked: list[tuple[Json, World, Json]], oracle: Oracle) -> None:
    _check(asked, oracle, lambda world, answer: (world.order, answer["order"]))


def _outcomes(world: World, answer: Json) -> tuple[Any, Any]:
    ours, theirs = world.decide(), {"plugins": [], **answer["outcome"]}
    # Whom it would cost to make room is compared in test_preemption.
    theirs.pop("room", None)
    if not theirs["node"]:
        # How many nodes were looked at is said of successful attempts only.
        del theirs["evaluated"]
    if "totals" not in theirs and theirs["feasible"] > 1:
        # The oracle cannot tell which of the nodes were looked at when not all were.
        del ours["totals"]
    totals = theirs.get("totals", {})
    narrowed = any("only" in given for given in answer["filter"].values())
    if narrowed and totals.get(ours["node"], 0) == max(totals.values(), default=1):
        # Upstream takes the nodes that PreFilter names in the order of a Go map: any of the best
        # may be the one it finds first.
        theirs["node"] = ours["node"]
    return ours, theirs


def test_decisions(asked: list[tuple[Json, World, Json]], oracle: Oracle) -> None:
    _check(asked, oracle, _outcomes)


def test_decisions_in_large_clusters(oracle: Oracle) -> None:
    cases = [large_case(seed) for seed in range(LARGE_CASES)]
    answers = [(case, World(case), oracle.ask(case)) for case in cases]
    partly = [
        seed
        for seed, (case, _, answer) in enumerate(answers)
        if 0 < answer["outcome"]["evaluated"] < len(case["nodes"])
    ]
    assert len(partly) > LARGE_CASES // 4, "hardly any case is about looking at a part of the nodes"
    _check(answers, oracle, _outcomes)


#: These see nothing that they could object to in any of the cases.
_INERT = {"DynamicResources"}
#: These have only ever the same score for all nodes.
_INDIFFERENT = {*_INERT, "VolumeBinding"}


@pytest.mark.parametrize("name", FILTERS)
def test_cases_reach_both_verdicts(name: str, asked: list[tuple[Json, World, Json]]) -> None:
    """Otherwise all of the above would say little about the plugin."""
    codes = [
        verdict["code"]
        for _, _, answer in asked
        for verdict in answer["filter"][name].get("nodes", {}).values()
    ]
    if name in _INERT:
        assert not codes, f"{name} has something to say after all: take it off the list"
        return
    accepted = codes.count("Success")
    assert accepted > 20
    assert len(codes) - accepted > 20


@pytest.mark.parametrize("name", SCORES)
def test_cases_reach_different_scores(name: str, asked: list[tuple[Json, World, Json]]) -> None:
    varied = [
        answer["score"][name]
        for _, _, answer in asked
        if len(set(answer["score"][name].get("raw", {}).values())) > 1
    ]
    if name in _INDIFFERENT:
        assert not varied, f"{name} tells nodes apart after all: take it off the list"
    else:
        assert len(varied) > 20


def test_cases_reach_ties_and_failures(asked: list[tuple[Json, World, Json]]) -> None:
    outcomes = [answer["outcome"] for _, _, answer in asked]
    totals = [sorted(outcome["totals"].values()) for outcome in outcomes if "totals" in outcome]
    assert sum(scores[-1] == scores[-2] for scores in totals) > 5
    assert sum(scores[-1] != scores[-2] for scores in totals) > 20
    assert sum(not outcome["node"] for outcome in outcomes) > 50
