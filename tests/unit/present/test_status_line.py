"""The status line: in place on a terminal, plain lines or nothing elsewhere."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

import pytest

from stowplan.present.status_line import StatusLine, format_elapsed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    stream, clock = Terminal(), Clock()
    line = StatusLine(stream, clock=clock)
    for number in range(10):
        clock.now = number / 8
        line.update(f"at {number}")
    line.say("done")
    assert stream.getvalue() == (
        "\r\x1b[2Kat 0\r\x1b[2Kat 2\r\x1b[2Kat 4\r\x1b[2Kat 6\r\x1b[2Kat 8\r\x1b[2Kdone\n"
    )
    line.erase()
    assert stream.getvalue().endswith("done\n"), "there is nothing left to erase"


def test_a_log_gets_plain_lines_at_intervals() -> None:
    stream, clock = io.StringIO(), Clock()
    line = StatusLine(stream, plain_interval_s=15.0, clock=clock)
    for number in range(31):
        clock.now = float(number)
        line.update(f"at {number}")
    line.erase()
    assert stream.getvalue().splitlines() == ["at 0", "at 15", "at 30"]


def test_without_an_interval_a_log_gets_only_what_is_said() -> None:
    stream = io.StringIO()
    line = StatusLine(stream)
    line.update("not shown")
    line.say("shown")
    assert stream.getvalue() == "shown\n"


def test_a_delay_comes_before_the_first_update_and_renew_ends_it() -> None:
    stream, clock = Terminal(), Clock()
    line = StatusLine(stream, delay_s=1.0, clock=clock)
    line.update("too early")
    line.renew()
    line.update("renewed")
    assert stream.getvalue() == "\r\x1b[2Krenewed"


def test_a_text_that_is_not_shown_is_not_computed() -> None:
    def compute() -> str:
        raise AssertionError("it is too early for an update")

    StatusLine(Terminal(), delay_s=1.0, clock=Clock()).update(compute)


def test_a_long_line_is_cut_so_that_it_can_be_erased() -> None:
    stream = Terminal()
    StatusLine(stream).draw("x" * 1000)
    assert len(stream.getvalue()) < 1000


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (65, "1m05s"), (3725, "1h02m")]
)
def test_elapsed_time(seconds: float, text: str) -> None:
    assert format_elapsed(seconds) == text


def test_a_stream_that_cannot_be_written_ends_nothing() -> None:
    with Path("/dev/full").open("w") as full:
        line = StatusLine(full, is_live=True)
        line.draw("50%")
        line.erase()
        line.say("done")
        with suppress(OSError):  # what is left in its buffer
            full.close()
