"""`stowplan sweep` as a process: the same bytes on any number of workers, killed or not."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.recording.test_gaps import rotated
from tests.waiting import wait_for

STOWPLAN = (sys.executable, "-m", "stowplan")
SCENARIO = """
cluster:
  nodes:
  - {name: node, count: 3, cpu: 4}
steps:
- create: {pods: [{name: web, count: 4, cpu: 1}]}
"""
TRACE = """
generate:
  pools: [{name: node, count: 3, cpu: 4, memory: 8Gi}]
  applications: [{name: job, cpu: 1, memory: 1Gi, duration: {exponential: {mean: 30s}, min: 1s}}]
  arrivals: {kind: poisson, count: 12, over: 2m}
"""
SWEEP = """
workloads:
- scenario: scenario.yaml
- trace: trace.yaml
parameters:
  strategy:
    path: profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type
    values: [LeastAllocated, MostAllocated]
seeds: 2
"""
#: Takes its worker with it, the first time or, with `always`, each time.
KILLER = """
import os, signal
from pathlib import Path
from stowplan import Plugin

class Killer(Plugin):
    name = "Killer"

    def score(self, state, pod, node):
        mark = Path(__file__).with_name("killed")
        if not mark.exists() or Path(__file__).with_name("always").exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 0
"""
PLUGIN = """
from stowplan import Plugin
from sweep_helper import WEIGHT

class One(Plugin):
    name = "One"

    def score(self, state, pod, node):
        return WEIGHT

class Two(One):
    pass
"""
#: A scenario that lasts as long as there is a file `hold` beside it.
HELD = """
import time
from pathlib import Path

async def scenario(cluster):
    await cluster.create_node("node")
    Path(__file__).with_name("held").touch()
    while Path(__file__).with_name("hold").exists():
        time.sleep(0.02)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (
        ("scenario.yaml", SCENARIO),
        ("trace.yaml", TRACE),
        ("sweep.yaml", SWEEP),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def sweep(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*STOWPLAN, "sweep", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()]


def test_the_same_bytes_on_one_worker_on_two_and_on_dask(folder: Path) -> None:
    keep = ("--keep", "runs", "--keep", "decisions")
    done = sweep(folder, "sweep.yaml", "--workers", "1", "--results", "one", *keep)
    assert "8 runs; results and report.html are in one" in done.stdout
    sweep(folder, "sweep.yaml", "--workers", "2", "--results", "two", *keep)
    sweep(folder, "sweep.yaml", "--workers", "2", "--results", "dask", "--dask", "local", *keep)
    files = sorted(path.relative_to(folder / "one") for path in (folder / "one").rglob("*.*"))
    files.remove(Path("journal.jsonl"))  # in the order in which tasks were finished
    assert len(files) == 8 + 8 + 4
    for file in files:
        one = (folder / "one" / file).read_bytes()
        assert one == (folder / "two" / file).read_bytes(), file
        assert one == (folder / "dask" / file).read_bytes(), file
    kept = rows(folder / "one")
    assert [row["strategy"] for row in kept] == ["LeastAllocated"] * 4 + ["MostAllocated"] * 4
    assert kept[0]["nodes_in_use"] > kept[4]["nodes_in_use"]
    log = gzip.decompress(
        (folder / "one" / "decisions" / f"{kept[0]['task']}.jsonl.gz").read_bytes()
    )
    assert [json.loads(line)["kind"] for line in log.splitlines()].count("bound") == 4

    # The runs are results, to be compared.
    runs = [str(folder / "one" / "runs" / f"{kept[index]['task']}.json.gz") for index in (0, 4)]
    compared = subprocess.run(
        [*STOWPLAN, "compare", *runs, "-o", "json"], capture_output=True, text=True, check=True
    )
    names = [run["name"] for run in json.loads(compared.stdout)["runs"]]
    assert names[0] == "scenario, strategy=LeastAllocated, seed 0"

    # A second time nothing is played; a value more is all that is.
    done = sweep(folder, "sweep.yaml", "--results", "one", "-o", "json")
    assert "8 of 8 tasks were finished before" in done.stderr
    assert json.loads(done.stdout)["rows"] == kept
    more = SWEEP.replace("seeds: 2", "seeds: 3")
    (folder / "sweep.yaml").write_text(more)
    done = sweep(folder, "sweep.yaml", "--results", "one", "--sort", "nodes_in_use")
    assert "8 of 12 tasks were finished before" in done.stderr
    assert done.stdout.startswith("WORKLOAD   STRATEGY")


def test_a_folder_of_recordings_gives_the_same_bytes_everywhere(folder: Path) -> None:
    files = rotated(folder / "recordings")
    (folder / "sweep.yaml").write_text(
        SWEEP.replace("- scenario: scenario.yaml\n- trace: trace.yaml", "- recording: recordings")
    )
    keep = ("--keep", "runs", "--keep", "decisions")
    for name, how in (
        ("one", ("--workers", "1")),
        ("two", ("--workers", "2")),
        ("dask", ("--workers", "2", "--dask", "local")),
    ):
        done = sweep(folder, "sweep.yaml", "--results", name, *how, *keep)
        assert done.stderr.count(f"Warning: {folder / 'recordings'}: gap at ") == 2
    kept = sorted(path.relative_to(folder / "one") for path in (folder / "one").rglob("*.*"))
    kept.remove(Path("journal.jsonl"))
    assert len(kept) == 4 + 4 + 4
    for file in kept:
        one = (folder / "one" / file).read_bytes()
        assert one == (folder / "two" / file).read_bytes(), file
        assert one == (folder / "dask" / file).read_bytes(), file
    played = [row["decisions"] for row in rows(folder / "one")]
    assert len(played) == 4

    # `stowplan replay` decides the same.
    command = [*STOWPLAN, "replay", "recordings", "--decisions", "decisions.jsonl"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)
    digest = hashlib.sha256((folder / "decisions.jsonl").read_bytes()).hexdigest()
    assert digest == played[0]

    # A file that was deleted, as `record --keep` does, is noticed when the sweep is resumed.
    again = sweep(folder, "sweep.yaml", "--results", "one", *keep)
    assert "4 of 4 tasks were finished before" in again.stderr
    next(iter(files)).unlink()
    again = sweep(folder, "sweep.yaml", "--results", "one", *keep)
    assert "finished before" not in again.stderr


def test_the_task_of_a_killed_worker_is_repeated(folder: Path) -> None:
    (folder / "killer.py").write_text(KILLER)
    (folder / "sweep.yaml").write_text(
        SWEEP + "plugins: ['killer.py:Killer']\n"
        "configurations:\n"
        "- {name: k, config: {profiles: [{plugins: {score: {enabled: [{name: Killer}]}}}]}}\n"
    )
    sweep(folder, "sweep.yaml", "--workers", "2")
    assert (folder / "killed").exists()
    results = folder / "sweep-results"
    journal = (results / "journal.jsonl").read_text().splitlines()
    assert len(journal) == len({json.loads(line)["row"]["task"] for line in journal}) == 8
    (folder / "killed").unlink()
    on_dask = sweep(folder, "sweep.yaml", "--workers", "2", "--results", "on", "--dask", "local")
    assert "finished before" not in on_dask.stderr
    assert (folder / "killed").exists()
    assert rows(results) == rows(folder / "on")
    assert len((folder / "on" / "journal.jsonl").read_text().splitlines()) == 8

    # One that kills its worker each time is given up, and all others are played.
    (folder / "always").touch()
    (folder / "sweep.yaml").write_text(
        "workloads: [{scenario: scenario.yaml}]\n"
        "plugins: ['killer.py:Killer']\n"
        "configurations:\n"
        "- {name: k, config: {profiles: [{plugins: {score: {enabled: [{name: Killer}]}}}]}}\n"
        "- {name: plain, config: {}}\n"
    )
    done = sweep(folder, "sweep.yaml", "--workers", "2", "--results", "given-up", code=1)
    assert "FAIL scenario, k, seed 0: its worker was killed each time" in done.stderr
    assert [row["configuration"] for row in rows(folder / "given-up")] == ["plain"]


def test_a_sweep_in_another_folder_notices_changed_code_and_layouts(folder: Path) -> None:
    for name, text in (
        ("sweep_plugin.py", PLUGIN),
        ("sweep_helper.py", "WEIGHT = 1\n"),
        ("pods.csv", "cores\n1\n2\n"),
        ("layout.yaml", "fields: {cpu: {column: cores, factor: 1}}\n"),
    ):
        (folder / name).write_text(text)
    text = (
        "workloads: [{trace: pods.csv, columns: layout.yaml, nodes: trace.yaml}]\n"
        "plugins: ['sweep_plugin:One']\n"
    )
    (folder / "sweep.yaml").write_text(text)
    outside, file = folder.parent, f"{folder.name}/sweep.yaml"

    def cpu(*how: str) -> float:
        done = sweep(outside, file, "--workers", "1", *how)
        assert "finished before" not in done.stderr
        (row,) = rows(Path(how[1]) if how else folder / "sweep-results")
        return float(row["cpu"])

    first = cpu()
    assert cpu("--results", str(folder / "on-dask"), "--dask", "local") == first
    (folder / "layout.yaml").write_text("fields: {cpu: {column: cores, factor: 2}}\n")
    assert cpu() == pytest.approx(2 * first)
    (folder / "sweep_helper.py").write_text("WEIGHT = 2\n")
    cpu()
    (folder / "sweep.yaml").write_text(text.replace(":One", ":Two"))
    cpu()
    assert "1 of 1 tasks were finished before" in sweep(outside, file).stderr


def test_an_interrupt_while_workers_start_is_told_in_a_line(folder: Path) -> None:
    (folder / "sweep.yaml").write_text("workloads: [{scenario: scenario.yaml}]\n")
    command = [*STOWPLAN, "sweep", "sweep.yaml", "--workers", "2"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("0/1 tasks")
    time.sleep(0.1)  # the server that forks workers is loading
    process.send_signal(signal.SIGINT)  # to the first process alone
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; 0 of 1 tasks are finished" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_goes_on_where_it_stopped(folder: Path, how: signal.Signals) -> None:
    (folder / "held.py").write_text(HELD)
    (folder / "hold").touch()
    (folder / "sweep.yaml").write_text(
        "workloads: [{scenario: scenario.yaml}, {scenario: held.py}]\n"
    )
    command = [*STOWPLAN, "sweep", "sweep.yaml", "--workers", "1"]
    # A group of its own, as a shell would have it: Ctrl-C reaches all of its processes.
    process = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    journal = folder / "sweep-results" / "journal.jsonl"
    wait_for("the second task", (folder / "held").exists, 60)
    assert len(journal.read_text().splitlines()) == 1
    if how is signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.kill()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL)
    if how is signal.SIGINT:
        assert "1 of 2 tasks are finished, and kept in sweep-results. To go on: " in errors
        assert errors.rstrip().endswith("-m stowplan sweep sweep.yaml --workers 1")
        assert "Traceback" not in errors
    assert "resource_tracker" not in errors
    # No worker is left: the group is empty.
    wait_for("the end of all workers", lambda: _is_gone(process.pid))

    (folder / "hold").unlink()
    done = sweep(folder, "sweep.yaml", "--workers", "1")
    assert "1 of 2 tasks were finished before" in done.stderr
    assert [row["workload"] for row in rows(folder / "sweep-results")] == ["scenario", "held"]


def _is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_scenario_that_fails_is_told(folder: Path) -> None:
    failing = SCENARIO + "- expect: {pods: web-*, bound: 3}\n"
    (folder / "scenario.yaml").write_text(failing)
    (folder / "sweep.yaml").write_text("workloads: [{scenario: scenario.yaml}]\n")
    done = sweep(folder, "sweep.yaml", code=1)
    assert "FAIL scenario, seed 0: not met: " in done.stderr


BROKEN = """
from stowplan import Plugin

class Boom(Plugin):
    name = "boom"

    def filter(self, state, pod, node):
        raise RuntimeError("kaboom")
"""
BOOM = 'running "boom" filter plugin: RuntimeError: kaboom (broken.py:'
TWICE = """
async def scenario(cluster):
    await cluster.create_node("node")
    await cluster.create_node("node")
"""


def test_a_broken_plugin_is_one_line_and_the_same_row_from_every_folder(folder: Path) -> None:
    (folder / "broken.py").write_text(BROKEN)
    (folder / "sweep.yaml").write_text(
        "workloads: [{scenario: scenario.yaml}, {trace: trace.yaml}]\nplugins: ['broken.py:Boom']\n"
    )
    done = sweep(folder, "sweep.yaml", "--workers", "1", code=1)
    failed = [line for line in done.stderr.splitlines() if not line.startswith(("0/2", "1/2"))]
    assert [line.partition("; ")[0] for line in failed] == [
        f"FAIL scenario, seed 0: scenario.yaml:6: step 1 (create): {BOOM}8)",
        f"FAIL trace, seed 0: trace.yaml: {BOOM}8)",
    ]
    table = (folder / "sweep-results" / "results.csv").read_bytes()
    for place in (folder.parent, Path("/")):
        results = folder / f"from-{place.name}"
        file = str(folder.relative_to(place) / "sweep.yaml")
        sweep(place, file, "--results", str(results), "--workers", "1", code=1)
        assert (results / "results.csv").read_bytes() == table


def test_a_plugin_that_breaks_sometimes_fails_its_task(folder: Path) -> None:
    (folder / "broken.py").write_text(
        BROKEN.replace(
            "raise", "self.seen = hasattr(self, 'seen')\n        if not self.seen: raise"
        )
    )
    (folder / "sweep.yaml").write_text(
        "workloads: [{scenario: scenario.yaml}]\nplugins: ['broken.py:Boom']\n"
    )
    done = sweep(folder, "sweep.yaml", "--workers", "1", code=1)
    assert f"FAIL scenario, seed 0: a plugin failed: {BOOM}9)\n" in done.stderr


def test_problems_of_inputs_name_the_input(folder: Path) -> None:
    (folder / "twice.py").write_text(TWICE)
    (folder / "pods.csv").write_text("cpu,memory\n1,1\n")
    (folder / "sweep.yaml").write_text("workloads: [{scenario: twice.py}, {trace: pods.csv}]\n")
    done = sweep(folder, "sweep.yaml", "--workers", "1", code=1)
    assert 'FAIL twice, seed 0: twice.py:4: nodes "node" already exists\n' in done.stderr
    assert "FAIL pods, seed 0: pods.csv: there is no node; " in done.stderr


def test_missing_prices_and_equal_samples_are_warnings(folder: Path) -> None:
    (folder / "prices.yaml").write_text("m5.large: 0.096\n")
    path = "profiles[0].plugins.score.enabled[ImageLocality].weight"
    (folder / "sweep.yaml").write_text(
        "workloads: [{scenario: scenario.yaml}]\n"
        f"parameters: {{weight: {{path: '{path}', values: [1, 2]}}}}\n"
        "search: {random: 2}\nprices: prices.yaml\n"
    )
    done = sweep(folder, "sweep.yaml", "--workers", "1")
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning")]
    types = "3 nodes without the label node.kubernetes.io/instance-type"
    assert warnings == [
        "Warning: sweep.yaml:3: sweep: `search` has 2 samples, but 1 distinct one; each runs once",
        f"Warning: scenario: no price for {types}",
    ]
    assert rows(folder / "sweep-results")[0]["unpriced"] == types


def test_costs_need_prices_in_a_file_or_in_labels(folder: Path) -> None:
    (folder / "sweep.yaml").write_text("workloads: [{scenario: scenario.yaml}]\n")
    arguments = ("sweep.yaml", "--figure", "cost_in_use")
    assert (
        "Warning: --figure cost_in_use: no node has a price. Fix: add `prices: FILE` to sweep.yaml,"
        " or label nodes with stowplan.io/price-per-hour\n"
    ) in sweep(folder, *arguments).stderr
    node = "{name: node, count: 3, cpu: 4, labels: {stowplan.io/price-per-hour: '2'}}"
    scenario = SCENARIO.replace("{name: node, count: 3, cpu: 4}", node)
    (folder / "scenario.yaml").write_text(f"{scenario}- sleep: 1h\n")
    done = sweep(folder, *arguments)
    assert "Warning" not in done.stderr
    assert re.search(r"scenario +1 +6\.0", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none.yaml"], "Error: none.yaml: cannot be read: No such file or directory\n"),
        (
            ["sweep.yaml", "--sort=-cost_inuse"],
            'Error: --sort: there is no figure cost_inuse; did you mean "cost_in_use"?\n',
        ),
        (["sweep.yaml", "--figure", "speed"], "Error: --figure: there is no figure speed; known: "),
        (["sweep.yaml", "--dask", "nonsense://x"], "Error: --dask nonsense://x: cannot be reached"),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: list[str], problem: str) -> None:
    done = sweep(folder, *arguments, code=2)
    assert done.stderr.startswith(problem)
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "sweep-results").exists(), "nothing was run"


def test_ctrl_c_on_dask_is_told_in_one_line(folder: Path) -> None:
    """A terminal sends it to the workers, too."""
    (folder / "hold").touch()
    (folder / "scenario.py").write_text(HELD)
    (folder / "sweep.yaml").write_text("workloads: [{scenario: scenario.py}]\n")
    process = subprocess.Popen(
        [*STOWPLAN, "sweep", "sweep.yaml", "--dask", "local", "--workers", "1"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for("the task to begin", (folder / "held").exists)
        os.killpg(process.pid, signal.SIGINT)
        (folder / "hold").unlink()
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    lines = [line for line in told.splitlines() if line and not line.startswith("0/1 tasks")]
    assert len(lines) == 1, told
    assert lines[0].startswith("interrupted; 0 of 1 tasks are finished")


def test_without_dask_there_is_the_command_that_installs_it(folder: Path) -> None:
    (folder / "distributed.py").write_text("raise ModuleNotFoundError('no', name='distributed')\n")
    done = sweep(folder, "sweep.yaml", "--dask", "local", code=2)
    assert done.stderr == (
        "Error: --dask local: needs distributed, which is not installed. "
        "Fix: pip install 'stowplan[dask]'\n"
    )


def test_without_pyarrow_there_is_the_command_that_installs_it(folder: Path) -> None:
    (folder / "pyarrow.py").write_text("raise ModuleNotFoundError('no', name='pyarrow')\n")
    command = [*STOWPLAN, "compare", "a.json", "--pods", "pods.parquet"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "Error: --pods pods.parquet: needs pyarrow, which is not installed. "
        "Fix: pip install 'stowplan[data]'\n",
    )
