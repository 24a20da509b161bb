"""What is told of a scenario: lines, tables, data, decisions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from stowplan.sim.scenarios.live import Live, clock_text
from stowplan.sim.scenarios.report import (
    FEW_PODS,
    as_data,
    decision_log,
    summary,
    tables,
    timeline_line,
)
from stowplan.sim.scenarios.timeline import Entry, EntryKind, Expectation, Outcome
from stowplan.sim.scenarios.trace_play import TraceProgress

Json = dict[str, Any]


def entry(
    kind: EntryKind, subject: str = "", text: str = "", at: float = 0.0, **more: Any
) -> Entry:
    return Entry(at, kind, subject, text, more)


def pod(name: str, node: str = "", message: str = "") -> Json:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": "Running" if node else "Pending",
            "conditions": [condition] if message else [],
        },
    }


def outcome(pods: list[Json], **more: Any) -> Outcome:
    placements = {
        f"default/{each['metadata']['name']}": each["spec"].get("nodeName", "") for each in pods
    }
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    return Outcome("a story", "virtual", 0, pods=pods, nodes=nodes, placements=placements, **more)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (entry(EntryKind.STEP, "step 1", "create pod a"), "     0.000  step 1: create pod a"),
        (entry(EntryKind.STEP, "", "the cluster", 1.5), "     1.500  the cluster"),
        (entry(EntryKind.SAID, "", "scenario: hello"), "     0.000  scenario: hello"),
        (
            entry(EntryKind.BOUND, "pod default/a", "bound to n1", 61.25),
            "    61.250    pod default/a bound to n1",
        ),
        (
            entry(EntryKind.UNSCHEDULABLE, "pod default/a", "0/1 nodes"),
            "     0.000    pod default/a unschedulable: 0/1 nodes",
        ),
        (
            entry(EntryKind.EXPECTATION, "", "a is on n1", is_met=True, found="on n1"),
            "     0.000    ok    a is on n1",
        ),
        (
            entry(EntryKind.EXPECTATION, "", "a is on n2", is_met=False, found="on n1"),
            "     0.000    FAIL  a is on n2; found: on n1",
        ),
        (
            entry(EntryKind.SAID, "", "scenario: \x1b[2Jgone\n"),
            r"     0.000  scenario: \x1b[2Jgone\n",
        ),
    ],
)
def test_a_line_of_the_timeline(told: Entry, line: str) -> None:
    assert timeline_line(told) == line


def test_where_a_few_pods_went() -> None:
    (table,) = tables(outcome([pod("b", "", "no room"), pod("a", "n1"), pod("c")]))
    assert table.headers == ("pod", "node", "state")
    assert table.rows == (
        ("default/a", "n1", "Running"),
        ("default/b", "", "Pending: no room"),
        ("default/c", "", "Pending"),
    )
    assert tables(outcome([])) == []


def test_a_pod_without_a_kubelet_is_scheduled_not_pending() -> None:
    bound = pod("a", "n1")
    bound["status"]["phase"] = "Pending"
    (table,) = tables(outcome([bound]))
    assert table.rows == (("default/a", "n1", "Scheduled"),)


def test_many_pods_are_told_by_node() -> None:
    many = [pod(f"p{number}", "n1") for number in range(FEW_PODS)]
    waiting = [pod(f"w{number}", "", "full") for number in range(12)]
    by_node, wait = tables(outcome(many + waiting))
    assert by_node.rows == (("n1", str(FEW_PODS)), ("n2", "0"))
    assert wait.rows[0] == ("default/w0", "Pending: full")
    assert wait.rows[-1] == ("and 2 more", "...")


def test_the_last_lines() -> None:
    told = summary(
        outcome(
            [pod("a", "n1"), pod("b")],
            expectations=[
                Expectation("a is on n1", True, "on n1", "x.yaml:3"),
                Expectation("b is on n1", False, "pending", "x.yaml:4"),
            ],
            problem="x.py:5: not so",
            counts={"attempts": 3, "preemptions": 1},
            took_s=0.25,
            cluster_s=90.0,
        )
    )
    assert told == [
        "FAIL x.yaml:4: b is on n1; found: pending",
        "FAIL x.py:5: not so",
        "1 of 2 expectations NOT met; 1 of 2 pods have a node; 3 attempts; 1 preemption; "
        "90.0 s of the cluster's time in 0.2 s",
    ]


def test_everything_as_data() -> None:
    of = outcome(
        [pod("b", "n1"), pod("a", "", "no room")],
        entries=[entry(EntryKind.BOUND, "pod default/b", "bound to n1", 0.5, node="n1")],
        expectations=[Expectation("b is on n1", True, "on n1", "x.yaml:3")],
    )
    data = as_data(of)
    assert json.loads(json.dumps(data)) == data
    assert data["ok"] is True
    assert list(data["placements"].items()) == [("default/a", ""), ("default/b", "n1")]
    assert data["waiting"] == {"default/a": "no room"}
    assert data["timeline"] == [
        {
            "at": 0.5,
            "kind": "bound",
            "subject": "pod default/b",
            "text": "bound to n1",
            "node": "n1",
        }
    ]
    assert "timeline" not in as_data(of, with_timeline=False)


def test_the_decision_log_has_decisions_only() -> None:
    entries = [
        entry(EntryKind.CREATED, "pod a", "created"),
        entry(EntryKind.DECIDED, "pod a", "goes to n1", node="n1", feasible=2),
        entry(EntryKind.SAID, "", "scenario: x"),
        entry(EntryKind.UNSCHEDULABLE, "pod b", "no room"),
        entry(EntryKind.PREEMPTED, "pod c", "must leave"),
        entry(EntryKind.BOUND, "pod a", "bound to n1"),
    ]
    lines = [json.loads(line) for line in decision_log(entries)]
    assert [line["kind"] for line in lines] == ["decided", "unschedulable", "preempted", "bound"]
    assert lines[0]["feasible"] == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_piped_is_plain_lines() -> None:
    out, err = io.StringIO(), io.StringIO()
    live = Live(out, err)
    live(entry(EntryKind.STEP, "step 1", "go"))
    live(entry(EntryKind.EXPECTATION, "", "so", is_met=False))
    live.end()
    assert out.getvalue() == "     0.000  step 1: go\n     0.000    FAIL  so\n"
    assert err.getvalue() == ""


def test_a_terminal_gets_colours_and_a_line_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    now = 0.0
    out, err = Terminal(), Terminal()
    live = Live(out, err, clock=lambda: now)
    live(entry(EntryKind.STEP, "step 1", "go"))
    assert out.getvalue() == "\x1b[1m     0.000  step 1: go\x1b[0m\n"
    assert err.getvalue() == ""
    now = 1.0
    live(entry(EntryKind.BOUND, "pod a", "bound", 3725.0))
    assert err.getvalue().endswith("\r\x1b[2K1:02:05  1 bound, 0 failed attempts")
    now = 2.0
    live.progress(TraceProgress(at=10.0, arrived=50, pods=100, finished=7, replaced=0))
    bar = "[############            ]  50%  1:02:05  50 of 100 pods, 7 finished"
    assert err.getvalue().endswith(f"\r\x1b[2K{bar}")
    live.end()
    assert err.getvalue().endswith("\r\x1b[2K")


def test_colours_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    Live(out, None)(entry(EntryKind.STEP, "step 1", "go"))
    assert "\x1b" not in out.getvalue()


def test_of_very_many_entries_only_the_important_ones_are_told() -> None:
    out = io.StringIO()
    live = Live(out, None, most=2)
    for number in range(4):
        live(entry(EntryKind.BOUND, f"pod p{number}", "bound"))
    live(entry(EntryKind.STEP, "step 2", "go on"))
    told = out.getvalue().splitlines()
    assert len(told) == 4
    assert "only steps" in told[2]
    assert told[3].endswith("step 2: go on")


def test_the_clock() -> None:
    assert [clock_text(seconds) for seconds in (0.4, 61, 3600 * 30)] == [
        "0:00:00",
        "0:01:01",
        "30:00:00",
    ]
