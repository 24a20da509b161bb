"""The parts of `make chaos` that need no cluster: the schedule, the verdict, the figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from stowplan.audit import Finding, Report
from stowplan.lab.controlplane.processes import ServerProcess
from stowplan.lab.faults import FaultProxy
from tools.chaos import objects
from tools.chaos.game import Outcome, Struck
from tools.chaos.plan import INTERRUPTIONS, Kind, make_plan, write_plan
from tools.chaos.replicas import LEADS, Replica
from tools.chaos.report import document, recoveries, table
from tools.chaos.storms import make_storm
from tools.chaos.verdict import judge

# The schedule


def test_a_seed_gives_one_schedule() -> None:
    assert make_plan(5, 3.0) == make_plan(5, 3.0)
    assert make_plan(5, 3.0) != make_plan(6, 3.0)


def test_34_minutes_have_what_the_acceptance_asks_for() -> None:
    counted = Counter(step.kind for step in make_plan(1, 34.0))
    wanted = {Kind.KILL: 200, Kind.FREEZE: 50, Kind.APISERVER: 20, Kind.ETCD: 10}
    assert all(counted[kind] >= least for kind, least in wanted.items()), counted


def test_a_short_run_has_every_kind_in_order_and_in_time() -> None:
    plan = make_plan(1, 0.5)
    assert {step.kind for step in plan} == {*Kind}
    assert [step.at_s for step in plan] == sorted(step.at_s for step in plan)
    assert plan[-1].at_s <= 30.0


def test_chosen_kinds_fill_the_schedule() -> None:
    plan = make_plan(1, 8.0, [Kind.FREEZE])
    assert {step.kind for step in plan} == {Kind.FREEZE}
    assert len(plan) == round(8 * sum(INTERRUPTIONS.values()))


def test_the_schedule_is_written_with_its_seed(tmp_path: Path) -> None:
    plan = make_plan(7, 0.5)
    write_plan(plan, 7, tmp_path / "schedule.jsonl")
    first, *steps = map(json.loads, (tmp_path / "schedule.jsonl").read_text().splitlines())
    assert first == {"seed": 7, "steps": len(plan)}
    assert [step["kind"] for step in steps] == [step.kind for step in plan]


def test_a_storm_follows_from_its_number_and_is_fresh() -> None:
    assert make_storm(3) == make_storm(3)
    assert make_storm(3)[0] is not make_storm(3)[0]
    assert len({str(make_storm(number)) for number in range(50)}) > 40


def test_pods_of_every_kind() -> None:
    maker = objects.PodMaker(1)
    kinds = Counter(maker.next()["metadata"]["name"].partition("-")[0] for _ in range(1000))
    assert {*kinds} == {"plain", "spread", "apart", "together", "volume", "high"}


# The verdict


def report(*findings: Finding) -> Report:
    return Report(findings=[*findings], nodes=1, pods=1, judged=5, revisions=9)


def test_what_the_audit_finds_is_found() -> None:
    finding = Finding(kind="overcommit", pod="default/a", node="n1", message="cpu", revision=7)
    verdict = judge(report(finding), ())
    assert verdict.findings == ["overcommit: default/a on n1: cpu (revision 7)"]
    assert (verdict.binds, verdict.revisions, verdict.counts["overcommit"]) == (5, 9, 1)


def test_a_missing_event_is_a_finding_or_counted_apart() -> None:
    findings = [
        Finding(kind="no-event", pod=f"default/{uid}", uid=uid, message="no event") for uid in "ab"
    ]
    verdict = judge(report(*findings), (), lambda uid: uid == "a")
    assert verdict.findings == ["no-event: default/a: no event (revision 0)"]
    assert verdict.counts["no-event"] == verdict.gone_before_event == 1


def test_pods_that_were_never_bound_are_lost() -> None:
    verdict = judge(report(), ["/api/v1/namespaces/default/pods/a"])
    assert verdict.findings == ["/api/v1/namespaces/default/pods/a was never bound"]


# The figures


def test_recovery_is_the_time_to_the_next_bind_that_was_not_under_way() -> None:
    outcome = Outcome([Struck("kill", 10.0), Struck("kill", 20.0), Struck("freeze", 30.0)])
    assert recoveries(outcome, [10.1, 13.0, 24.5]) == {"kill": [3.0, 4.5]}


def test_the_table_names_what_was_found() -> None:
    outcome = Outcome([Struck("kill", 1.0)], {"clock jump": 2})
    figures = document({"scheduler": "x"}, outcome, [5.0], judge(report(), ["a"]))
    text = table(figures)
    assert "1 lost pods" in text
    assert "a was never bound" in text
    assert "4.00" in text
    assert "not possible with x" in text


# The leader


@pytest.mark.parametrize(
    ("scheduler", "waits", "leads"),
    [
        (
            "stowplan",
            'lease.py:246] "Attempting to acquire leader lease..." lock="default/chaos"',
            'process.py:338] "Scheduling" profiles=["default-scheduler"] nodes=500 pods=7',
        ),
        (
            "kube-scheduler",
            'leaderelection.go:258] "Attempting to acquire leader lease..." lock="default/chaos"',
            'leaderelection.go:272] "Successfully acquired lease" lock="default/chaos"',
        ),
    ],
)
def test_a_leader_is_known_by_its_log(
    scheduler: str, waits: str, leads: str, tmp_path: Path
) -> None:
    """Lines that both programs wrote; each may be half written when it is read."""
    process = cast(ServerProcess, SimpleNamespace(log=tmp_path / "log"))
    replica = Replica(0, cast(FaultProxy, None))
    replica.begins(process)
    process.log.write_text(f"I1117 16:58:43.263369   21655 {waits}\nI1117 16:58:47.8643")
    assert not replica.leads(LEADS[scheduler])
    with process.log.open("a") as log:
        log.write(f"83   21655 {leads}\n")
    assert replica.leads(LEADS[scheduler])
    replica.begins(process)
    process.log.write_text("")
    assert not replica.leads(LEADS[scheduler]), "its successor"


# The clock and the command


def test_the_clock_of_a_scheduler_can_jump(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path\n"
        "from tools.chaos.clocked_scheduler import follow, write_offset\n"
        "file = Path(sys.argv[1]); write_offset(file, 0.0); real = time.time; follow(file)\n"
        "from stowplan.clock import SystemClock; clock = SystemClock()\n"
        "before = clock.boottime(); write_offset(file, 86400.0)\n"
        "print(round((clock.time() - real()) / 3600), round(clock.boottime() - before) // 60)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "offset")]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "24 0\n"


def test_an_unknown_kind_is_named() -> None:
    command = [sys.executable, "-m", "tools.chaos", "--only", "earthquake"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "there is no fault earthquake; there are kill, freeze, apiserver" in ended.stderr
