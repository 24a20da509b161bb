"""`stowplan move` on a terminal: it asks, shows how it goes, and can be stopped."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.pin_stage import (
    ARRIVED,
    LABEL,
    PLAN,
    PinStage,
    Player,
    is_untouched,
    move_stage,
)

PATIENCE_S = 60.0


@pytest.fixture
def stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinStage]:
    """web-0 runs on worker-1, where its pin is."""
    with move_stage(tmp_path, capsys, monkeypatch) as made:
        yield made


class Terminal:
    """The command on a pseudo-terminal, with somebody who types."""

    def __init__(self, stage: PinStage, *argv: str, term: str) -> None:
        self._ours, theirs = pty.openpty()
        self.text = ""
        env = {**os.environ, "STOWPLAN_KUBECONFIG": str(stage.kubeconfig)}
        env |= {"COLUMNS": "80", "TERM": term}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stowplan", "move", *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, shown: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while shown not in self.text:
            assert time.monotonic() < deadline, self.text
            assert self._pump(), f"it ended:\n{self.text}"

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Until it is heard: between a prompt and its read, Python takes no notice of a signal."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
                return
        raise AssertionError(f"it does not end:\n{self.text}")

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while self._pump():
            assert time.monotonic() < deadline, self.text
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    def _pump(self) -> bool:
        if not select.select([self._ours], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # nobody has the terminal open any more
            return False
        self.text += data.decode().replace("\r\n", "\n")
        return bool(data)


@contextmanager
def on_terminal(stage: PinStage, *argv: str, term: str = "xterm") -> Iterator[Terminal]:
    terminal = Terminal(stage, *argv, term=term)
    try:
        yield terminal
    finally:
        terminal.close()


def test_it_asks_and_shows_how_it_goes(stage: PinStage) -> None:
    with on_terminal(stage, "web-0", "worker-2") as terminal:
        terminal.until("Do it? [y/N]: ")
        assert terminal.text.startswith(PLAN)
        assert is_untouched(stage)
        terminal.type("y\n")
        terminal.until(" s: gone, waiting for StatefulSet web to recreate it")
        with Player(stage):
            assert terminal.wait() == 0
        assert terminal.text.endswith(f"\r\x1b[2K{ARRIVED}")


@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("\n", 1), ("\x04", 130), ("\x03", 130)])
def test_whoever_does_not_say_yes_changes_nothing(stage: PinStage, typed: str, code: int) -> None:
    with on_terminal(stage, "web-0", "worker-2") as terminal:
        terminal.until("Do it? [y/N]: ")
        if typed == "\x03":  # it has no terminal of its own that turns the key into the signal
            terminal.interrupt()
        else:
            terminal.type(typed)
        assert terminal.wait() == code
        assert ("Error: nothing was changed" in terminal.text) == (code == 1)
        assert "Traceback" not in terminal.text
    assert is_untouched(stage)


def test_ctrl_c_ends_only_the_following(stage: PinStage) -> None:
    with on_terminal(stage, "web-0", "worker-2", "--yes") as terminal:
        terminal.until("gone, waiting for StatefulSet web")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait() == 130
        assert terminal.text.endswith("Stopped waiting; the move continues\n")
        assert "Traceback" not in terminal.text
    assert stage.pins("worker-2") == {LABEL: ""}


def test_a_terminal_that_cannot_draw_gets_lines(stage: PinStage) -> None:
    with on_terminal(stage, "web-0", "worker-2", "--yes", term="dumb") as terminal:
        terminal.until("\ngone, waiting for StatefulSet web to recreate it\n")
        with Player(stage):
            assert terminal.wait() == 0
        assert "\x1b" not in terminal.text
        assert terminal.text.endswith(ARRIVED)
