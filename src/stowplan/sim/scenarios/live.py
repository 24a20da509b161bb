"""The timeline of a scenario, printed as it happens, and progress with an estimate.

`Live` is `on_entry` of a run. Lines go to `lines` (none where the output is JSON). Progress goes to
`status`: one line that is redrawn on a terminal, elsewhere a plain line now and then. It must cost
little however many entries come, and piped output gets neither colours nor carriage returns.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from stowplan.present.status_line import (
    LIVE_INTERVAL_S,
    PLAIN_INTERVAL_S,
    StatusLine,
    format_elapsed,
)
from stowplan.sim.scenarios.report import is_worth_a_line, timeline_line
from stowplan.sim.scenarios.timeline import Entry, EntryKind

if TYPE_CHECKING:
    from stowplan.sim.scenarios.trace_play import TraceProgress

#: After so many entries, print only steps, faults, expectations and messages.
MOST_LINES: Final = 400
_BAR: Final = 24
#: The share of the work that must be done before the rest is estimated.
_ESTIMATED_FROM: Final = 0.02
_BOLD, _RED, _GREEN, _CYAN, _FAINT, _PLAIN = (
    f"\x1b[{code}m" for code in ("1", "31", "32", "36", "2", "0")
)


class Live:
    def __init__(
        self,
        lines: TextIO | None,
        status: TextIO | None,
        *,
        most: int | None = MOST_LINES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most`: None tells every entry."""
        self._lines = lines
        self._status = None
        if status is not None:
            delay_s = LIVE_INTERVAL_S if status.isatty() else PLAIN_INTERVAL_S
            self._status = StatusLine(
                status, plain_interval_s=PLAIN_INTERVAL_S, delay_s=delay_s, clock=clock
            )
        self._clock = clock
        self._began = clock()
        self._pods = 0
        self._has_colours = lines is not None and lines.isatty() and not os.environ.get("NO_COLOR")
        self._most = most
        self._told = 0
        self._bound = self._failed = 0
        self._at = 0.0
        self._progress: TraceProgress | None = None

    @property
    def at(self) -> float:
        """The cluster's time of the latest entry."""
        return self._at

    def begin(self, pods: int) -> None:
        """The next scenario begins, which creates so many pods; 0: not known."""
        self._pods = pods
        self._progress = None
        self._bound = self._failed = 0
        self._at, self._began = 0.0, self._clock()

    def __call__(self, entry: Entry) -> None:
        self._at = entry.at
        kind = entry.kind
        if kind is EntryKind.BOUND:
            self._bound += 1
        elif kind is EntryKind.UNSCHEDULABLE:
            self._failed += 1
        if self._lines is not None:
            self._tell(entry)
        if self._status is not None:
            self._status.update(self._state)

    def progress(self, progress: TraceProgress) -> None:
        """Show how far a trace has come."""
        if self._progress is None:
            self._began = self._clock()  # what came before says nothing about the trace's pace
        self._progress = progress
        if self._status is not None:
            self._status.update(self._state)

    def end(self) -> None:
        if self._status is not None:
            self._status.erase()

    def _tell(self, entry: Entry) -> None:
        assert self._lines is not None
        self._told += 1
        if self._most is not None and self._told > self._most:
            if self._told == self._most + 1:
                self._write("            ... too much to tell each; from here on only steps")
            if not is_worth_a_line(entry):
                return
        self._write(self._coloured(entry, timeline_line(entry)))

    def _write(self, line: str) -> None:
        assert self._lines is not None
        self.end()
        self._lines.write(f"{line}\n")
        self._lines.flush()

    def _coloured(self, entry: Entry, line: str) -> str:
        if not self._has_colours:
            return line
        match entry.kind:
            case EntryKind.STEP:
                return f"{_BOLD}{line}{_PLAIN}"
            case EntryKind.SAID:
                return f"{_CYAN}{line}{_PLAIN}"
            case EntryKind.EXPECTATION:
                return f"{_GREEN if entry.details.get('is_met') else _RED}{line}{_PLAIN}"
            case EntryKind.FAULT | EntryKind.UNSCHEDULABLE | EntryKind.PREEMPTED:
                return line
        return f"{_FAINT}{line}{_PLAIN}"

    def _state(self) -> str:
        clock = f"{clock_text(self._at)} of the cluster's time"
        progress = self._progress
        if progress is not None and progress.pods:
            share = progress.share
            come = f"{progress.arrived:,} of {progress.pods:,} pods"
            done = f"{come}, {progress.finished:,} finished"
        else:
            share = min(self._bound / self._pods, 1.0) if self._pods else 0.0
            of = f" of {self._pods:,} pods" if self._pods else ""
            done = f"{self._bound:,}{of} bound, {self._failed:,} failed attempts"
        parts = [f"{share:4.0%}" if share else "", clock, done, self._estimate(share)]
        text = "  ".join(part for part in parts if part)
        assert self._status is not None
        bar = f"[{'#' * round(share * _BAR):<{_BAR}}]" if share and self._status.is_live else ""
        return f"{bar}{text}"

    def _estimate(self, share: float) -> str:
        """How long the rest takes if it goes on like this."""
        elapsed = self._clock() - self._began
        if share < _ESTIMATED_FROM or share >= 1 or elapsed < LIVE_INTERVAL_S:
            return ""
        return f"about {format_elapsed(elapsed * (1 - share) / share)} left"


def clock_text(seconds: float) -> str:
    """`1:02:03`: of the cluster's time."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
