"""The two displays as tasks: what they write, and how they end."""

from __future__ import annotations

import asyncio
import io

import pytest

from stowplan.clock import VirtualClock
from stowplan.demo.chronicle import Chronicle, NewsKind
from stowplan.demo.displays import LiveTable, PlainLines
from stowplan.demo.terminal import Terminal
from stowplan.demo.view import DemoView, look
from tests.unit.demo.rehearsal import new_engine


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def empty_view() -> DemoView:
    clock = VirtualClock()
    return look(new_engine(clock), Chronicle(clock), seed=42)


async def test_lines_are_written_as_things_happen_and_none_is_lost() -> None:
    out, chronicle = io.StringIO(), Chronicle(VirtualClock())
    chronicle.tell(NewsKind.OTHER, "before")
    task = asyncio.create_task(PlainLines(out).run(chronicle, empty_view))
    for _ in range(3):
        await asyncio.sleep(0)
    assert out.getvalue() == "before\n"
    chronicle.tell(NewsKind.PLACED, "one")
    for _ in range(3):
        await asyncio.sleep(0)
    assert out.getvalue() == "before\none\n"
    chronicle.tell(NewsKind.PLACED, "last")
    await ended(task)
    assert out.getvalue() == "before\none\nlast\n"
    chronicle.tell(NewsKind.PLACED, "too late")
    assert out.getvalue().endswith("last\n")


async def test_a_closed_pipe_ends_the_display() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    chronicle = Chronicle(VirtualClock())
    chronicle.tell(NewsKind.OTHER, "anything")
    with pytest.raises(BrokenPipeError):
        await PlainLines(Closed()).run(chronicle, empty_view)


async def test_the_live_table_gives_the_screen_back() -> None:
    out = io.StringIO()
    display = LiveTable(Terminal(out, {"NO_COLOR": "1"}))
    task = asyncio.create_task(display.run(Chronicle(VirtualClock()), empty_view))
    await asyncio.sleep(0)
    assert "seed 42" in out.getvalue()
    assert not out.getvalue().endswith("\x1b[?1049l")
    await ended(task)
    assert out.getvalue().endswith("\x1b[?25h\x1b[?1049l")


async def test_the_live_table_gives_the_screen_back_when_something_breaks() -> None:
    def broken() -> DemoView:
        raise ZeroDivisionError

    out = io.StringIO()
    with pytest.raises(ZeroDivisionError):
        await LiveTable(Terminal(out, {})).run(Chronicle(VirtualClock()), broken)
    assert out.getvalue().endswith("\x1b[?25h\x1b[?1049l")
