"""Drawing on a terminal, as a terminal emulator sees it."""

from __future__ import annotations

import io
import os
import pty

import pyte
import pytest

from stowplan.demo.screen import ASCII, UNICODE, Paper
from stowplan.demo.terminal import Terminal, is_drawable

PAPER = Paper(20, 4)


class Emulated:
    """A `Terminal` and the screen that its user would see."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.terminal = Terminal(self.out, {})
        self.screen = pyte.Screen(20, 4)
        self._stream = pyte.Stream(self.screen)

    def feed(self) -> str:
        """What was written since the last time, now also on the screen."""
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        self._stream.feed(text)
        return text

    def hides_cursor(self) -> bool:
        return bool(self.screen.cursor.hidden)

    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.screen.display]


def test_draws_and_gives_the_screen_back() -> None:
    seen = Emulated()
    seen.terminal.enter()
    seen.terminal.draw(["one", "two", "x" * 20, "y" * 20], PAPER)
    text = seen.feed()
    assert "\x1b[?1049h" in text
    assert seen.rows() == ["one", "two", "x" * 20, "y" * 20]
    assert seen.hides_cursor()
    seen.terminal.leave()
    assert "\x1b[?1049l" in seen.feed()
    assert not seen.hides_cursor()
    seen.terminal.leave()
    assert seen.feed() == ""


def test_leaving_without_having_entered_writes_nothing() -> None:
    seen = Emulated()
    seen.terminal.leave()
    assert seen.feed() == ""


def test_only_changed_rows_are_written() -> None:
    seen = Emulated()
    seen.terminal.enter()
    seen.terminal.draw(["one", "twenty", "three", ""], PAPER)
    seen.feed()
    seen.terminal.draw(["one", "two", "three", ""], PAPER)
    text = seen.feed()
    assert "two" in text
    assert "one" not in text
    assert seen.rows() == ["one", "two", "three", ""]
    seen.terminal.draw(["one", "two", "three", ""], PAPER)
    assert seen.feed() == ""


def test_a_new_size_draws_everything_anew() -> None:
    seen = Emulated()
    seen.terminal.enter()
    seen.terminal.draw(["one", "two", "three", "four"], PAPER)
    seen.feed()
    seen.terminal.draw(["one", "two"], Paper(20, 2))
    seen.feed()
    assert seen.rows() == ["one", "two", "", ""]


def test_a_terminal_that_is_gone_is_no_error_when_leaving() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            if "1049l" in text:
                raise OSError(5, "Input/output error")
            return len(text)

    terminal = Terminal(Gone(), {})
    terminal.enter()
    terminal.leave()


@pytest.mark.parametrize(
    ("encoding", "glyphs"), [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII)]
)
def test_glyphs_suit_the_encoding(encoding: str, glyphs: object) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert Terminal(out, {}).paper().glyphs is glyphs


@pytest.mark.parametrize(
    ("environ", "has_color"), [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)]
)
def test_no_color(environ: dict[str, str], has_color: bool) -> None:
    assert Terminal(io.StringIO(), environ).paper().has_color is has_color


def test_where_a_live_table_makes_sense() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours), os.fdopen(theirs, "w") as out:
        assert is_drawable(out, {"TERM": "xterm"})
        assert not is_drawable(out, {"TERM": "dumb"})
        assert not is_drawable(out, {})
        # Nobody told this terminal its size.
        paper = Terminal(out, {}).paper()
        assert (paper.width, paper.height) == (80, 24)
    assert not is_drawable(io.StringIO(), {"TERM": "xterm"})
