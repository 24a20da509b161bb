"""Who takes part in the benchmark, and the command that starts each of them.

Read by `__main__` (which rows there are) and `run` (how to start one). What must stay true: all
contestants use the same credentials, because the API server's rate limits and access checks depend
on who asks; none holds a lease; and kube-scheduler's own limit on requests is lifted.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.config.types import PluginRef
from stowplan.controlplane import components
from stowplan.controlplane.binaries import find_binary
from stowplan.controlplane.cluster import ControlPlane
from stowplan.controlplane.credentials import KUBE_SCHEDULER
from stowplan.controlplane.processes import free_port
from stowplan.plugins.registry import IN_TREE

LIFTED_QPS = 5000


@dataclass(frozen=True)
class Start:
    """What a contestant may know when it is started."""

    directory: Path
    kubeconfig: Path
    #: How many pods there will be: raw, which keeps no watch it does not need, has to know.
    pods: int
    #: Where Stowplan writes its profile, if it is to be profiled.
    profile: Path | None = None


@dataclass(frozen=True)
class Contestant:
    """One row of the table."""

    #: For --only: a name selects its row and those below it, "raw" also "raw/events".
    key: str
    label: str
    command: Callable[[Start], list[str]]
    writes_events: bool = True

    def is_chosen_by(self, names: Sequence[str]) -> bool:
        return any(self.key == name or self.key.startswith(f"{name}/") for name in names)


def _stowplan(start: Start) -> list[str]:
    script = Path(sys.executable).with_name("stowplan")
    profiler = [] if start.profile is None else ["-m", "cProfile", "-o", str(start.profile)]
    flags = [f"--kubeconfig={start.kubeconfig}", "--port=0", "--leader-elect=false"]
    return [sys.executable, *profiler, str(script), "run", *flags]


def _kube_scheduler(start: Start, plugins: Sequence[PluginRef] | None = None) -> list[str]:
    config = start.directory / "bench-kube-scheduler.yaml"
    config.write_text(kube_scheduler_config(start.kubeconfig, plugins))
    return [str(find_binary("kube-scheduler")), *components.kube_scheduler(config, free_port())]


def _raw(start: Start, *, events: bool = False) -> list[str]:
    flags = [f"--kubeconfig={start.kubeconfig}", f"--pods={start.pods}"]
    return [sys.executable, "-m", "stowplan.bench.raw", *flags, *(["--events"] if events else [])]


def same_plugins() -> tuple[PluginRef, ...]:
    """kube-scheduler's default plugins as far as Stowplan has them, with their weights."""
    ours = {plugin.name for plugin in IN_TREE}
    return tuple(plugin for plugin in DEFAULT_MULTI_POINT if plugin.name in ours)


def kube_scheduler_config(kubeconfig: Path, plugins: Sequence[PluginRef] | None = None) -> str:
    """A KubeSchedulerConfiguration; without `plugins`, of the default profile."""
    config: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(kubeconfig),
            "qps": LIFTED_QPS,
            "burst": LIFTED_QPS,
        },
    }
    if plugins is not None:
        enabled = [
            {"name": plugin.name} | ({"weight": plugin.weight} if plugin.weight else {})
            for plugin in plugins
        ]
        multi_point = {"disabled": [{"name": "*"}], "enabled": enabled}
        config["profiles"] = [
            {"schedulerName": "default-scheduler", "plugins": {"multiPoint": multi_point}}
        ]
    text: str = yaml.safe_dump(config, sort_keys=False)
    return text


STOWPLAN = Contestant("stowplan", "stowplan", _stowplan)
KUBE = Contestant("kube-scheduler", "kube-scheduler", _kube_scheduler)
KUBE_SAME_PLUGINS = Contestant(
    "kube-scheduler/same-plugins",
    "kube-scheduler (same plugins)",
    lambda start: _kube_scheduler(start, same_plugins()),
)
RAW = Contestant("raw", "raw", _raw, writes_events=False)
RAW_EVENTS = Contestant("raw/events", "raw + events", lambda start: _raw(start, events=True))

CONTESTANTS = (STOWPLAN, KUBE, KUBE_SAME_PLUGINS, RAW, RAW_EVENTS)


def scheduler_kubeconfig(control_plane: ControlPlane) -> Path:
    """Access with the rights, and the share of the API server, that kube-scheduler has."""
    tokens = (control_plane.directory / "tokens.csv").read_text()
    token = next(row[0] for row in csv.reader(tokens.splitlines()) if row[1] == KUBE_SCHEDULER)
    return control_plane.write_kubeconfig("contestant", token)
