"""Whole schedulers under seeded faults: fixed seeds, kept scripts, planted defects, the command.

`make fault-simulation RUNS=5000 SEED=1` runs more seeds; docs/fault-simulation.md explains them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.faults.generate import LONG, generate
from stowplan.sim.faults.run import run_script
from stowplan.sim.faults.script import Script, Step, read_script
from stowplan.sim.faults.shrink import shrink
from tests.property.planted_faults import PLANTED, Patch, bind_twice, forget_on_timeout

SCRIPTS = Path(__file__).parent.parent / "data" / "fault_scripts"
#: A few seconds each; every chunk is one test.
CHUNKS, SHORT_A_CHUNK, LONG_A_CHUNK = 10, 40, 10
#: How many orders of the same script may pass before a planted defect shows.
ORDERS = 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_fixed_seeds_find_nothing(chunk: int) -> None:
    short = range(1 + chunk * SHORT_A_CHUNK, 1 + (chunk + 1) * SHORT_A_CHUNK)
    long = range(1 + chunk * LONG_A_CHUNK, 1 + (chunk + 1) * LONG_A_CHUNK)
    scripts = [*(generate(seed) for seed in short), *(generate(seed, LONG) for seed in long)]
    results = [run_script(script) for script in scripts]
    assert {each.script.text(): each.findings for each in results if each.findings} == {}


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.json")), ids=lambda path: path.stem)
def test_kept_scripts_find_nothing(path: Path) -> None:
    """Each failed once; the defect is fixed."""
    assert run_script(read_script(path)).findings == []


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    script = read_script(SCRIPTS / "planted" / f"{plant.__name__}.json")
    orders = [replace(script, seed=script.seed + number) for number in range(ORDERS)]
    assert run_script(script).findings == [], "found without the defect"
    plant(monkeypatch)
    assert any(run_script(each).findings for each in orders)


def test_general_seeds_find_a_planted_defect(monkeypatch: Patch) -> None:
    """No script made for it is needed."""
    forget_on_timeout(monkeypatch)
    assert any(run_script(generate(seed)).findings for seed in range(1, 40))


def test_the_same_script_gives_the_same_trace() -> None:
    script = generate(4, LONG)  # with restarts, which cancel many tasks
    first, again = run_script(script), run_script(script)
    assert len(first.trace) > 100
    assert first.trace == again.trace
    other = run_script(replace(script, seed=script.seed + 1))
    assert first.trace != other.trace


def test_a_failing_script_shrinks_to_its_causes(monkeypatch: Patch) -> None:
    bind_twice(monkeypatch)
    script = generate(1, LONG)
    smallest = shrink(
        script, lambda each: "bound already" in str(run_script(each).findings), _ignore
    )
    assert len(script.steps) > 20
    assert {step.do for step in smallest.steps} == {"add-node", "create-pod"}
    assert len(smallest.steps) == 2


def _ignore(script: Script) -> None:
    """Progress is for people."""


def test_a_script_is_read_as_it_was_written(tmp_path: Path) -> None:
    script = replace(generate(9), annotate=True)
    file = tmp_path / "script.json"
    file.write_text(script.text())
    assert read_script(file) == script


def _command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stowplan.sim.faults", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_two_processes_print_the_same_trace() -> None:
    one = _command("--seed", "3", "--long", "--trace", PYTHONHASHSEED="1")
    other = _command("--seed", "3", "--long", "--trace", PYTHONHASHSEED="2")
    assert one.returncode == other.returncode == 0, one.stderr
    assert len(one.stdout) > 10_000
    assert one.stdout == other.stdout


def test_the_command_counts_its_runs() -> None:
    done = _command("--seed", "1", "--runs", "2")
    assert done.returncode == 0, done.stderr
    assert "2 runs from seed 1, 0 failed" in done.stdout


def test_ctrl_c_ends_the_command_with_its_summary() -> None:
    command = [sys.executable, "-m", "stowplan.sim.faults", "--runs", "1000000"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline().endswith("0 failed\n")
        running.send_signal(signal.SIGINT)
        out, problems = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "runs from seed 1, 0 failed" in out
    assert "Traceback" not in problems


def test_a_wrong_script_ends_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text("[" * 100_000)
    done = _command("--script", str(file))
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {file}: is not a script of faults")
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "line 1, column 1"), ('{"seed": 1}', "`steps` is missing")],
)
def test_a_wrong_script_is_told_in_words(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"is not a script of faults: {says}"):
        read_script(file)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (Step(0.0, "explode"), "no such step: explode"),
        (Step(0.0, "kill", {"replica": 3}), "list index out of range"),
        (Step(0.0, "add-node"), "name"),
        (Step(0.0, "fault", {"on": "bind", "what": "nonsense", "times": 1, "for": 1}), "nonsense"),
        (
            Step(0.0, "fault", {"on": "bnd", "what": "409", "times": 1, "for": 1}),
            "`on`: 'bnd' is none of bind, status, ",
        ),
    ],
)
def test_a_wrong_step_is_named(step: Step, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        run_script(Script(1, 1, (step,)))
    assert raised.value.where == step.line()


def test_a_step_is_one_line_of_json() -> None:
    step = Step(1.5, "kill", {"replica": 0})
    assert step.line() == '{"at": 1.5, "do": "kill", "replica": 0}'
