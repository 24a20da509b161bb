"""Preemption against kube-scheduler's own: which nodes could be cleared, at whose cost, which of
them may be chosen, and what is said if none can.

Upstream draws where to begin to look and which of equal nodes wins. So all nodes are compared, and
our choice must be one of those that it may make.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import pytest

from stowplan.api.resources import POD_DISRUPTION_BUDGETS
from stowplan.framework.candidates import Victims
from stowplan.framework.status import Code
from stowplan.plugins.default_preemption.dry_run import DryRun
from stowplan.plugins.default_preemption.victims import read_budgets
from stowplan.scheduler.cycle import decide
from tests.parity.generate.crowds import crowded_case, kind_of
from tests.parity.oracle import Oracle
from tests.parity.ours import World
from tests.parity.smaller import shrink

Json: TypeAlias = dict[str, Any]

pytestmark = pytest.mark.e2e

CASES = 600


def ours(case: Json) -> Json:
    """What we make of a pod that fits nowhere; empty if it does fit."""
    world = World(case)
    decision = decide(world.cache.table, world.info, world.profile, nominated=world.nominated)
    if decision.node is not None:
        return {"node": decision.node}
    said: Json = {"message": decision.message}
    if decision.eviction is None:
        return said
    assert decision.diagnosis is not None
    budgets = read_budgets(world.cache.catalog[POD_DISRUPTION_BUDGETS])
    search = DryRun(decision.cycle, budgets, world.engine.clock.time())
    rows = decision.diagnosis.rows_of(Code.UNSCHEDULABLE).tolist()
    said["pick"] = decision.eviction.node
    said["candidates"] = {
        world.cache.table.names[row]: {
            "victims": [
                kind_of(case, world.cache.table.names[row], info.pod.key) for info in outcome.pods
            ],
            "violations": outcome.violations,
        }
        for row, outcome in search.try_rows(rows).items()
        if isinstance(outcome, Victims)
    }
    return said


def theirs(case: Json, oracle: Oracle) -> Json:
    outcome = oracle.ask(case)["outcome"]
    if outcome["node"]:
        return {"node": outcome["node"]}
    said: Json = {"message": outcome["message"]}
    if room := outcome.get("room"):
        said["picks"] = room["picks"]
        said["candidates"] = {
            node: {
                "victims": [kind_of(case, node, victim) for victim in cost["victims"]],
                "violations": cost.get("violations", 0),
            }
            for node, cost in room["candidates"].items()
        }
    return said


def still_differs(case: Json, oracle: Oracle) -> bool:
    """For a case that was made smaller, and may make no sense any more."""
    try:
        return differs(case, oracle)
    except Exception:
        return False


def differs(case: Json, oracle: Oracle) -> bool:
    mine, other = ours(case), theirs(case, oracle)
    pick, picks = mine.pop("pick", None), other.pop("picks", [])
    return mine != other or (pick is not None and pick not in picks)


def test_the_same_victims(oracle: Oracle) -> None:
    seen: Counter[str] = Counter()
    for seed in range(CASES):
        case = crowded_case(seed)
        if differs(case, oracle):
            small = shrink(case, lambda smaller: still_differs(smaller, oracle))
            raise AssertionError(
                f"seed {seed}\n{small}\nours: {ours(small)}\ntheirs: {theirs(small, oracle)}"
            )
        said = theirs(case, oracle)
        seen["candidates"] += "candidates" in said
        seen["several"] += len(said.get("candidates", ())) > 1
        seen["ties"] += len(said.get("picks", ())) > 1
        costs = said.get("candidates", {}).values()
        seen["violations"] += any(cost["violations"] for cost in costs)
        seen["several victims"] += any(len(cost["victims"]) > 1 for cost in costs)
        text = said.get("message", "")
        seen["no victims"] += "No preemption victims found" in text
        seen["not helpful"] += "Preemption is not helpful" in text
        seen["never"] += "preemptionPolicy=Never" in text
        seen["terminating"] += "a terminating pod on the nominated node" in text
    few = {what: count for what, count in seen.items() if count < 3}
    assert not few, seen
