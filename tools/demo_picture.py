"""Draw docs/images/demo.svg: `python -m tools.demo_picture [SECONDS]`.

Runs `stowplan demo` in a pseudo-terminal, stops it after some seconds with Ctrl-C and draws what a
terminal emulator showed last.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import select
import struct
import sys
import termios
import time
from itertools import groupby
from pathlib import Path

import pyte

COLUMNS, ROWS = 100, 30
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
_CELL_W, _CELL_H, _MARGIN = 8.4, 18, 14
_COLORS = {
    "default": "#d0d7de", "red": "#ff7b72", "green": "#56d364", "brown": "#e3b341",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea",
}  # fmt: skip


def watched(seconds: float) -> pyte.Screen:
    """Return the screen of the demo as it was after some seconds."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if not pid:
        os.environ |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
        os.execv(sys.executable, [sys.executable, "-m", "stowplan", "demo", "--seed", "1"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            stream.feed(os.read(terminal, 65536))
    os.write(terminal, b"\x03")
    while True:
        try:
            if not os.read(terminal, 65536):
                break
        except OSError:  # the demo has closed its terminal
            break
    os.waitpid(pid, 0)
    return screen


def svg(screen: pyte.Screen) -> str:
    """Draw a screen; runs of characters with one style are one piece of text."""
    width, height = COLUMNS * _CELL_W + 2 * _MARGIN, ROWS * _CELL_H + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}" role="img"'
        ' aria-label="stowplan demo in a terminal: nodes, their pods and the latest decisions">',
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117"/>',
        '<g font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">',
    ]
    for row in range(ROWS):
        cells = [(column, screen.buffer[row][column]) for column in range(COLUMNS)]
        for (color, bold), run in groupby(cells, key=lambda cell: (cell[1].fg, cell[1].bold)):
            pieces = list(run)
            text = "".join(cell.data for _, cell in pieces).rstrip()
            if not text:
                continue
            x, y = _MARGIN + pieces[0][0] * _CELL_W, _MARGIN + (row + 0.75) * _CELL_H
            weight = ' font-weight="bold"' if bold else ""
            parts.append(
                f'<text x="{x:g}" y="{y:g}" fill="{_COLORS.get(color, _COLORS["default"])}"'
                f' textLength="{len(text) * _CELL_W:g}"{weight}>{_kept(text)}</text>'
            )
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _kept(text: str) -> str:
    """Escape a text; its spaces must not collapse."""
    return html.escape(text).replace(" ", "&#160;")


if __name__ == "__main__":
    PICTURE.write_text(svg(watched(float(sys.argv[1]) if len(sys.argv) > 1 else 18.0)))
