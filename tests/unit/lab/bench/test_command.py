"""`stowplan bench` as far as it starts nothing: lists, stored results, and errors for people."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from stowplan.cli.main import cli, main
from stowplan.lab.bench.plan import plan
from stowplan.lab.bench.results import RESULTS, Results
from stowplan.lab.bench.results import RunResult as Stored
from tests.unit.lab.bench.runs import result, run

FILE = """
- name: Own
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, count: 5}
  - {opcode: createPods, count: 10, collectMetrics: true}
  workloads:
  - {name: Small, params: {}, labels: [short]}
"""
POD = "{apiVersion: v1, kind: Pod, metadata: {generateName: p-}, spec: {containers: []}}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.yaml").write_text(FILE)
    (tmp_path / "pod.yaml").write_text(POD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["bench", *arguments], standalone_mode=False)


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, object]:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *arguments])
    return capsys.readouterr().err, ended.value.code


def store(*rates: tuple[str, float]) -> None:
    (item,) = plan("own.yaml")
    for contestant, rate in rates:
        Results("own").store(result(run(contestant, rate), item.setup))


def test_workloads_are_listed() -> None:
    output = bench("own.yaml", "--list").output
    assert output.splitlines()[1].split() == ["Own/Small", "5", "10", "10", "short"]
    assert not RESULTS.exists()
    assert json.loads(bench("own.yaml", "--list", "-o", "json").output) == [
        {"workload": "Own/Small", "labels": ["short"], "nodes": 5, "pods": 10, "measured": 10}
    ]


def test_what_cannot_be_played_is_listed_with_the_reason(folder: Path) -> None:
    (folder / "own.yaml").write_text(
        FILE.replace("params: {}", "params: {numNodeDeclaredFeatures: 1}")
    )
    cells = bench("own.yaml", "--list").output.splitlines()[1].split()
    assert cells[:7] == ["Own/Small", "-", "-", "-", "cannot", "be", "played:"]
    (plain,) = json.loads(bench("own.yaml", "--list", "-o", "json").output)
    assert sorted(plain) == ["cannot_play", "labels", "workload"]


def test_what_is_stored_is_shown_without_measuring(folder: Path) -> None:
    store(("stowplan", 900), ("kube-scheduler", 300), ("raw", 1000))
    shown = bench("own.yaml", "--stored", "--html", "page.html", "--report", "report.md")
    assert shown.exception is None
    assert shown.return_value == 0
    assert "stowplan / kube-scheduler = 3.0x" in shown.output
    assert "FEW PODS: 10 measured pods are too few for a comparison" in shown.output
    assert '<figure class="chart">' in (folder / "page.html").read_text()
    assert (folder / "report.md").read_text().startswith("# Performance\n")
    bench("own.yaml", "--stored", "--runs", "runs.jsonl")
    lines = (folder / "runs.jsonl").read_bytes().splitlines()
    (item,) = plan("own.yaml")
    assert [msgspec.json.decode(line, type=Stored) for line in lines] == Results("own").of(
        item.setup
    )
    assert len(lines) == 3
    as_json = bench("own.yaml", "--stored", "-o", "json")
    (workload,) = json.loads(as_json.output)["workloads"]
    assert workload["ratios"]["kube-scheduler"]["median"] == 3


def test_an_invalid_workload_is_a_failure() -> None:
    store(("stowplan", 1100), ("raw", 1000))
    shown = bench("own.yaml", "--stored")
    assert "INVALID: round 1 does not count: stowplan bound 1100 pods/s" in shown.output
    assert shown.return_value == 1


def test_errors_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert fails(capsys, "own.yaml", "--stored") == (
        "Error: bench-results/own has no stored results of these workloads\n",
        2,
    )
    told, code = fails(capsys, "own.yaml", "--against", "nobody")
    assert told == (
        "Error: --against: 'nobody' is unknown; choose from: "
        "stowplan, kube-scheduler, raw, raw/events\n"
    )
    assert code == 2
    told, _ = fails(capsys, "own.yaml", "--against", "raw,-nobody")
    assert "'nobody' is unknown" in told
    told, code = fails(capsys, "nowhere.yaml")
    assert "nowhere.yaml" in told
    assert "nor is it a set, which are headline, devices, quick" in told
    assert "Traceback" not in told
    assert code == 2
    told, code = fails(capsys, "own.yaml", "--workload", "Nonsense")
    assert "Nonsense" in told
    assert code == 2
    store(("stowplan", 900))
    told, code = fails(capsys, "own.yaml", "--stored", "--html", "no/such/folder.html")
    assert told == (
        "Error: --html no/such/folder.html: the folder no/such does not exist. "
        "Fix: mkdir -p no/such\n"
    )
    assert code == 2
