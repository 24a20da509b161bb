"""docs/gym.md and the examples are true."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stowplan.sim.gym import REWARDS, ClusterEnv

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "gym.md").read_text()


def keys(heading: str) -> list[str]:
    """What stands in the first column of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


def test_tables() -> None:
    env = ClusterEnv()
    observation, info = env.reset(seed=0)
    assert keys("Observation") == list(observation)
    assert sorted(keys("Info")) == sorted(info)
    assert sorted(keys("Rewards")) == sorted(REWARDS)
    arguments = list(inspect.signature(ClusterEnv.__init__).parameters)[1:]
    assert keys("Arguments") == arguments


def test_the_first_program_runs() -> None:
    program = PAGE.partition("```python\n")[2].partition("```")[0]
    assert "stowplan/Cluster-v0" in program
    names: dict[str, object] = {}
    exec(program.replace("500", "20"), names)
    assert names["terminated"] is True


@pytest.mark.parametrize(
    "command", [["random_agent.py"], ["least_allocated.py"], ["least_allocated.py", "--most"]]
)
def test_examples(command: list[str]) -> None:
    script, *options = command
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "gym" / script), *options, "--episodes", "2"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    line = r"seed \d: return -?[\d.]+, 30 steps, 30 pods placed, waited 0.0 s each, \d+ steps/s\n"
    assert re.fullmatch(line * 2, done.stdout)
