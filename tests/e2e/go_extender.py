"""The small extender in Go, as a process, and what it was asked.

What it answers is written in the annotations of the pods; see
src/stowplan/lab/controlplane/extender/rules.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from stowplan.lab.controlplane import find_binary
from stowplan.lab.controlplane.processes import ServerProcess

Json = dict[str, Any]
_START_TIMEOUT_S = 60.0


class GoExtender:
    """One that serves. `name` is the first part of the annotations that it obeys."""

    def __init__(self, name: str, process: ServerProcess, requests: Path) -> None:
        self.name = name
        self._process = process
        self._requests = requests

    @cached_property
    def url(self) -> str:
        return self._process.log.read_text().split()[1]

    def requests(self, uid: str = "") -> list[Json]:
        """What it was asked so far, about one pod or all, with the bodies as they came."""
        lines = self._requests.read_text().splitlines() if self._requests.exists() else []
        found = [json.loads(line) for line in lines if uid in line]
        return [line for line in found if not uid or line.get("uid") == uid]

    def problems(self) -> list[str]:
        """Why it refused to understand requests."""
        return [str(line["problem"]) for line in self.requests() if "problem" in line]


@contextmanager
def go_extender(
    name: str, directory: Path, kubeconfig: Path | None = None, **flags: Path | str
) -> Iterator[GoExtender]:
    """`flags` are its further ones: address, cert, key, client_ca."""
    requests, log = directory / f"{name}.requests", directory / f"{name}.log"
    command: list[str | Path] = [find_binary("extender"), f"-name={name}", f"-log={requests}"]
    if kubeconfig is not None:
        command.append(f"-kubeconfig={kubeconfig}")
    command += [f"-{flag.replace('_', '-')}={path}" for flag, path in flags.items()]
    log.unlink(missing_ok=True)  # of one before it
    process = ServerProcess(f"extender {name}", command, log)
    try:
        process.wait_until(lambda: "serving" in log.read_text(), _START_TIMEOUT_S)
        process.check_running()
        yield GoExtender(name, process, requests)
    finally:
        process.stop(grace=0)
