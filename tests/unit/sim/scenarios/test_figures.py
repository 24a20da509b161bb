"""Figures of a run: waiting times, utilisation, nodes in use and evictions, played and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stowplan.cli.simulate import simulate
from stowplan.sim.scenarios import Cluster, Options, Outcome, run_scenario
from stowplan.sim.scenarios.figures import Spread, percentile


def played(scenario: Any, **options: Any) -> Outcome:
    outcome = run_scenario(scenario, options=Options(**options))
    assert outcome.problem == ""
    return outcome


def test_percentiles_are_values_that_occurred() -> None:
    numbers = [float(number) for number in range(1, 101)]
    assert [percentile(numbers, share) for share in (50, 90, 99)] == [50.0, 90.0, 99.0]
    assert [percentile([7.0], share) for share in (50, 90, 99)] == [7.0, 7.0, 7.0]
    assert percentile([1.0, 2.0], 50) == 1.0


def test_shares_and_nodes_are_weighted_by_time() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.sleep(1000)  # before the first pod nothing is measured
        for name in ("n1", "n2"):
            await cluster.create_node(name, cpu=4, memory="8Gi")
        await cluster.sleep(10)
        await cluster.create_pod("a", cpu=4, memory="4Gi")
        await cluster.sleep(30)
        await cluster.create_pod("b", cpu=2)
        await cluster.sleep(10)

    figures = played(scenario).figures
    course = figures.course
    assert (course["at"][0], course["nodes"][0]) == (0.0, 0.0)
    assert list(zip(course["at"], course["nodes"], strict=True))[1] == (1000.0, 2.0)
    use = figures.nodes_in_use
    assert (round(use.mean, 6), use.peak, use.end, figures.nodes) == (1.25, 2, 2, 2)
    cpu = figures.utilisation["cpu"]
    # 4 of 8 cores for 30 s, 6 of 8 for 10 s
    assert (round(cpu.mean, 6), cpu.peak, cpu.end) == (0.5625, 0.75, 0.75)
    assert figures.utilisation["memory"] == Spread(0.25, 0.25, 0.25)
    assert set(figures.utilisation) == {"cpu", "memory"}


def test_waits_run_from_creation_to_binding() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("n1", cpu=1)
        await cluster.create_pod("first", cpu=1, run_s=60)
        await cluster.create_pod("second", cpu=1)
        await cluster.create_pod("never", cpu=9)
        await cluster.create_pod("mirror", nodeName="n1")
        await cluster.sleep(100)

    waits = played(scenario).figures.waits
    assert (waits.pods, waits.p50, waits.still, waits.longest_still) == (2, 0.0, 1, 100.0)
    assert waits.longest == waits.p99 == 60.5


def test_evictions_are_counted_by_cause() -> None:
    async def scenario(cluster: Cluster) -> None:
        for name in ("n1", "n2"):
            await cluster.create_node(name, cpu=1)
        await cluster.create_pod("a", cpu=1)
        await cluster.create_pod("b", cpu=1)
        await cluster.settle()
        await cluster.fail("n1")
        await cluster.drain("n2")
        await cluster.settle()

    outcome = played(scenario)
    assert (outcome.counts["lost"], outcome.counts["drained"]) == (1, 1)
    assert outcome.figures.nodes_in_use.end == 0
    assert outcome.figures.utilisation["cpu"].end == 0


SCENARIO = """\
cluster:
  nodes: [{name: small, cpu: 1}, {name: big, cpu: 8}, {name: closed, cpu: 8, unschedulable: true}]
steps:
- create: {pods: [{name: a, cpu: 500m}, {name: b, cpu: 4}, {name: c, cpu: 20}]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def log_of(file: Path, *options: str) -> list[dict[str, object]]:
    log = file.parent / "log.jsonl"
    arguments = [str(file), "--decisions", str(log), "--timeline", "none", *options]
    done = CliRunner().invoke(simulate, arguments, standalone_mode=False)
    assert done.exception is None, done.output
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_decisions_with_scores_and_reasons(file: Path) -> None:
    first, _, second, _, third = log_of(file, "--with-scores")
    assert first["node"] == "big"
    scores = first["scores"]
    assert isinstance(scores, dict)
    assert set(scores) == {"small", "big"}
    assert first["totals"] == {name: sum(by.values()) for name, by in scores.items()}
    assert first["best"] == ["big"]
    unschedulable = {
        "code": "UnschedulableAndUnresolvable",
        "plugin": "NodeUnschedulable",
        "reasons": ["node(s) were unschedulable"],
    }
    assert first["refused"] == {"closed": unschedulable}
    # A single feasible node is not scored by the scheduler, and explained all the same.
    assert second["best"] == ["big"]
    assert isinstance(second["refused"], dict)
    assert second["refused"]["small"]["reasons"] == ["Insufficient cpu"]
    assert third["kind"] == "unschedulable"
    assert isinstance(third["refused"], dict)
    assert set(third["refused"]) == {"small", "big", "closed"}


def test_explanations_change_no_decision(file: Path) -> None:
    """Random plugins draw from one source: a second look at them must not move it."""
    file.write_text(
        "config: {profiles: [{plugins: {multiPoint: {enabled: [{name: RandomScore}]}}}]}\n"
        "cluster: {nodes: [{name: n$i, count: 5}, {name: closed, unschedulable: true}]}\n"
        "steps: [{create: {pods: [{name: p, count: 30}]}}]\n"
    )
    plain = log_of(file)
    explained = log_of(file, "--with-scores")
    added = {"refused", "scores", "totals", "best"}
    assert all("scores" in line for line in explained if line["kind"] == "decided")
    assert plain == [
        {name: value for name, value in line.items() if name not in added} for line in explained
    ]


def test_scores_need_a_file(file: Path) -> None:
    done = CliRunner().invoke(simulate, [str(file), "--with-scores"], standalone_mode=False)
    assert str(done.exception) == "--with-scores: adds to the lines of --decisions FILE; give both"
