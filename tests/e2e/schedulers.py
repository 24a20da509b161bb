"""kube-scheduler and Stowplan, running on a control plane from the same configuration."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stowplan.lab.controlplane import ControlPlane
from tests.waiting import wait_for


@contextmanager
def kube_scheduler(plane: ControlPlane, config: str, *flags: str) -> Iterator[Path]:
    """`config` says ``kubeconfig: {kubeconfig}``; gives the log."""
    process = plane.start_scheduler(config, *flags)
    try:
        yield process.log
    finally:
        process.stop(grace=30.0)  # long enough to give its lease back, however busy the machine


@contextmanager
def stowplan(
    plane: ControlPlane,
    config: str,
    *flags: str,
    started: str = "Scheduling",
    name: str = "stowplan",
) -> Iterator[Path]:
    """`config` says ``kubeconfig: {kubeconfig}``; gives the log, once it says `started`.

    Several at a time need different names for their files.
    """
    file, log = plane.directory / f"{name}.yaml", plane.directory / f"{name}.log"
    file.write_text(config.replace("{kubeconfig}", str(plane.kubeconfig)))
    command = [sys.executable, "-m", "stowplan", "run", f"--config={file}", "--port=0", *flags]
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)

    def is_scheduling() -> bool:
        text = log.read_text()
        assert process.poll() is None, f"stowplan ended:\n{text}"
        return f'"{started}"' in text

    try:
        wait_for("stowplan to start", is_scheduling)
        yield log
    finally:
        process.terminate()
        process.wait(30)
