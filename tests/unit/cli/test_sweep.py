"""The progress of `stowplan sweep`: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

from stowplan.cli.sweep import SweepProgress
from stowplan.sim.sweep.running import Progress


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
