"""PostFilter: who is asked, what its words become, and where the pod is nominated."""

from __future__ import annotations

import pytest

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.plugin import Plugin, PostFilterResult
from stowplan.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from stowplan.scheduler.decision import Decision
from stowplan.testing import node, pod
from tests.unit.scheduler.scheduler_kit import cluster, defaults, plugin, run

NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


def failed(*plugins: Plugin) -> Decision:
    return run([node(cpu=0)], pod(), *defaults(), *plugins)


def says(name: str, status: Status, nominated_node: str | None = None) -> Plugin:
    return plugin(name, post_filter=PostFilterResult(status, nominated_node))


def test_without_plugins_the_nomination_is_cleared() -> None:
    decision = failed()
    assert (decision.message, decision.nominated_node) == (NO_ROOM, "")


def test_a_pod_that_fits_needs_nobody_to_make_room() -> None:
    def never(*_: object) -> Status:
        raise AssertionError("the pod fits")

    assert run([node()], pod(), *defaults(), plugin("Never", post_filter=never)).node is not None


@pytest.mark.parametrize(
    ("answers", "text", "asked"),
    [
        ([unschedulable("one"), unschedulable("two", "three")], " one, two, three", 2),
        ([unschedulable("one"), SUCCESS, unschedulable("late")], "", 2),
        ([unschedulable("one"), unresolvable("never"), unschedulable("late")], " never", 2),
        ([unschedulable("one"), error("broke"), unschedulable("late")], " broke", 2),
        ([unschedulable()], "", 1),
    ],
)
def test_the_first_that_is_sure_ends_it(answers: list[Status], text: str, asked: int) -> None:
    log: list[int] = []

    def asking(number: int, answer: Status) -> Plugin:
        def post_filter(cycle: Cycle, diagnosis: Diagnosis) -> Status:
            log.append(number)
            return answer

        return plugin(f"P{number}", post_filter=post_filter)

    decision = failed(*(asking(number, answer) for number, answer in enumerate(answers)))
    assert decision.message == NO_ROOM + text
    assert log == list(range(asked))
    assert decision.status.code is Code.UNSCHEDULABLE, "whatever PostFilter says"
    assert decision.unschedulable_plugins == {"NodeResourcesFit"}


@pytest.mark.parametrize(
    ("answers", "nominated"),
    [
        ([(SUCCESS, "n1")], "n1"),
        ([(unschedulable("a"), None)], None),
        ([(unschedulable("a"), "")], ""),
        ([(unschedulable("a"), ""), (unschedulable("b"), None)], ""),
        ([(unschedulable("a"), ""), (SUCCESS, "n2")], "n2"),
        # Whoever ends it speaks alone: what was said before does not count.
        ([(unschedulable("a"), ""), (SUCCESS, None)], None),
        ([(unschedulable("a"), ""), (unresolvable("b"), None)], None),
        ([(unschedulable("a"), ""), (error("b"), "n3")], None),
    ],
)
def test_where_the_pod_is_nominated(
    answers: list[tuple[Status, str | None]], nominated: str | None
) -> None:
    plugins = [says(f"P{i}", status, place) for i, (status, place) in enumerate(answers)]
    assert failed(*plugins).nominated_node == nominated


def test_post_filter_sees_every_nodes_status() -> None:
    seen: dict[str, Code] = {}

    def look(cycle: Cycle, diagnosis: Diagnosis) -> Status:
        for row in cycle.table.live_rows.tolist():
            seen[cycle.table.names[row]] = diagnosis.status_of(row).code
        return unschedulable("looked")

    cache = cluster([node("never", cpu=0), node("later", cpu="1")], [pod(node="later", cpu="1")])
    run(cache.table, pod(cpu="1"), *defaults(), plugin("Look", post_filter=look))
    assert seen == {
        "never": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "later": Code.UNSCHEDULABLE,
    }


@pytest.mark.parametrize("rejection", [unschedulable("no"), unresolvable("no")])
def test_post_filter_runs_also_when_pre_filter_rejects(rejection: Status) -> None:
    rejecting = plugin("No", pre_filter=rejection)
    decision = run([node()], pod(), rejecting, says("Room", unschedulable("no victims")))
    assert decision.message == "0/1 nodes are available: no. no victims"
