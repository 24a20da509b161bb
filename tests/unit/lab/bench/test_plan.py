"""What is measured: workloads of a file, scaled, and without `raw` where it makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.lab.bench import plan as plan_module
from stowplan.lab.bench.plan import listed, plan, scaled, why_not_raw
from stowplan.lab.bench.run import can_wait_in_a_backlog
from stowplan.lab.bench.targets import SETS, WorkloadEntry, targets
from stowplan.workloads.load import read_workloads
from stowplan.workloads.model import CreatePods
from tests.unit.workloads.conftest import upstream_folder

FILE = """
- name: Basic
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, count: 100}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: Small, params: {nodes: 5, pods: 10}, featureGates: {SchedulerQueueingHints: true}}
  - {name: Large, params: {nodes: 500, pods: 1000}}
- name: Preemption
  workloadTemplate:
  - {opcode: createNodes, count: 5}
  - {opcode: createPods, count: 10, podTemplatePath: important.yaml, collectMetrics: true}
  workloads:
  - {name: Small, params: {}}
- name: Gated
  workloadTemplate:
  - {opcode: createNodes, count: 5}
  - {opcode: createPods, count: 10, podTemplatePath: gated.yaml, skipWaitToCompletion: true}
  - {opcode: createPods, count: 10, podTemplatePath: pod.yaml, collectMetrics: true}
  workloads:
  - {name: Small, params: {}}
- name: Churn
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, count: 5}
  - {opcode: churn, mode: create, templatePaths: [pod.yaml], intervalMilliseconds: 100}
  - {opcode: createPods, count: 10, collectMetrics: true}
  workloads:
  - {name: Small, params: {}}
- name: Between
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - {opcode: createNodes, count: 5}
  - {opcode: createPods, count: 1, namespace: a, podTemplatePath: blue.yaml}
  - opcode: startCollectingMetrics
    name: waiting
    namespaces: [a, b]
    labelSelector: {color: blue}
  - {opcode: createPods, count: 20, namespace: a, podTemplatePath: blue.yaml}
  - {opcode: createPods, count: 300, namespace: b}
  - {opcode: createPods, count: 4000, namespace: b, podTemplatePath: blue.yaml}
  - {opcode: createPods, count: 50000, namespace: c, podTemplatePath: blue.yaml}
  - {opcode: stopCollectingMetrics}
  - {opcode: createPods, count: 600000, namespace: a, podTemplatePath: blue.yaml}
  workloads:
  - {name: Small, params: {}}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  containers: [{name: pause, image: pause}]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "important.yaml").write_text(POD + "  priority: 10\n")
    (tmp_path / "gated.yaml").write_text(POD + "  schedulingGates: [{name: wait}]\n")
    (tmp_path / "blue.yaml").write_text(POD.replace("{", "{labels: {color: blue}, ", 1))
    path = tmp_path / "own.yaml"
    path.write_text(FILE)
    return str(path)


def test_every_workload_of_a_file(file: str) -> None:
    items = plan(file)
    assert [item.setup.title for item in items] == [
        "Basic/Small",
        "Basic/Large",
        "Preemption/Small",
        "Gated/Small",
        "Churn/Small",
        "Between/Small",
    ]
    first = items[0].setup
    assert (first.nodes, first.pods, first.measured, first.mode) == (5, 110, 10, "stream")
    assert first.feature_gates == {"SchedulerQueueingHints": True}


def test_raw_takes_part_only_where_every_pod_has_a_place(file: str) -> None:
    reasons = {item.setup.test: item.setup.without_raw for item in plan(file)}
    assert reasons == {
        "Basic": "",
        "Preemption": "its pods have to be preempted",
        "Gated": "its pods are gated",
        "Churn": "its pods have to wait or to come and go (churn)",
        "Between": "its pods have to wait or to come and go (startCollectingMetrics)",
    }
    assert why_not_raw(plan(file)[0].workload) == ""


def test_a_scale_shrinks_the_measured_pods_only(file: str) -> None:
    (item,) = plan(file, "Basic/Large", scale=0.2)
    assert (item.setup.nodes, item.setup.pods, item.setup.measured) == (500, 300, 200)
    counts = [each.count for each in item.workload.operations if isinstance(each, CreatePods)]
    assert counts == [100, 200]
    (tiny,) = plan(file, "Basic/Small", scale=0.001)
    assert tiny.setup.measured == 1
    small = plan(file, "Basic/Small")[0].workload
    assert scaled(small, 1.0) == small


def test_pods_are_measured_between_two_operations(file: str) -> None:
    """Those of the namespaces and with the labels that are named; no scale changes how many."""
    assert {one.title: one.measured for one in listed(file)} == {
        "Basic/Small": 10,
        "Basic/Large": 1000,
        "Preemption/Small": 10,
        "Gated/Small": 10,
        "Churn/Small": 10,
        "Between/Small": 4020,
    }
    (item,) = plan(file, "Between", scale=0.5)
    assert (item.setup.measured, item.setup.scale) == (4020, 1.0)


def test_a_backlog_needs_a_workload_that_creates_pods_once(file: str) -> None:
    simple = {one.title: can_wait_in_a_backlog(one) for one in read_workloads(Path(file))}
    assert simple == {
        "Basic/Small": True,
        "Basic/Large": True,
        "Preemption/Small": True,
        "Gated/Small": True,
        "Churn/Small": True,
        "Between/Small": False,
    }
    (item,) = plan(file, "Basic/Small", mode="backlog")
    assert item.setup.mode == "backlog"
    with pytest.raises(ConfigError, match="Between/Small cannot be run as a backlog"):
        plan(file, "Between", mode="backlog")


def test_a_pattern_that_nothing_matches(file: str) -> None:
    with pytest.raises(ConfigError, match="Nonsense"):
        plan(file, "Nonsense*")


def test_a_set_has_modes_of_its_own(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = (
        WorkloadEntry(file, "Basic/Small", mode="backlog"),
        WorkloadEntry(file, "Churn/Small"),
        WorkloadEntry(file, "Basic/Small"),
    )
    monkeypatch.setattr(plan_module, "SETS", {"mine": entries})
    found = [(item.setup.test, item.setup.mode) for item in plan("mine")]
    assert found == [("Basic", "backlog"), ("Churn", "stream"), ("Basic", "stream")]
    streams = [(item.setup.test, item.setup.mode) for item in plan("mine", mode="stream")]
    assert streams == [("Basic", "stream"), ("Churn", "stream")], "each once"
    assert [one.title for one in listed("mine")] == ["Basic/Small", "Churn/Small"]


def test_the_headline_takes_a_backlog_where_it_can_and_some_in_both_modes() -> None:
    by_title = {row.title: {each.mode for each in row.entries} for row in targets().rows}
    for title in ("Preemption", "Devices that come and go"):
        assert by_title.pop(title) == {"stream"}
    assert set().union(*by_title.values()) == {"backlog"}
    backlog = {each.workload for each in SETS["headline"] if each.mode == "backlog"}
    assert {each.workload for each in targets().as_they_come} < backlog


def test_devices_are_every_workload_of_upstream_with_pods_that_is_labelled_performance() -> None:
    """A pair that differs only by queueing hints counts once, with them."""
    labelled = [
        workload.title
        for file in sorted((upstream_folder() / "dra").rglob("performance-config.yaml"))
        for workload in read_workloads(file)
        if "performance" in workload.labels and workload.pods
    ]
    with_hints = "_QueueingHintsEnabled"
    expected = {title for title in labelled if f"{title}{with_hints}" not in labelled}
    assert {each.workload for each in SETS["devices"]} == expected
    assert len(expected) == 9
    assert set(SETS["devices"]) < set(SETS["headline"])
    items = plan("devices")
    assert [item.setup.title for item in items if item.setup.without_raw] == []
    assert all(item.workload.has_devices for item in items)


def test_raw_cannot_choose_devices() -> None:
    upstream_folder()
    reasons = {item.setup.title: item.setup.without_raw for item in plan("dra")}
    assert reasons["SchedulingWithResourceClaim/fast"] == "its pods share claims"
    several = {
        item.setup.without_raw
        for file in ("dra/prioritizedlist", "dra/consumablecapacity", "dra/partitionabledevices")
        for item in plan(file)
    }
    assert several == {"its claims ask for particular devices"}


def test_a_set_has_scales_of_its_own(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = (WorkloadEntry(file, "Basic/Large", 0.5), WorkloadEntry(file, "Churn/Small"))
    monkeypatch.setattr(plan_module, "SETS", {"mine": entries})
    assert [item.setup.measured for item in plan("mine")] == [500, 10]
    assert [item.setup.measured for item in plan("mine", scale=0.1)] == [100, 1]
    assert [item.setup.title for item in plan("mine", "Churn")] == ["Churn/Small"]
    with pytest.raises(ConfigError):
        plan("mine", "Basic/Small")
