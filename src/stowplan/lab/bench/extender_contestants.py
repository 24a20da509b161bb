"""Contestants of the `extender` benchmark: our service, and Flask with gunicorn.

Flask and gunicorn are not dependencies of ours. They are pinned in requirements/bench-extender.txt
and installed once, with hashes checked, into an environment of their own in the cache folder.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from stowplan.lab.bench.extender_load import LoadError, ask_once
from stowplan.lab.controlplane.binaries import cache_root
from stowplan.lab.controlplane.processes import ControlPlaneError, ServerProcess, free_port

REQUIREMENTS: Final = Path(__file__).parents[4] / "requirements" / "bench-extender.txt"
_HERE: Final = Path(__file__).parent
_START_S: Final = 60.0
_THREADS: Final = 4
_STATUS: Final = b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


class CannotMeasure(Exception):
    """A contestant is not there, or does not answer as it must."""


class ExtenderContestant(Protocol):
    @property
    def name(self) -> str: ...

    def command(self, port: int, workers: int, directory: Path) -> list[str | Path]: ...


class Stowplan:
    """`stowplan extender`, started as users start it."""

    name = "stowplan"

    def command(self, port: int, workers: int, directory: Path) -> list[str | Path]:
        config = directory / "extender.yaml"
        config.write_text("algorithm: !NOPAlgorithm\n")
        return [
            sys.executable, "-m", "stowplan", "extender", f"--config={config}",
            "--bind-address=127.0.0.1", f"--port={port}", f"--workers={workers}",
        ]  # fmt: skip


class Flask:
    """`flask_extender` under gunicorn; `python` is that of their environment."""

    name = "flask"

    def __init__(self, python: Path, worker_class: str = "sync") -> None:
        self._python = python
        self._worker_class = worker_class

    def command(self, port: int, workers: int, directory: Path) -> list[str | Path]:
        threads = [f"--threads={_THREADS}"] if self._worker_class == "gthread" else []
        return [
            self._python, "-m", "gunicorn", f"--workers={workers}", f"--bind=127.0.0.1:{port}",
            f"--worker-class={self._worker_class}", *threads, "--timeout=120",
            "--log-level=warning", f"--pythonpath={_HERE}", "flask_extender:app",
        ]  # fmt: skip


def flask_python() -> Path:
    """The Python that has Flask and gunicorn, installed if they are not; CannotMeasure."""
    try:
        pinned = REQUIREMENTS.read_bytes()
    except OSError as error:
        raise CannotMeasure(f"cannot read {REQUIREMENTS}: {error.strerror}") from None
    key = hashlib.sha256(pinned + sys.version.encode()).hexdigest()[:12]
    place = cache_root().parent / f"bench-extender-{key}"
    if not place.exists():
        _install(place)
    return place / "bin" / "python"


def _install(place: Path) -> None:
    """Install into a temporary folder, then rename: an environment in its place is complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    commands = (
        [sys.executable, "-m", "venv", str(made)],
        [str(made / "bin" / "python"), "-m", "pip", "install", *quiet, "-r", str(REQUIREMENTS)],
    )
    try:
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                problem = (done.stderr or done.stdout).strip()[-1000:]
                raise CannotMeasure(f"Flask and gunicorn cannot be installed:\n{problem}")
        made.rename(place)
    except OSError as error:
        if not place.exists():  # else another process was quicker
            raise CannotMeasure(f"cannot make {place}: {error.strerror}") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def started(
    contestant: ExtenderContestant, workers: int, directory: Path
) -> Iterator[tuple[int, int]]:
    """Start a contestant; yield its port and process id once it answers, or CannotMeasure."""
    port = free_port()
    log = directory / f"{contestant.name}.log"
    command = contestant.command(port, workers, directory)
    process = ServerProcess(contestant.name, command, log)
    try:
        process.wait_until(lambda: _answers(port), _START_S)
        # All workers of a pre-forking server, not only the first.
        time.sleep(0.2)
        yield port, process.pid
        process.check_running()
    except ControlPlaneError as error:
        raise CannotMeasure(str(error)) from None
    finally:
        process.stop()


def _answers(port: int) -> bool:
    try:
        return ask_once(port, _STATUS).strip() == b"true"
    except LoadError:
        return False
