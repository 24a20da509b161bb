"""docs/choosing-a-strategy.md and docs/tuning-weights.md show what their commands give."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "strategy"
IMAGES = ROOT / "docs" / "images"
STRATEGY = (ROOT / "docs" / "choosing-a-strategy.md").read_text()
WEIGHTS = (ROOT / "docs" / "tuning-weights.md").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "strategy"))


def run(command: str, folder: Path) -> str:
    """What a command of the page prints."""
    words = shlex.split(command)
    words[:1] = [sys.executable, "-m", "stowplan"] if words[0] == "stowplan" else [sys.executable]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(page: str, begin: str) -> list[str]:
    """The commands of a page that begin so."""
    lines = [line.removeprefix("$ ") for line in page.splitlines()]
    return [line for line in lines if line.startswith(begin)]


def draw(which: str, picture: Path, *inputs: str) -> None:
    command = [sys.executable, "-m", "tools.guide_pictures", which, str(picture), *inputs]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize(
    ("name", "page"), [("most-allocated.yaml", STRATEGY), ("weights.yaml", WEIGHTS)]
)
def test_files_are_on_the_page(name: str, page: str) -> None:
    assert f"```yaml\n{(EXAMPLE / name).read_text()}```" in page


def test_the_recording_is_small() -> None:
    assert (EXAMPLE / "monday.jsonl.gz").stat().st_size < 300_000


def test_choosing_a_strategy(folder: Path) -> None:
    replays = commands(STRATEGY, "stowplan replay")
    assert len(replays) == 2
    for command in replays:
        run(command, folder)
    (compare,) = commands(STRATEGY, "stowplan compare least.json.gz most.json.gz --name")
    shown, _, moved = run(compare, folder).partition("\n\n")
    assert f"$ {compare}\n{shown}\n\n...\n```" in STRATEGY
    assert moved.startswith("MostAllocated: ")
    labelled = [f"LeastAllocated={folder}/least.json.gz", f"MostAllocated={folder}/most.json.gz"]
    draw("strategy", folder / "picture.svg", *labelled)
    kept = IMAGES / "choosing-a-strategy.svg"
    assert (folder / "picture.svg").read_text() == kept.read_text()


def test_tuning_weights(folder: Path) -> None:
    (sweep,) = commands(WEIGHTS, "stowplan sweep")
    assert f"$ {sweep}\n{run(sweep, folder)}```" in WEIGHTS
    draw("weights", folder / "picture.svg", str(folder / "weights-results"))
    assert (folder / "picture.svg").read_text() == (IMAGES / "tuning-weights.svg").read_text()


def test_an_optuna_study_finds_better_weights() -> None:
    (study,) = commands(WEIGHTS, "python ../examples/optuna/tune_weights.py")
    assert f"$ {study}\n{run(study, EXAMPLE.parent)}```" in WEIGHTS


def test_the_notebook_has_the_outputs_that_it_shows() -> None:
    command = [sys.executable, "-m", "tools.notebooks", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (ROOT / "docs" / "notebooks" / "results.ipynb").read_text()
    assert '"text/html"' in text
    assert str(ROOT) not in text
