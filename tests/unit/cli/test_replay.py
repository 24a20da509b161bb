"""`stowplan replay`: what it refuses, prints and writes. tests/integration replays recordings."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.replay import replay
from stowplan.errors import ConfigError

STRATEGY = Path(__file__).parents[3] / "examples" / "strategy"
MONDAY = STRATEGY / "monday.jsonl.gz"
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: mine
"""
PLUGIN = """\
import stowplan

class Idle(stowplan.Plugin):
    name = "Idle"

    def filter(self, pod, node):
        return True
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(replay, [str(arg) for arg in args], standalone_mode=False)


@pytest.mark.parametrize("more", [(), ("--follow",)])
def test_a_plugin_that_no_profile_enables_is_refused(
    config: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "idle.py").write_text(PLUGIN)
    done = run(MONDAY, "--config", config, "--plugin", tmp_path / "idle.py:Idle", *more)
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == (
        f"{config}: no profile enables Idle. Fix: add it to profiles[0].plugins.multiPoint.enabled,"
        " or leave out the configuration"
    )


def test_bindings_of_pods_without_a_profile_are_counted(config: Path) -> None:
    done = run(MONDAY, "--config", config, "--follow")
    assert done.stdout.splitlines() == [
        "300 bindings seen, none of a pod that this configuration has a profile for, so there is"
        " nothing to compare",
        "left out: 300 pods of schedulerName default-scheduler",
    ]


def test_pages_and_logs_of_equal_runs_are_equal(tmp_path: Path) -> None:
    for name in ("one", "two"):
        done = run(
            MONDAY, "--html", tmp_path / f"{name}.html", "--decisions", tmp_path / f"{name}.jsonl"
        )
        assert done.return_value == 0
    for ending in ("html", "jsonl"):
        assert (tmp_path / f"one.{ending}").read_bytes() == (
            tmp_path / f"two.{ending}"
        ).read_bytes()


@pytest.mark.parametrize("option", ["--html", "--result"])
def test_the_results_are_printed_although_the_disk_is_full(option: str) -> None:
    done = run(MONDAY, option, "/dev/full")
    assert isinstance(done.exception, ConfigError)
    assert "300 of 300 pods bound" in done.stdout


AFTER = """\
import stowplan

class After(stowplan.Plugin):
    name = "After"

    def filter(self, pod, node):
        return True

    def post_bind(self, cycle, pod, node):
        raise RuntimeError("kaboom")
"""


def test_a_plugin_that_fails_fails_the_replay_although_all_pods_are_bound(tmp_path: Path) -> None:
    (tmp_path / "after.py").write_text(AFTER)
    done = run(MONDAY, "--plugin", tmp_path / "after.py:After")
    assert done.return_value == 1
    assert ": a plugin failed: RuntimeError: kaboom (" in done.stdout
    assert "after.py:10)\n" in done.stdout
    assert "300 of 300 pods bound" in done.stdout
