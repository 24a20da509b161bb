"""How the demo is shown while it runs: a live table on a terminal, or one line per event.

A display runs as a task of the show and is cancelled when it ends; it must leave the output in
order then. Errors of the output (a closed pipe) end the show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, TextIO

from stowplan.demo.chronicle import Chronicle
from stowplan.demo.screen import frame
from stowplan.demo.terminal import Terminal
from stowplan.demo.view import DemoView

_REDRAW_S: Final = 0.25


class Display(Protocol):
    async def run(self, chronicle: Chronicle, look: Callable[[], DemoView]) -> None:
        """Draw until cancelled."""


class LiveTable:
    """Redraws the whole state several times a second."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    async def run(self, chronicle: Chronicle, look: Callable[[], DemoView]) -> None:
        self._terminal.enter()
        try:
            while True:
                paper = self._terminal.paper()
                self._terminal.draw(frame(look(), paper), paper)
                await asyncio.sleep(_REDRAW_S)
        finally:
            self._terminal.leave()


class PlainLines:
    """Writes what happens, for pipes and logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    async def run(self, chronicle: Chronicle, look: Callable[[], DemoView]) -> None:
        # An informer calls: it would take a closed pipe for a handler's defect, so write here.
        lines: list[str] = []
        news = asyncio.Event()

        def on_happening(text: str) -> None:
            lines.append(text + "\n")
            news.set()

        for happening in chronicle.happenings:
            on_happening(happening.text)
        chronicle.on_happening = lambda happening: on_happening(happening.text)
        try:
            while True:
                await news.wait()
                news.clear()
                self._write(lines)
        finally:
            chronicle.on_happening = None
            self._write(lines)

    def _write(self, lines: list[str]) -> None:
        text = "".join(lines)
        lines.clear()
        if text:
            self._out.write(text)
            self._out.flush()
