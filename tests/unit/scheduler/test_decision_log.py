"""What a decision writes at -v 10, and that it writes nothing, and computes nothing, below."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import Node
from stowplan.config.load import default_config
from stowplan.logs import configure
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.decision_log import log_verdicts
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.outcome import Failure, Placement
from stowplan.testing import node, pod

SCORED = "Plugin scored node for pod"
TOTAL = "Calculated node's final score for pod"
FILTERED = "Plugin filtered nodes for pod"
Lines = list[dict[str, Any]]


@contextmanager
def logged(verbosity: int) -> Iterator[Lines]:
    stream, lines = io.StringIO(), Lines()
    configure(verbosity, "json", stream)
    try:
        yield lines
    finally:
        configure(0, "text", io.StringIO())
        lines += [json.loads(line) for line in stream.getvalue().splitlines()]


def scheduler(nodes: list[Node]) -> tuple[Engine, EventHandlers]:
    engine = build_engine(default_config())
    handlers = EventHandlers(engine)
    for each in nodes:
        handlers.add_node(each)
    return engine, handlers


def attempt(nodes: list[Node], verbosity: int, **spec: Any) -> tuple[Placement | Failure, Lines]:
    engine, handlers = scheduler(nodes)
    with logged(verbosity) as lines:
        handlers.add_pod(pod("web", **spec))
        outcome = engine.attempt()
    assert outcome is not None
    return outcome, lines


def test_scores_add_up_and_the_best_node_comes_first() -> None:
    nodes = [node("small", cpu="4"), node("large", cpu="16")]
    outcome, lines = attempt(nodes, 10, cpu="1")
    assert isinstance(outcome, Placement)
    totals = {line["node"]: line["score"] for line in lines if line["msg"] == TOTAL}
    assert next(iter(totals)) == outcome.node == "large"
    sums: Counter[str] = Counter()
    for line in lines:
        if line["msg"] == SCORED:
            sums[line["node"]] += line["score"]
            assert (line["v"], line["pod"]) == (10, {"name": "web", "namespace": "default"})
    assert dict(sums) == totals


@pytest.mark.parametrize("count", [50, 500])
def test_lines_do_not_grow_with_the_cluster(count: int) -> None:
    outcome, lines = attempt([node(f"n{i}", cpu="4") for i in range(count)], 10, cpu="1")
    assert isinstance(outcome, Placement)
    assert sum(line["msg"] == TOTAL for line in lines) == 5
    assert len(lines) < 80
    (rest,) = (line for line in lines if line["msg"] == "Left out the scores of other nodes")
    assert (rest["scoredNodes"], rest["shownNodes"]) == (count, 5)


@pytest.mark.parametrize("has_room", [True, False])
def test_every_filter_says_how_many_nodes_it_rejected(has_room: bool) -> None:
    nodes = [node("full", cpu="1"), node("cordoned", cpu="8", unschedulable=True)]
    nodes += [node("free", cpu="8")] if has_room else []
    outcome, lines = attempt(nodes, 10, cpu="4")
    assert isinstance(outcome, Placement) is has_room
    found = {line["plugin"]: line for line in lines if line["msg"] == FILTERED}
    fit, cordon = found["NodeResourcesFit"], found["NodeUnschedulable"]
    assert (cordon["rejected"], cordon["nodes"]) == (1, len(nodes))
    assert cordon["reasons"] == {"node(s) were unschedulable": 1}
    assert (fit["rejected"], fit["reasons"]) == (1, {"Insufficient cpu": 1})
    assert all(line["rejected"] == 0 for name, line in found.items() if line not in (fit, cordon))


def test_scores_of_an_extender_are_told_apart() -> None:
    outcome, _ = attempt([node("a"), node("b")], 0, cpu="1")
    assert isinstance(outcome, Placement)
    sheet = outcome.decision.scores
    assert sheet is not None
    sheet.by_plugin.append(("http://scorer", np.array([3, 5], np.int64)))
    outcome.decision.sheet = sheet
    with logged(10) as lines:
        log_verdicts(outcome.decision, ["http://scorer"])
    told = [line for line in lines if line["msg"] == "Extender scored node for pod"]
    assert sorted((line["extender"], line["score"]) for line in told) == [
        ("http://scorer", 3),
        ("http://scorer", 5),
    ]
    assert not any(line.get("plugin") == "http://scorer" for line in lines)


def test_a_decision_is_the_same_at_every_verbosity() -> None:
    nodes = [node(f"n{i}", cpu=str(4 + i % 3)) for i in range(30)]
    quiet, _ = attempt(nodes, 0, cpu="1")
    loud, _ = attempt(nodes, 10, cpu="1")
    assert isinstance(quiet, Placement)
    assert isinstance(loud, Placement)
    assert quiet.node == loud.node
    assert (quiet.decision.diagnosis, loud.decision.diagnosis) == (None, None)


def test_nothing_is_explained_below_10() -> None:
    _, lines = attempt([node("a"), node("b")], 9, cpu="1")
    assert not {SCORED, TOTAL, FILTERED} & {line["msg"] for line in lines}


def test_a_pod_in_vain_is_followed_through_the_queue() -> None:
    _, lines = attempt([node("n1", cpu="1")], 5, cpu="4")
    told = [(line["v"], line["msg"], line.get("queue")) for line in lines]
    moved = "Pod moved to an internal scheduling queue"
    assert told == [
        (3, "Add event for unscheduled pod", None),
        (5, moved, "Active"),
        (4, "About to try and schedule pod", None),
        (3, "Attempting to schedule pod", None),
        (3, "Preemption will not help schedule pod on any node", None),
        (2, "No preemption candidate is found; preemption is not helpful for scheduling", None),
        (3, moved, "Unschedulable"),
    ]
    last = lines[-1]
    assert last["unschedulable plugins"] == {"NodeResourcesFit": {}}
    assert (last["event"], last["schedulingCycle"], last["hint"]) == (
        "ScheduleAttemptFailure",
        1,
        0,
    )
