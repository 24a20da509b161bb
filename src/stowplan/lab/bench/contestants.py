"""The contestants of the benchmark, and the command that starts each of them.

Used by `session` (the list) and `run` (the commands). What must stay true:

- all contestants use the same credentials, because the API server's rate limits and access checks
  depend on the user;
- none holds a lease, and kube-scheduler's own limit on requests is lifted;
- each has its own default profile, unless the workload brings a configuration for all of them;
- those in Python start from compiled modules, as an installed package does.
"""

from __future__ import annotations

import compileall
import csv
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import stowplan
from stowplan.lab.bench import figures
from stowplan.lab.bench.raw import READY
from stowplan.lab.controlplane import components
from stowplan.lab.controlplane.api_access import unverified_access
from stowplan.lab.controlplane.binaries import find_binary
from stowplan.lab.controlplane.cluster import ControlPlane
from stowplan.lab.controlplane.components import HOST
from stowplan.lab.controlplane.credentials import KUBE_SCHEDULER
from stowplan.lab.controlplane.gates import gate_flags
from stowplan.lab.controlplane.processes import ServerProcess, free_port
from stowplan.loader.files import read_file
from stowplan.loader.yaml_text import dump_yaml, load_yaml

LIFTED_QPS = 5000
_HINTS = "SchedulerQueueingHints"


@dataclass(frozen=True)
class Start:
    """The parameters of a contestant's start."""

    directory: Path
    kubeconfig: Path
    #: How many pods there will be, None if they come and go; raw stops watching after the last.
    pods: int | None = 0
    #: The pods have claims, or extended resources that are devices.
    devices: bool = False
    gates: Mapping[str, bool] = field(default_factory=dict)
    emulated_version: str | None = None
    #: The workload's KubeSchedulerConfiguration, if it has one.
    config: Path | None = None
    #: Where Stowplan writes its profile, if it is to be profiled.
    profile: Path | None = None
    #: The port of its own HTTP endpoints.
    port: int = field(default_factory=free_port)


def _answers(scheme: str) -> Callable[[ServerProcess, Start], bool]:
    def is_ready(_: ServerProcess, start: Start) -> bool:
        return unverified_access(f"{scheme}://{HOST}:{start.port}").answers("/readyz")

    return is_ready


@dataclass(frozen=True)
class Contestant:
    """One row of the table."""

    #: For --only: a name selects its row and those below it, "raw" also "raw/events".
    key: str
    label: str
    command: Callable[[Start], list[str]]
    is_ready: Callable[[ServerProcess, Start], bool]
    writes_events: bool = True
    #: It decides where a pod goes; otherwise it can only run workloads whose pods all fit.
    is_scheduler: bool = True

    @property
    def slug(self) -> str:
        """The name in a form for file names."""
        return self.key.replace("/", "-")

    def is_chosen_by(self, names: Sequence[str]) -> bool:
        return any(self.key == name or self.key.startswith(f"{name}/") for name in names)


def _stowplan(start: Start) -> list[str]:
    program = ["stowplan"]
    if start.profile is not None:
        program = ["stowplan.lab.bench.profiles", str(start.profile)]
    flags = [
        f"--kubeconfig={start.kubeconfig}",
        f"--bind-address={HOST}",
        f"--port={start.port}",
        "--leader-elect=false",
        *([] if start.config is None else [f"--config={start.config}"]),
    ]
    return [sys.executable, "-m", *program, "run", *flags]


def _kube_scheduler(start: Start) -> list[str]:
    config = start.directory / "bench-kube-scheduler.yaml"
    config.write_text(kube_scheduler_config(start.kubeconfig, start.config))
    flags = components.kube_scheduler(config, start.port)
    if start.emulated_version is None:
        flags += gate_flags("kube-scheduler", start.gates)
    else:  # of that age it knows no newer gate
        flags += [f"--emulated-version={start.emulated_version}", f"--feature-gates={_HINTS}=false"]
    return [str(find_binary("kube-scheduler")), *flags]


def _raw(start: Start, *, events: bool = False) -> list[str]:
    return [
        sys.executable,
        "-m",
        "stowplan.lab.bench.raw",
        f"--kubeconfig={start.kubeconfig}",
        *([] if start.pods is None else [f"--pods={start.pods}"]),
        *(["--events"] if events else []),
        *(["--devices"] if start.devices else []),
    ]


def _raw_is_ready(process: ServerProcess, _: Start) -> bool:
    return READY in process.tail()


def kube_scheduler_config(kubeconfig: Path, workload: Path | None = None) -> str:
    """A KubeSchedulerConfiguration: the workload's, or that of the default profile."""
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    if workload is not None:
        config = load_yaml(read_file(workload))
    config["clientConnection"] = {
        "kubeconfig": str(kubeconfig),
        "qps": LIFTED_QPS,
        "burst": LIFTED_QPS,
    }
    return dump_yaml(config)


STOWPLAN = Contestant("stowplan", figures.STOWPLAN, _stowplan, _answers("http"))
KUBE = Contestant("kube-scheduler", figures.KUBE, _kube_scheduler, _answers("https"))
RAW = Contestant("raw", figures.RAW, _raw, _raw_is_ready, writes_events=False, is_scheduler=False)
RAW_EVENTS = Contestant(
    "raw/events",
    figures.RAW_EVENTS,
    lambda start: _raw(start, events=True),
    _raw_is_ready,
    is_scheduler=False,
)

CONTESTANTS = (STOWPLAN, KUBE, RAW, RAW_EVENTS)


@cache
def compile_modules() -> None:
    """Compile our modules once, before any clock runs, because a fresh checkout has no bytecode.

    In a read-only folder each start compiles them, as usual.
    """
    for folder in stowplan.__path__:
        compileall.compile_dir(folder, quiet=2)


def environment() -> dict[str, str]:
    """Our environment variables, without the one that stops Python from storing bytecode.

    With that one every start would compile all modules, as no deployed scheduler does.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def scheduler_kubeconfig(control_plane: ControlPlane) -> Path:
    """Access with the rights, and the share of the API server, that kube-scheduler has."""
    tokens = (control_plane.directory / "tokens.csv").read_text()
    token = next(row[0] for row in csv.reader(tokens.splitlines()) if row[1] == KUBE_SCHEDULER)
    return control_plane.write_kubeconfig("contestant", token)
