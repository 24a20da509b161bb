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

from stowplan.framework.plugin import points_of
from stowplan.plugins.registry import IN_TREE
from tests.parity.cases import SHARED, random_case
from tests.parity.oracle import Oracle, OracleError
from tests.parity.ours import COLUMNS, PER_NODE, World
from tests.parity.smaller import shrink

Json: TypeAlias = dict[str, Any]
#: From what we say and what the oracle says to a pair that must be equal.
Compare: TypeAlias = Callable[[World, Json], tuple[Any, Any]]

pytestmark = pytest.mark.e2e

CASES = 450
POINTS = {plugin.name: points_of(plugin) for plugin in IN_TREE}
FILTERS = [name for name in SHARED if "filter" in POINTS[name]]
SCORES = [name for name in SHARED if "score" in POINTS[name]]
#: Upstream ranges over a Go map for these, so the order of its reasons is anybody's guess.
REASONS_IN_ANY_ORDER = {"NodeResourcesFit"}


@pytest.fixture(scope="module")
def asked(oracle: Oracle) -> list[tuple[Json, World, Json]]:
    """Every question, read by us, and the oracle's answer."""
    cases = [random_case(seed) for seed in range(CASES)]
    return [(case, World(case), oracle.ask(case)) for case in cases]


def _check(asked: list[tuple[Json, World, Json]], oracle: Oracle, compare: Compare) -> None:
    for case, world, answer in asked:
        ours, theirs = compare(world, answer)
        if ours == theirs:
            continue

        def differs(smaller: Json) -> bool:
            try:
                pair = compare(World(smaller), oracle.ask(smaller))
            except OracleError:
                return False
            return bool(pair[0] != pair[1])

        small = shrink(case, differs)
        ours, theirs = compare(World(small), oracle.ask(small))
        pytest.fail(
            f"we say      {json.dumps(ours, sort_keys=True)}\n"
            f"upstream    {json.dumps(theirs, sort_keys=True)}\n"
            f"when asked  {json.dumps(small)}",
            pytrace=False,
        )


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
        ours, theirs = world.filter(name, form), answer["filter"].get(name)
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
    if not theirs["node"]:
        # How many nodes were looked at is said of successful attempts only.
        del theirs["evaluated"]
    totals = theirs.get("totals", {})
    narrowed = any("only" in given for given in answer["filter"].values())
    if narrowed and totals.get(ours["node"], 0) == max(totals.values(), default=1):
        # Upstream takes the nodes that PreFilter names in the order of a Go map: any of the best
        # may be the one it finds first.
        theirs["node"] = ours["node"]
    return ours, theirs


def test_decisions(asked: list[tuple[Json, World, Json]], oracle: Oracle) -> None:
    _check(asked, oracle, _outcomes)
