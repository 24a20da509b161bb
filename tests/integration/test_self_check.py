"""`stowplan simulate --verify-decisions`: a plugin that makes caches stale is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = '''
from stowplan.framework.plugin import Plugin, Reads
from stowplan.framework.status import unschedulable


class TwoAtMost(Plugin):
    """Refuses nodes with two pods, and says that it reads nodes only."""

    name = "TwoAtMost"
    reads = Reads.{reads}
    verdicts = (unschedulable("two pods are enough"),)

    def sign(self, info):
        return ""

    def filter_columns(self, cycle, rows, out, overlay):
        out[rows] = cycle.table.pod_count[rows] >= 2

    def filter(self, pod, node):
        return node.pod_count < 2
'''
SCENARIO = """
plugins: [two_at_most.py:TwoAtMost]
cluster:
  nodes: [{name: left}, {name: right}]
steps:
  - create: {pods: [{name: web-$i, count: 5}]}
"""


def _simulate(directory: Path, reads: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (directory / "two_at_most.py").write_text(PLUGIN.replace("{reads}", reads))
    (directory / "scenario.yaml").write_text(SCENARIO)
    command = [sys.executable, "-m", "stowplan", "simulate", "scenario.yaml", *flags]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)


def test_a_plugin_that_reads_more_than_it_declares_fails_the_scenario(tmp_path: Path) -> None:
    ended = _simulate(tmp_path, "NODE", "--verify-decisions=1")
    assert ended.returncode == 1, ended
    assert "on a rebuilt cluster" in ended.stderr
    assert "two pods are enough (TwoAtMost)" in ended.stderr
    assert "verdict on node " in ended.stderr
    assert "differ from those on a rebuilt cluster" in ended.stdout


@pytest.mark.parametrize("flags", [["--verify-decisions=1"], []])
def test_one_that_declares_it_does_not(tmp_path: Path, flags: list[str]) -> None:
    ended = _simulate(tmp_path, "PODS", *flags)
    assert ended.returncode == 0, ended
    assert not ended.stderr


def test_a_negative_number_is_refused(tmp_path: Path) -> None:
    ended = _simulate(tmp_path, "PODS", "--verify-decisions=-1")
    assert ended.returncode == 2
    assert "--verify-decisions" in ended.stderr
