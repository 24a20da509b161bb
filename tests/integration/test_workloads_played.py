"""Kubernetes' own small scheduler_perf workloads, on the virtual and the embedded cluster.

All that upstream's CI runs as integration tests (label `integration-test`), in the variant with
queueing hints. `make perf-integration` plays them on the real control plane, and with them the
large ones that are benchmarks, too.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

import pytest

from stowplan.errors import ConfigError
from stowplan.sim.scenarios.run import run_scenario
from stowplan.sim.scenarios.workload_cluster import workload_options, workload_scenario
from stowplan.workloads.load import find_performance_config, read_workloads
from stowplan.workloads.model import CreateAny, Workload
from stowplan.workloads.templates import Template

_FOLDERS = (
    "affinity",
    "dra",
    "dra/consumablecapacity",
    "dra/devicetaints",
    "dra/extendedresource",
    "dra/extendedresource/scoring",
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
        files = {folder: find_performance_config(folder) for folder in _FOLDERS}
    except ConfigError:
        return {}
    for folder, file in files.items():
        for workload in read_workloads(file):
            is_old = workload.feature_gates.get("SchedulerQueueingHints") is False
            if "integration-test" in workload.labels and not is_old and not workload.cannot_play:
                found[f"{folder}/{workload.title}"] = workload
    return found


def test_upstreams_workloads_are_there() -> None:
    if not workloads() and os.environ.get("CI") != "true":
        pytest.skip("Kubernetes' own workloads are not on this machine: `make controlplane`")
    assert len(workloads()) >= 40, "`make controlplane` fetches Kubernetes' own workloads"


def small_workloads() -> list[str]:
    return [title for title, each in workloads().items() if "performance" not in each.labels]


@pytest.mark.parametrize("on", ["virtual", "embedded"])
@pytest.mark.parametrize("title", small_workloads())
def test_a_workload_is_played_to_its_end(title: str, on: str) -> None:
    workload = workloads()[title]
    outcome = run_scenario(workload_scenario(workload), on=on, options=workload_options(workload))
    assert outcome.problem == ""
    assert outcome.counts["bound"] >= workload.measured > 0


def test_every_workload_about_devices_is_among_them() -> None:
    """In the variant with queueing hints where there are two."""
    if not workloads():
        pytest.skip("Kubernetes' own workloads are not on this machine: `make controlplane`")
    folder = find_performance_config("dra").parent
    there = {
        f"{file.parent.relative_to(folder.parent)}/{each.title}"
        for file in folder.rglob("performance-config.yaml")
        for each in read_workloads(file)
        if "integration-test" in each.labels and each.emulated_version is None
    }
    assert {title for title in workloads() if title.startswith("dra/")} == there
    assert len(there) == 12


def test_with_its_gate_a_rule_taints_the_devices_of_a_workload() -> None:
    """Its pods tolerate the taint; the same pods without tolerations find no device."""
    if not workloads():
        pytest.skip("Kubernetes' own workloads are not on this machine: `make controlplane`")
    title = "dra/devicetaints/DeviceTaintToleration/fast_QueueingHintsEnabled"
    workload = replace(workloads()[title], feature_gates={"DRADeviceTaintRules": True})
    options = workload_options(workload)
    assert run_scenario(workload_scenario(workload), options=options).problem == ""
    file = find_performance_config("dra").parent / "templates" / "resourceclaimtemplate.yaml"
    plain = Template(file)
    operations = tuple(
        replace(each, template=plain)
        if isinstance(each, CreateAny) and each.template.kind == "ResourceClaimTemplate"
        else each
        for each in workload.operations
    )
    outcome = run_scenario(
        workload_scenario(replace(workload, operations=operations)), options=options
    )
    assert "10 of 10 pods in test are not scheduled" in outcome.problem
