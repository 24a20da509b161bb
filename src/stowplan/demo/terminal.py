"""A terminal to draw on: alternate screen, hidden cursor, and both put back in every case.

Only rows that changed are written, all in one write, so nothing flickers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TextIO

from stowplan.demo.screen import ASCII, UNICODE, Paper

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
_LEAVE: Final = "\x1b[m\x1b[?25h\x1b[?1049l"
# Terminals that know this mode show a frame only when it is complete; others ignore it.
_BEGIN: Final = "\x1b[?2026h"
_END: Final = "\x1b[?2026l"
_FALLBACK: Final = (80, 24)


def is_drawable(out: TextIO, environ: Mapping[str, str]) -> bool:
    """True if a live table can be drawn there."""
    return out.isatty() and environ.get("TERM", "") not in ("", "dumb")


class Terminal:
    """`enter`, `draw` as often as you like, `leave`."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self._has_color = not environ.get("NO_COLOR")
        self._glyphs = UNICODE if _can_write(out, "".join(_glyph_characters())) else ASCII
        self._is_entered = False
        self._drawn: list[str] = []
        self._paper: Paper | None = None

    def paper(self) -> Paper:
        """A drawing area of the terminal's present size."""
        try:
            columns, rows = os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            columns, rows = _FALLBACK
        if not columns or not rows:  # a terminal without a size
            columns, rows = _FALLBACK
        return Paper(columns, rows, self._has_color, self._glyphs)

    def enter(self) -> None:
        self._is_entered = True
        self._paper = None
        self._out.write(_ENTER)
        self._out.flush()

    def leave(self) -> None:
        """Back to the user's screen; safe to call at any time, any number of times."""
        if not self._is_entered:
            return
        self._is_entered = False
        with suppress(OSError, ValueError):  # the terminal is gone: nothing to put back
            self._out.write(_LEAVE)
            self._out.flush()

    def suspend(self) -> None:
        """Ctrl-Z: give the screen back, stop, and go on drawing when the shell says so."""
        was_entered = self._is_entered
        self.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        if was_entered:
            self.enter()

    def draw(self, rows: list[str], paper: Paper) -> None:
        """Show a frame that was made for `paper`."""
        parts = [_BEGIN]
        if paper != self._paper:
            parts.append("\x1b[2J")
            self._drawn = []
        for number, row in enumerate(rows):
            if number < len(self._drawn) and self._drawn[number] == row:
                continue
            parts.append(f"\x1b[{number + 1};1H\x1b[2K{row}")
        parts.append(_END)
        self._drawn, self._paper = rows, paper
        if len(parts) > 2:
            self._out.write("".join(parts))
            self._out.flush()


def _glyph_characters() -> tuple[str, ...]:
    return UNICODE.full, UNICODE.empty, UNICODE.more, UNICODE.dot


def _can_write(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
