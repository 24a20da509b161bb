"""Kubernetes' own small scheduler_perf workloads, on the virtual and the embedded cluster.

All that upstream's CI runs as integration tests (label `integration-test`) and that need no feature
gate which is off by default, in the variant with queueing hints. `make perf-integration` plays them
on the real control plane.
"""

from __future__ import annotations

import os
from functools import cache

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.scenarios.run import run_scenario
from stowplan.sim.scenarios.workload_cluster import workload_options, workload_scenario
from stowplan.workloads.load import find_performance_config, read_workloads
from stowplan.workloads.model import Workload

_FOLDERS = (
    "affinity",
    "dra",
    "dra/consumablecapacity",
    "dra/partitionabledevices",
    "dra/prioritizedlist",
    "event_handling",
    "misc",
    "topology_spreading",
    "volumes",
)
#: Upstream's folder `nodedeclaredfeatures` plants made-up features inside kube-scheduler.


@cache
def workloads() -> dict[str, Workload]:
    found: dict[str, Workload] = {}
    try:
        files = [find_performance_config(folder) for folder in _FOLDERS]
    except ConfigError:
        return {}
    for file in files:
        for workload in read_workloads(file):
            is_old = workload.feature_gates.get("SchedulerQueueingHints") is False
            if "integration-test" in workload.labels and not is_old and not workload.cannot_play:
                found[f"{file.parent.name}/{workload.title}"] = workload
    return found


def test_upstreams_workloads_are_there() -> None:
    if not workloads() and os.environ.get("CI") != "true":
        pytest.skip("Kubernetes' own workloads are not on this machine: `make controlplane`")
    assert len(workloads()) >= 35, "`make controlplane` fetches Kubernetes' own workloads"


@pytest.mark.parametrize("on", ["virtual", "embedded"])
@pytest.mark.parametrize("title", workloads())
def test_a_workload_is_played_to_its_end(title: str, on: str) -> None:
    workload = workloads()[title]
    outcome = run_scenario(workload_scenario(workload), on=on, options=workload_options(workload))
    assert outcome.problem == ""
    assert outcome.counts["bound"] >= workload.measured > 0
