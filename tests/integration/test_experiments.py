"""`stowplan simulate` as a process: void experiments, bad input, Ctrl-C, and what is left then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.cli.main import main
from tests.waiting import wait_for

GENERATED = """\
steps:
- workload:
    generate:
      pools: [{{name: node, count: 2, cpu: 4}}]
      applications: [{{name: job, cpu: 1, memory: 1Gi, duration: 30s}}]
      arrivals: {{kind: uniform, count: {count}, over: 10h}}
      disruptions: [{{at: 1h, fail: {node}}}]
"""


def simulate(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", "simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def refused(*arguments: object) -> str:
    """The one line that a mistake ends in."""
    done = simulate(*arguments)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "scenario.yaml"


def test_a_disruption_of_a_node_that_does_not_exist_is_an_error(file: Path) -> None:
    file.write_text(GENERATED.format(count=10, node="nod-1"))
    assert refused(file, "--timeline", "none") == (
        f"{file}:7: generate, disruptions[0]: `fail`: there is no node `nod-1` at 3600 s; "
        "did you mean `node-1`?"
    )


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("fail: n9", "step 1 (fail)"),
        ("drain: n9", "step 1 (drain)"),
        ("cordon: x-*", "there is no Node that matches x-*"),
        ("delete: pod/nobody", "step 1 (delete)"),
        ("delete: pvc/shop/data", "step 1 (delete)"),
        ("patch: {object: node/n9, with: {metadata: {labels: {a: b}}}}", "step 1 (patch)"),
        ("workload: {generate: {}}", "describes nothing"),
        ("workload: {trace: empty.csv}", "empty.csv: holds nothing to play"),
        ("workload: {trace: unknown.csv}", "unknown.csv:1: unknown column `cpus`; did you mean"),
        (
            "workload: {trace: broken.csv}",
            "broken.csv:3: cpu: `lots` is not an amount of cpu such as 500m or 2. "
            "Fix: correct the row, or leave out broken rows with `skipBroken: true`",
        ),
    ],
)
def test_an_experiment_is_never_silently_void(
    file: Path, step: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "empty.csv").write_text("name,cpu\n")
    (file.parent / "unknown.csv").write_text("name,cpus\na,1\n")
    (file.parent / "broken.csv").write_text("name,cpu\na,1\nb,lots\nc,1\n")
    file.write_text(f"cluster: {{nodes: [{{name: n1}}]}}\nsteps:\n- {step}\n")
    with pytest.raises(SystemExit) as ended:
        main(["simulate", str(file), "--timeline", "none"])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ")
    assert message in line


def test_an_expectation_about_what_never_existed_is_not_met(file: Path) -> None:
    file.write_text(
        "cluster: {nodes: [{name: n1}]}\nsteps:\n"
        "- create: {pods: [{name: a}]}\n"
        "- expect: [{pod: aa, gone: true}, {node: n2, gone: true}, {pod: a, notOn: n2}]\n"
        "- delete: pod/a\n"
        "- delete: pod/a\n"
        "- expect: {pod: a, gone: true}\n"
    )
    done = simulate(file, "-o", "json")
    assert done.returncode == 1
    found = [(each["met"], each["found"]) for each in json.loads(done.stdout)["expectations"]]
    assert found == [
        (False, "there never was such a pod"),
        (False, "there never was such a node"),
        (False, "there never was a node n2"),
        (True, "gone"),
    ]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("fail: nod-1", "there is no node `nod-1`; did you mean `node-1`?"),
        ("cordon: [node-1, nod-1]", "there is no node `nod-1`; did you mean `node-1`?"),
        ("drain: x-*", "there is no Node that matches x-*"),
        ("delete: node/gpu", "there is no node `gpu`; there is node-1"),
        (
            "patch: {object: node/nod-1, with: {metadata: {labels: {a: b}}}}",
            "did you mean `node-1`?",
        ),
        (
            "workload: {generate: {disruptions: [{fail: nod-1, at: 1h}]}}",
            "there is no node `nod-1` at 3600 s; did you mean `node-1`?",
        ),
    ],
)
def test_an_unknown_node_is_found_before_anything_is_played(
    file: Path, step: str, message: str
) -> None:
    file.write_text(
        "cluster: {nodes: [{name: node-1}]}\n"
        f"steps:\n- create: {{pods: [{{name: a}}]}}\n- {step}\n"
    )
    done = simulate(file)
    assert done.returncode == 2
    assert message in done.stderr
    assert "created" not in done.stdout


def test_nodes_that_a_trace_or_a_step_creates_are_known(file: Path) -> None:
    (file.parent / "nodes.csv").write_text("name,cpu\nt1,4\n")
    (file.parent / "pods.csv").write_text("name,cpu\na,1\n")
    file.write_text(
        "steps:\n- workload: {trace: pods.csv, nodes: nodes.csv}\n- cordon: t1\n"
        "- create: {nodes: [{name: late}]}\n- fail: late\n"
    )
    done = simulate(file)
    assert done.returncode == 0, done.stderr


def test_a_trace_without_nodes_is_exit_code_2(file: Path) -> None:
    (file.parent / "pods.csv").write_text("name,cpu\na,1\n")
    file.write_text("steps:\n- workload: {trace: pods.csv}\n")
    assert refused(file, "--timeline", "none").endswith(
        "step 1 (workload): there is no node; give the trace `nodes`, or create some first"
    )


def test_two_outputs_need_two_files(file: Path) -> None:
    file.write_text("steps: [{say: hello}]")
    out = file.parent / "out"
    told = refused(file, "--html", out, "--decisions", file.parent / "." / "out")
    assert told == f"--html and --decisions: are the same file, {out}. Fix: name two files"


def test_a_file_that_is_no_scenario(file: Path) -> None:
    assert refused(file) == f"{file}: cannot be read: No such file or directory"
    trace = file.with_name("mypods.csv")
    trace.write_text("name,cpu\na,1\n")
    assert "A trace is played by a scenario: `workload: {trace: mypods.csv}`" in refused(trace)


def test_workloads_are_chosen_only_where_there_are_some(file: Path) -> None:
    file.write_text("steps: [{say: hello}]")
    assert refused(file, "--workload", "Basic*").endswith("Fix: leave out --workload")


def test_ctrl_c_ends_quickly_and_says_what_is_kept(file: Path) -> None:
    file.write_text(GENERATED.format(count=1_000_000, node="node-1"))
    log, page = file.parent / "log.jsonl", file.parent / "page.html"
    command = [sys.executable, "-m", "stowplan", "simulate", str(file), "--timeline", "none"]
    process = subprocess.Popen(
        [*command, "--decisions", str(log), "--html", str(page)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for("a decision in the log", lambda: log.stat().st_size > 0, 60)
        os.kill(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    lines = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    interrupted = [line for line in told.splitlines() if line]
    assert len(interrupted) == 1, told
    assert interrupted[0].startswith("interrupted at ")
    kept = f"{log} has {len(lines):,} lines; {page} was not written"
    assert interrupted[0].endswith(f" s of the cluster's time; {kept}")
    assert not page.exists()


@pytest.mark.parametrize(
    ("module", "arguments", "sent"),
    [
        ("decisions", ["--only", "spread"], signal.SIGINT),
        ("decisions", ["--only", "spread"], signal.SIGTERM),
        ("attack", ["--only", "a", "--nodes", "500", "--pods", "1000"], signal.SIGINT),
    ],
)
def test_a_signal_in_a_benchmark(module: str, arguments: list[str], sent: signal.Signals) -> None:
    command = [sys.executable, "-u", "-m", f"stowplan.bench.{module}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the first line of progress, or the head of the table
        os.kill(process.pid, sent)
        told, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 128 + sent
    assert "interrupted; " in told
    assert "Traceback" not in told


def test_an_output_of_a_benchmark_is_refused_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stowplan.bench.decisions", "--json"]
    path = str(tmp_path / "no" / "file")
    done = subprocess.run([*command, path], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: --json {tmp_path}/no/file: the folder {tmp_path}/no does not")


def test_pods_that_no_profile_serves_are_named(file: Path) -> None:
    file.write_text(
        "cluster: {nodes: [{name: n1}]}\nsteps:\n"
        "- create: {pods: [{name: a, count: 2, schedulerName: other}]}\n"
    )
    done = simulate(file)
    expected = (
        "2 pods of schedulerName other cannot be placed: the configuration has profiles for"
        " default-scheduler only"
    )
    assert expected in done.stdout
    assert "no pod was bound by the scheduler; 2 still waiting" in done.stdout
