"""The progress of `stowplan sweep`: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from stowplan.cli.sweep import SweepProgress, _failures
from stowplan.sim.sweep.running import Progress
from stowplan.sim.sweep.tasks import Inputs, Task, Workload


def test_a_terminal_shows_a_bar() -> None:
    stream = io.StringIO()
    shown = SweepProgress(stream, is_live=True)
    shown(Progress(4, before=1, played=1))
    shown.end()
    assert "[############............] 2/4 tasks, 0s, 0s left" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")
    assert shown.done == 2


def test_a_pipe_gets_plain_lines() -> None:
    stream = io.StringIO()
    shown = SweepProgress(stream)
    shown(Progress(4, before=3))
    shown(Progress(4, before=3, played=1))  # a moment later: no line of its own
    shown.end()
    assert stream.getvalue() == "3 of 4 tasks were finished before\n3/4 tasks, 0s\n"


def test_names_of_lost_tasks_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    workload = Workload("w\x1b[2J", "trace", "/w.yaml", Inputs(()))
    lost = [Task("key", workload, "", {"a\x07": "\x9b31m"}, 0, None, {}, {})]
    assert _failures(Progress(1, lost=lost), []) == 1
    assert capsys.readouterr().err.startswith(r"FAIL w\x1b[2J, a\x07=\x9b31m, seed 0: its worker")
