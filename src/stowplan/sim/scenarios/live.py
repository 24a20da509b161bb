"""The timeline of a scenario, printed as it happens, with a status line on terminals.

`Live` is `on_entry` of a run. Lines go to `lines` (none where the output is JSON), the status line
to `status` if that is a terminal. It must cost little however many entries come, and piped output
gets neither colours nor carriage returns.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from stowplan.present.status_line import LIVE_INTERVAL_S, StatusLine
from stowplan.sim.scenarios.report import is_worth_a_line, timeline_line
from stowplan.sim.scenarios.timeline import Entry, EntryKind

if TYPE_CHECKING:
    from stowplan.sim.scenarios.trace_play import TraceProgress

#: After so many entries, print only steps, faults, expectations and messages.
MOST_LINES: Final = 400
_BAR: Final = 24
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
        if status is not None and status.isatty():
            self._status = StatusLine(status, delay_s=LIVE_INTERVAL_S, clock=clock)
        self._has_colours = lines is not None and lines.isatty() and not os.environ.get("NO_COLOR")
        self._most = most
        self._told = 0
        self._counts: Counter[EntryKind] = Counter()
        self._at = 0.0
        self._progress: TraceProgress | None = None

    def __call__(self, entry: Entry) -> None:
        self._at = entry.at
        self._counts[entry.kind] += 1
        if self._lines is not None:
            self._tell(entry)
        if self._status is not None:
            self._status.update(self._state)

    def progress(self, progress: TraceProgress) -> None:
        """Show how far a trace has come."""
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
        clock = clock_text(self._at)
        progress = self._progress
        if progress is None or not progress.pods:
            counts = self._counts
            bound, failed = counts[EntryKind.BOUND], counts[EntryKind.UNSCHEDULABLE]
            return f"{clock}  {bound:,} bound, {failed:,} failed attempts"
        share = min(progress.arrived / progress.pods, 1.0)
        bar = f"[{'#' * round(share * _BAR):<{_BAR}}] {share:4.0%}"
        come = f"{progress.arrived:,} of {progress.pods:,} pods"
        return f"{bar}  {clock}  {come}, {progress.finished:,} finished"


def clock_text(seconds: float) -> str:
    """`1:02:03`: of the cluster's time."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
