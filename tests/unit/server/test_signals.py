"""How a scheduler ends: in good order at the first signal, at once at the second."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from stowplan.server.serving import stop_on_signals


class Signals:
    """The handlers that were installed, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.exits: list[int] = []
        self.now = 1000.0
        monkeypatch.setattr(loop, "add_signal_handler", self.handlers.__setitem__)
        monkeypatch.setattr(loop, "time", lambda: self.now)
        monkeypatch.setattr(os, "_exit", self.exits.append)

    def come(self, number: signal.Signals, *, after_s: float = 0.0) -> None:
        self.now += after_s
        self.handlers[number]()


async def test_the_second_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        signals = Signals(patch)
        stop = asyncio.Event()
        stop_on_signals(stop)
        signals.come(signal.SIGTERM)
        assert stop.is_set()
        assert not signals.exits
        signals.come(signal.SIGINT, after_s=0.3)
        assert signals.exits == [1]


async def test_one_that_is_told_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As uvloop does when SIGUSR2 comes together with SIGTERM."""
    with monkeypatch.context() as patch:
        signals = Signals(patch)
        stop = asyncio.Event()
        stop_on_signals(stop)
        signals.come(signal.SIGTERM)
        signals.come(signal.SIGTERM, after_s=0.01)
        assert not signals.exits
        signals.come(signal.SIGTERM, after_s=1.0)
        assert signals.exits == [1]
