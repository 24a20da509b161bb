"""Traces played on a virtual cluster: everybody arrives, ends, is lost and comes again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.cli.simulate import simulate
from stowplan.sim.scenarios import Cluster, EntryKind, Options, Outcome, run_scenario
from stowplan.sim.scenarios.report import figure_rows, summary
from stowplan.sim.scenarios.trace_play import TraceProgress, play_trace
from stowplan.sim.traces import Trace, generate, load_trace

EXAMPLES = Path(__file__).parents[2] / "examples" / "traces"


def played(trace: Trace, **options: Any) -> tuple[Outcome, list[TraceProgress]]:
    reports: list[TraceProgress] = []

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace, on_progress=reports.append, **options)

    outcome = run_scenario(scenario, options=Options(seed=1))
    assert outcome.problem == ""
    return outcome, reports


def happened(outcome: Outcome, subject: str) -> list[tuple[float, str]]:
    """What became of it, without the scheduler's own thoughts."""
    thoughts = (EntryKind.DECIDED, EntryKind.UNSCHEDULABLE)
    return [
        (round(entry.at, 3), entry.text)
        for entry in outcome.entries
        if entry.subject == subject and entry.kind not in thoughts
    ]


def tiny(**more: Any) -> Trace:
    """One node that holds one pod at a time, and three pods that want it, ten seconds apart."""
    return generate(
        {
            "pools": [{"name": "node", "count": 1, "cpu": 1}],
            "applications": [{"name": "job", "cpu": 1, "duration": "30s"}],
            "arrivals": {"kind": "uniform", "count": 3, "over": "30s"},
            **more,
        }
    )


def test_pods_arrive_wait_for_room_and_end() -> None:
    outcome, reports = played(tiny())
    assert [happened(outcome, f"pod default/job-{number}") for number in range(3)] == [
        [(0.0, "created"), (0.0, "bound to node-0"), (30.5, "finished")],
        [(10.0, "created"), (30.5, "bound to node-0"), (61.0, "finished")],
        [(20.0, "created"), (61.0, "bound to node-0"), (91.5, "finished")],
    ]
    assert reports[-1] == TraceProgress(
        at=91.5, arrived=3, pods=3, finished=3, replaced=0, ending=3
    )


def test_a_queue_that_takes_long_is_waited_for() -> None:
    _, reports = played(tiny(arrivals={"count": 8}))
    assert reports[-1].finished == 8
    assert reports[-1].at == 8 * 30.5


def test_pods_that_nobody_ends_are_not_waited_for_for_ever() -> None:
    async def scenario(cluster: Cluster) -> None:
        progress = await play_trace(cluster, tiny(arrivals={"count": 1}))
        assert (progress.finished, progress.at) == (0, 90.0)

    outcome = run_scenario(scenario, options=Options(kubelet=KubeletOptions(enabled=False)))
    assert outcome.problem == ""
    said = [entry.text for entry in outcome.entries if entry.kind is EntryKind.SAID]
    assert said == ["scenario: 1 pods still run that should have ended"]


def test_pods_that_are_lost_come_again() -> None:
    lost = [{"at": 12, "fail": "node-0"}, {"at": 20, "recover": "node-0"}]
    outcome, reports = played(tiny(disruptions=lost))
    first = happened(outcome, "pod default/job-0")
    assert [text for _, text in first] == [
        *("created", "bound to node-0", "is terminating", "deleted")
    ]
    again = happened(outcome, "pod default/job-0-r1")
    assert again[0] == (12.0, "created")
    assert again[-1][1] == "finished"
    assert (reports[-1].finished, reports[-1].replaced) == (3, 1)


def test_pods_that_are_lost_stay_away_if_told_so() -> None:
    outcome, reports = played(
        tiny(disruptions=[{"at": 12, "drain": "node-0"}]), replaces_lost=False
    )
    assert reports[-1].finished == 0
    assert sorted(outcome.placements.items()) == [("default/job-1", ""), ("default/job-2", "")]


def test_preempted_pods_come_again(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu\nnode-0,1\n")
    rows = "0,job,1,30,0\n10,vip,1,5,10\n"
    (tmp_path / "pods.csv").write_text(f"arrival,name,cpu,duration,priority\n{rows}")
    outcome, reports = played(load_trace(tmp_path / "pods.csv", nodes=tmp_path / "nodes.csv"))
    assert happened(outcome, "pod default/vip")[-1][1] == "finished"
    assert [text for _, text in happened(outcome, "pod default/job")][-1] == "deleted"
    assert [text for _, text in happened(outcome, "pod default/job-r1")] == [
        *("created", "bound to node-0", "finished")
    ]
    assert (reports[-1].finished, reports[-1].replaced) == (2, 1)


def test_only_the_latest_of_those_that_ended_stay() -> None:
    outcome, reports = played(tiny(), keeps_finished=1)
    assert reports[-1].finished == 3
    assert outcome.placements == {"default/job-2": "node-0"}


def test_broken_rows_are_told(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("name,cpu\nn,1\n")
    (tmp_path / "pods.csv").write_text("name,cpu\na,1\nb,lots\n")
    trace = load_trace(tmp_path / "pods.csv", nodes=tmp_path / "nodes.csv", skip_broken=True)
    outcome, _ = played(trace)
    assert [entry.text for entry in outcome.entries if entry.kind is EntryKind.SAID] == [
        "scenario: 1 node rows used; 1 pod rows used, 1 broken and skipped",
        f"scenario:   {tmp_path}/pods.csv:3: cpu: `lots` is not an amount of cpu such as 500m or 2",
    ]
    assert outcome.counts["skippedRows"] == 1
    assert "; 1 row skipped; " in summary(outcome)[-1]
    assert ("broken rows", "1 skipped") in figure_rows(outcome)


def test_a_trace_without_nodes_says_so() -> None:
    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, load_trace(EXAMPLES / "pods.csv"))

    problem = run_scenario(scenario).problem
    assert "there is no node; give the trace `nodes`, or create some first" in problem


def test_a_recording_is_played_at_its_own_pace() -> None:
    outcome, _ = played(load_trace(EXAMPLES / "recording.jsonl"))
    assert happened(outcome, "pod default/job-1") == [
        (10.0, "created"),
        (10.0, "bound to node-b"),
        (70.5, "finished"),
    ]
    assert happened(outcome, "node node-b")[-1] == (80.0, "cordoned")
    # Three cores are free on node-a and four on node-b, which takes no pods any longer.
    assert outcome.placements == {"default/job-2": "node-a"}


def test_a_node_that_is_removed_takes_its_pods_along(tmp_path: Path) -> None:
    def line(time: int, event: str, kind: str, name: str, **more: Any) -> str:
        metadata = {"name": name} | ({"namespace": "default"} if kind == "Pod" else {})
        resource = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}
        record = {"time": f"2026-01-02T03:04:{time:02}Z", "event": event, "resource": resource}
        return json.dumps(record) + "\n"

    offers = {"allocatable": {"cpu": "1", "pods": "9"}, "capacity": {"cpu": "1", "pods": "9"}}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    (tmp_path / "recording.jsonl").write_text(
        line(0, "Add", "Node", "a", status=offers)
        + line(1, "Add", "Pod", "p", spec={"containers": [container]})
        + line(10, "Add", "Node", "b", status=offers)
        + line(11, "Delete", "Node", "a")
        + line(20, "Delete", "Pod", "p")
    )
    outcome, _ = played(load_trace(tmp_path / "recording.jsonl"))
    assert [text for _, text in happened(outcome, "pod default/p")] == [
        *("created", "bound to a", "is terminating", "deleted")
    ]
    # The pod that came for it is the recorded owner's, too, who deleted it.
    again = happened(outcome, "pod default/p-r1")
    assert [text for _, text in again] == [*("created", "bound to b", "is terminating", "deleted")]
    assert again[2][0] == 20.0
    assert outcome.placements == {}


def test_an_export_with_volumes() -> None:
    outcome, _ = played(load_trace(EXAMPLES / "export.yaml"))
    assert outcome.placements == {
        "shop/web-0": "node-a",
        "shop/orders-db": "node-b",
        "shop/web-1": outcome.placements["shop/web-1"],
    }
    assert outcome.placements["shop/web-1"]


def test_tables_of_pods_and_nodes() -> None:
    outcome, reports = played(load_trace(EXAMPLES / "pods.csv", nodes=EXAMPLES / "nodes.csv"))
    assert reports[-1].arrived == 28
    assert reports[-1].finished == 23
    assert outcome.placements["default/train-a"] == "gpu"
    assert outcome.placements["default/db-0"].startswith(("fast-", "gpu"))


def test_a_layout_is_found_beside_its_scenario(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("id,cores\na,2\n")
    (tmp_path / "layout.yaml").write_text("fields: {name: id, cpu: cores}\n")
    (tmp_path / "story.yaml").write_text(
        "cluster: {nodes: [{name: n1}]}\nsteps:\n"
        "- workload: {trace: jobs.csv, columns: layout.yaml}\n"
        "- expect: {pod: a, on: n1}\n"
    )
    done = CliRunner().invoke(simulate, [str(tmp_path / "story.yaml")], standalone_mode=False)
    assert done.return_value == 0, done.output or done.exception


_PLAY = """
import sys
from pathlib import Path
from stowplan.sim.scenarios import run_scenario
from stowplan.sim.scenarios.report import figure_rows, summary
from stowplan.sim.scenarios.trace_play import play_trace
from stowplan.sim.traces import load_trace

async def scenario(cluster):
    print(await play_trace(cluster, load_trace(Path(sys.argv[1]))))

outcome = run_scenario(scenario)
print(outcome.problem, outcome.counts, outcome.placements)
for entry in outcome.entries:
    print(entry)
"""


def test_the_same_trace_gives_the_same_timeline_to_the_byte() -> None:
    def told(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", _PLAY, str(EXAMPLES / "mixed.yaml")]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    first = told("1")
    assert first == told("2")
    # It is worth comparing: pods ended, nodes failed and were drained, and pods came again.
    assert "finished=612" in first
    assert "fails" in first
    assert "cordoned" in first
    assert "-r1" in first
