"""Python programs that start at once: forked from a process that has their imports done.

Most of the time that a test of a scheduler takes would else be an interpreter importing the same
modules once more. What starts is a process of its own all the same, with its own signals, exit
status and output; that a program also starts without this is tested elsewhere (tests/e2e).
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["stowplan.cli.run", "stowplan.server.library", "stowplan.static.one_shot", "uvloop"]
)


class WarmProcess:
    """`python` with these arguments; speaks as `subprocess.Popen` does."""

    def __init__(
        self, arguments: Sequence[str | Path], output: Path, env: Mapping[str, str] | None = None
    ) -> None:
        words = [str(word) for word in arguments]
        # A daemon: nobody waits for it at the end of the tests.
        self._process = _CONTEXT.Process(
            target=_run, args=(words, str(output), dict(env or {})), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout_s: float | None = None) -> int:
        self._process.join(timeout_s)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout_s or 0.0)
        return status

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _run(words: list[str], output: str, env: dict[str, str]) -> None:
    """In the new process."""
    stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    os.close(stream)
    os.environ.update(env)
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(words[1], {"__name__": "__main__"})
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).parent))
            runpy.run_path(words[0], run_name="__main__")
    finally:
        logging.shutdown()  # multiprocessing leaves out what an interpreter does at its end
