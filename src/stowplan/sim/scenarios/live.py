"""What a person sees while a scenario is played: the timeline as it happens, and a line that moves.

`Live` is `on_entry` of a run. Lines go to `lines` (none where the output is JSON), the moving line
to `status` if that is a terminal. What must stay true: it costs little however many entries come,
and what is piped gets neither colours nor carriage returns.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from stowplan.sim.scenarios.report import is_worth_a_line, timeline_line
from stowplan.sim.scenarios.timeline import Entry, EntryKind

if TYPE_CHECKING:
    from stowplan.sim.scenarios.trace_play import Progress

#: So many entries are told one by one; then only steps, faults, expectations and what is said.
MOST_LINES: Final = 400
_INTERVAL_S: Final = 0.2
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
        self._status = status if status is not None and status.isatty() else None
        self._has_colours = lines is not None and lines.isatty() and not os.environ.get("NO_COLOR")
        self._most = most
        self._clock = clock
        self._drawn_at = clock()
        self._is_drawn = False
        self._told = 0
        self._counts: Counter[EntryKind] = Counter()
        self._at = 0.0
        self._progress: Progress | None = None

    def __call__(self, entry: Entry) -> None:
        self._at = entry.at
        self._counts[entry.kind] += 1
        if self._lines is not None:
            self._tell(entry)
        if self._status is not None:
            self._draw()

    def progress(self, progress: Progress) -> None:
        """How far a trace has come."""
        self._progress = progress
        if self._status is not None:
            self._draw()

    def end(self) -> None:
        self._erase()

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
        self._erase()
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

    def _draw(self) -> None:
        now = self._clock()
        if now - self._drawn_at < _INTERVAL_S:
            return
        assert self._status is not None
        self._drawn_at = now
        self._is_drawn = True
        width = max(shutil.get_terminal_size().columns - 1, 1)
        self._status.write(f"\r\x1b[2K{self._state()[:width]}")
        self._status.flush()

    def _erase(self) -> None:
        if self._is_drawn and self._status is not None:
            self._status.write("\r\x1b[2K")
            self._status.flush()
            self._is_drawn = False

    def _state(self) -> str:
        clock = clock_text(self._at)
        progress = self._progress
        if progress is None or not progress.pods:
            counts = self._counts
            bound, failed = counts[EntryKind.BOUND], counts[EntryKind.UNSCHEDULABLE]
            return f"{clock}  {bound:,} bound, {failed:,} attempts in vain"
        share = min(progress.arrived / progress.pods, 1.0)
        bar = f"[{'#' * round(share * _BAR):<{_BAR}}] {share:4.0%}"
        come = f"{progress.arrived:,} of {progress.pods:,} pods"
        return f"{bar}  {clock}  {come}, {progress.finished:,} finished"


def clock_text(seconds: float) -> str:
    """`1:02:03`: of the cluster's time."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
