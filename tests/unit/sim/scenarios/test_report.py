"""What is told of a scenario: lines, tables, data, decisions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from stowplan.sim.scenarios.figures import Figures, Spread, Waits
from stowplan.sim.scenarios.live import Live, clock_text
from stowplan.sim.scenarios.report import (
    FEW_PODS,
    DecisionLog,
    as_data,
    figure_rows,
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


def test_pods_are_sorted_by_number() -> None:
    pods = [pod(f"web-{number}", "n1") for number in (10, 2, 1)]
    (table,) = tables(Outcome("x", "virtual", 0, pods=pods))
    assert [row[0] for row in table.rows] == ["default/web-1", "default/web-2", "default/web-10"]


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
            counts={"created": 2, "bound": 1, "attempts": 3, "verified": 1},
            figures=Figures(Waits(pods=1, still=1, longest_still=90.0)),
            took_s=0.25,
            cluster_s=90.0,
        )
    )
    assert told == [
        "FAIL x.yaml:4: b is on n1; found: pending",
        "FAIL x.py:5: not so",
        "1 of 2 expectations NOT met; 1 of 2 pods bound, 1 waiting; 3 attempts, 1 verified; "
        "90.0 s of the cluster's time in 0.2 s",
    ]


def test_totals_count_every_pod_that_was_ever_created() -> None:
    """Of 100,000 finished pods a cluster keeps 12,500: what is left there is no total."""
    left = [pod(f"p{number}", "n1") for number in range(3)]
    counts = {"created": 100_000, "bound": 100_000, "finished": 100_000, "attempts": 100_718}
    (line,) = summary(outcome(left, counts=counts | {"verified": 6_000}))
    assert line.startswith(
        "100,000 of 100,000 pods bound, 100,000 finished; 100,718 attempts, 6,000 verified; "
    )


def test_finished_pods_are_not_on_a_node() -> None:
    done = [pod(f"p{number}", "n1") for number in range(FEW_PODS + 1)]
    for each in done[1:]:
        each["status"]["phase"] = "Succeeded"
    (by_node,) = tables(outcome(done))
    assert by_node.rows == (("n1", "1"), ("n2", "0"))


def test_figures_in_words() -> None:
    figures = Figures(
        Waits(100, 0.0, 2.25, 61.5, 1700.0, still=2, longest_still=30.0),
        {"cpu": Spread(0.5, 0.875), "nvidia.com/gpu": Spread(0.1, 1.0)},
        Spread(12.25, 20, 7),
        nodes=24,
    )
    counts = {"created": 102, "attempts": 120, "failures": 20, "verified": 12}
    evictions = {"preemptions": 3, "lost": 1}
    assert figure_rows(outcome([], figures=figures, counts=counts | evictions)) == [
        (
            "waiting time",
            "p50 0.0 s, p90 2.2 s, p99 61.5 s, longest 1,700 s; 2 still waiting, for up to 30.0 s",
        ),
        (
            "utilisation",
            "CPU 50.0% on average, 87.5% at most; nvidia.com/gpu 10.0% on average, 100.0% at most",
        ),
        ("nodes in use", "12.2 on average, 20 at most, 7 at the end, of 24"),
        ("evictions", "4: 3 preempted, 1 lost with their node"),
        (
            "decisions",
            "120 attempts, 20 of them found no node; 12 verified by the self-check",
        ),
    ]
    assert figure_rows(outcome([])) == []
    nobody = figure_rows(outcome([], figures=Figures(Waits(still=1)), counts={"created": 1}))
    assert nobody[0][1] == "no pod was bound by the scheduler; 1 still waiting, for up to 0.0 s"


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
    assert set(data["figures"]) == {"waitingSeconds", "utilisation", "nodesInUse", "nodes"}
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
    file = io.StringIO()
    log = DecisionLog(file.write)
    for each in entries:
        log(each)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert log.lines == 4
    assert [line["kind"] for line in lines] == ["decided", "unschedulable", "preempted", "bound"]
    assert lines[0]["feasible"] == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_piped_is_plain_lines() -> None:
    now = 0.0
    out, err = io.StringIO(), io.StringIO()
    live = Live(out, err, clock=lambda: now)
    live(entry(EntryKind.STEP, "step 1", "go"))
    live(entry(EntryKind.EXPECTATION, "", "so", is_met=False))
    assert out.getvalue() == "     0.000  step 1: go\n     0.000    FAIL  so\n"
    assert err.getvalue() == ""
    live.progress(TraceProgress(at=0.0, arrived=1, pods=100, finished=0, replaced=0))
    now = 20.0
    live.progress(TraceProgress(at=9.0, arrived=50, pods=100, finished=0, replaced=0, ending=50))
    now = 25.0
    live.progress(TraceProgress(at=9.5, arrived=51, pods=100, finished=0, replaced=0, ending=51))
    live.end()
    assert err.getvalue() == (
        " 25%  0:00:00 of the cluster's time  50 of 100 pods, 0 finished  about 1m00s left\n"
    )


def test_a_terminal_gets_colours_and_a_line_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    now = 0.0
    out, err = Terminal(), Terminal()
    live = Live(out, err, clock=lambda: now)
    live(entry(EntryKind.STEP, "step 1", "go"))
    assert out.getvalue() == "\x1b[1m     0.000  step 1: go\x1b[0m\n"
    assert err.getvalue() == ""
    now = 1.0
    live(entry(EntryKind.BOUND, "pod a", "bound", 3725.0))
    clock = "1:02:05 of the cluster's time"
    assert err.getvalue().endswith(f"\r\x1b[2K{clock}  1 bound, 0 failed attempts")
    now = 2.0
    live.progress(TraceProgress(at=10.0, arrived=50, pods=100, finished=7, replaced=0))
    bar = f"[##############          ] 57%  {clock}  50 of 100 pods, 7 finished"
    assert err.getvalue().endswith(f"\r\x1b[2K{bar}")
    live.end()
    assert err.getvalue().endswith("\r\x1b[2K")


def test_pods_that_steps_create_are_estimated_too() -> None:
    now = 0.0
    err = io.StringIO()
    live = Live(None, err, clock=lambda: now)
    live.begin(4)
    live(entry(EntryKind.BOUND, "pod a", "bound", 1.0))
    now = 30.0
    live(entry(EntryKind.BOUND, "pod b", "bound", 1.0))
    told = " 50%  0:00:01 of the cluster's time  2 of 4 pods bound, 0 failed attempts"
    assert err.getvalue() == f"{told}  about 30s left\n"


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
