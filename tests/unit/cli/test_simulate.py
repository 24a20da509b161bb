"""`stowplan simulate`: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan.cli.simulate import simulate
from stowplan.errors import ConfigError

GOOD = """\
name: a story
cluster: {nodes: [{name: n1}]}
steps:
- create: {pods: [{name: a}]}
- expect: {pod: a, on: n1}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "story.yaml"
    path.write_text(GOOD)
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(simulate, [str(arg) for arg in args], standalone_mode=False)


def test_the_timeline_and_where_pods_went(file: Path) -> None:
    done = run(file)
    assert done.return_value == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "a story, on virtual, seed 0"
    assert "     0.000  step 1: create pod a" in lines
    assert "     0.500    ok    a is on n1" in lines
    assert "default/a   n1     Running" in lines
    assert lines[-1].startswith("1 expectation met; 1 of 1 pods bound; 1 attempt, 0 verified; ")
    assert "waiting time   p50 0.0 s, p90 0.0 s, p99 0.0 s, longest 0.0 s" in lines


def test_without_a_timeline(file: Path) -> None:
    assert "step 1" not in run(file, "--timeline", "none").stdout


def test_an_expectation_that_is_not_met_is_exit_code_1(file: Path) -> None:
    file.write_text(GOOD.replace("on: n1}", "on: n2}"))
    done = run(file)
    assert done.return_value == 1
    assert f"FAIL {file}:5: a is on n2; found: on n1" in done.stdout


def test_a_wrong_file_is_exit_code_2(file: Path) -> None:
    file.write_text("steps: [{creat: {}}]")
    done = run(file)
    assert isinstance(done.exception, ConfigError)
    assert done.exception.exit_code == 2
    assert "unknown verb `creat`" in str(done.exception)


def test_as_data(file: Path) -> None:
    data = json.loads(run(file, "-o", "json", "--seed", "5").stdout)
    assert (data["name"], data["target"], data["seed"], data["ok"]) == (
        "a story",
        "virtual",
        5,
        True,
    )
    assert data["placements"] == {"default/a": "n1"}
    assert data["timeline"][0]["kind"] == "step"
    short = yaml.safe_load(run(file, "-o", "yaml", "--timeline", "none").stdout)
    assert "timeline" not in short


def test_a_page_and_the_decisions(file: Path, tmp_path: Path) -> None:
    page, log = tmp_path / "page.html", tmp_path / "log.jsonl"
    assert run(file, "--html", page, "--decisions", log).return_value == 0
    assert "<title>a story</title>" in page.read_text()
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds == ["decided", "bound"]
    first = log.read_bytes()
    run(file, "--decisions", log)
    assert log.read_bytes() == first


@pytest.mark.parametrize("option", ["--html", "--decisions", "--result"])
def test_the_scenario_is_not_overwritten(file: Path, option: str) -> None:
    done = run(file, option, file)
    assert isinstance(done.exception, ConfigError)
    assert "is read by this command" in str(done.exception)
    assert file.read_text() == GOOD


@pytest.mark.parametrize("option", ["--html", "--decisions", "--result"])
def test_files_that_the_scenario_names_are_not_overwritten(tmp_path: Path, option: str) -> None:
    file, trace = tmp_path / "scenario.yaml", tmp_path / "pods.csv"
    file.write_text("steps:\n- workload: {trace: pods.csv}\n")
    trace.write_text("cpu,memory\n1,1\n")
    done = run(file, option, trace)
    assert isinstance(done.exception, ConfigError)
    assert "is read by this command" in str(done.exception)
    assert trace.read_text() == "cpu,memory\n1,1\n"


def test_several_workloads_are_told_one_after_the_other(tmp_path: Path) -> None:
    file = tmp_path / "performance-config.yaml"
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {generateName: p-}\n"
        "spec: {containers: [{name: c, image: pause}]}\n"
    )
    file.write_text(
        "- name: Small\n"
        "  defaultPodTemplatePath: pod.yaml\n"
        "  workloadTemplate:\n"
        "  - {opcode: createNodes, countParam: $nodes}\n"
        "  - {opcode: createPods, count: 2}\n"
        "  workloads: [{name: one, params: {nodes: 1}}, {name: two, params: {nodes: 2}}]\n"
    )
    page = tmp_path / "page.html"
    done = run(file, "-o", "json", "--html", page)
    assert done.return_value == 0
    names = [(each["name"], len(each["placements"])) for each in json.loads(done.stdout)]
    assert names == [("Small/one", 2), ("Small/two", 2)]
    assert "Small/one" in page.read_text()
    assert "Small/two" in (tmp_path / "page-2.html").read_text()


@pytest.mark.parametrize("option", ["--html", "--decisions"])
def test_a_file_that_cannot_be_written_is_told(file: Path, tmp_path: Path, option: str) -> None:
    done = run(file, option, tmp_path / "none" / "file")
    assert isinstance(done.exception, ConfigError)
    folder = tmp_path / "none"
    assert str(done.exception) == (
        f"{option} {folder / 'file'}: the folder {folder} does not exist. Fix: mkdir -p {folder}"
    )
    assert done.stdout == "", "the scenario was played first"


def test_a_full_disk_costs_the_log_of_decisions_alone(file: Path) -> None:
    done = run(file, "--decisions", "/dev/full", "-o", "json")
    assert isinstance(done.exception, ConfigError)
    assert "is incomplete: No space left on device" in str(done.exception)
    assert json.loads(done.stdout)["ok"] is True


def test_a_target_that_does_not_exist_is_told(file: Path) -> None:
    done = run(file, "--on", "nowhere")
    assert isinstance(done.exception, ConfigError)
    assert "known: virtual, embedded, real, or the path of a kubeconfig" in str(done.exception)
