"""`stowplan bench` as people run it: all contestants on the real control plane, a tiny workload."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane_fixtures import require_binaries

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

WORKLOADS = """
- name: Tiny
  defaultPodTemplatePath: pod.yaml
  workloadTemplate:
  - opcode: createNodes
    countParam: $nodes
    nodeTemplatePath: node.yaml
  - opcode: createPods
    countParam: $initPods
  - opcode: createPods
    countParam: $measurePods
    collectMetrics: true
  workloads:
  - name: 5Nodes
    featureGates:
      SchedulerQueueingHints: true
      SchedulerAsyncAPICalls: false
    params:
      nodes: 5
      initPods: 2
      measurePods: 10
"""

POD = """
apiVersion: v1
kind: Pod
metadata:
  generateName: pod-
spec:
  tolerations:
  - key: special
    operator: Exists
  containers:
  - name: pause
    image: registry.k8s.io/pause:3.10.1
    resources:
      requests:
        cpu: 100m
"""

# Tainted, as in some of upstream's workloads: the time to the first bind is measured all the same.
NODE = """
apiVersion: v1
kind: Node
metadata:
  generateName: node-
spec:
  taints:
  - key: special
    effect: NoSchedule
status:
  capacity:
    pods: "110"
    cpu: "4"
    memory: 32Gi
  conditions:
  - type: Ready
    status: "True"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    require_binaries("etcd", "kube-apiserver", "kubectl", "kube-scheduler")
    (tmp_path / "tiny.yaml").write_text(WORKLOADS)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "node.yaml").write_text(NODE)
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stowplan", "bench", "tiny.yaml", *arguments]


def bench(folder: Path, *arguments: str) -> tuple[dict[str, Any], str, int]:
    """What it says of the only workload, what it tells meanwhile, and the exit code."""
    done = subprocess.run(
        command("--rounds", "1", "-o", "json", *arguments),
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    (workload,) = json.loads(done.stdout)["workloads"]
    return workload, done.stderr, done.returncode


def test_a_tiny_workload_with_everybody_is_measured_once(folder: Path) -> None:
    workload, told, code = bench(folder, "--html", "page.html")
    # With so few pods a round may well be invalid; then it has to be said.
    assert code == (0 if workload["valid"] else 1), told
    assert bool(workload["invalid_rounds"]) == (not workload["valid"])
    runs = {one["run"]["contestant"]: one["run"] for one in workload["runs"]}
    assert sorted(runs) == ["kube-scheduler", "raw", "raw + events", "stowplan"]
    for contestant, run in runs.items():
        assert run["pods"] == 10
        assert run["pods_per_s"] > 0
        assert 0 < run["latency_p50_s"] <= run["latency_p99_s"] <= run["took_s"]
        assert run["events"] == (0 if contestant == "raw" else 10)
        assert sum(run["binds_over_time"]) == 10
        assert run["peak_rss_mib"] > 10
        assert (run["first_bind_s"] is None) == contestant.startswith("raw")
    assert told.count("starting a control plane") == 4

    page = (folder / "page.html").read_text()
    assert "Tiny/5Nodes" in page
    assert not re.search(r"<link|<img|\bsrc=|url\(|@import", page)

    # The same command again has nothing left to do (whoever edits the scheduler meanwhile...).
    again, told, _ = bench(folder, "--keep-old")
    assert again == workload
    assert "starting" not in told
    # What is missing is measured, nothing else.
    (folder / "bench-results/tiny/Tiny/5Nodes/round-1.raw.json").unlink()
    merged, told, _ = bench(folder, "--keep-old")
    assert told.count("starting a control plane") == 1
    assert [one for one in merged["runs"] if one["run"]["contestant"] != "raw"] == [
        one for one in workload["runs"] if one["run"]["contestant"] != "raw"
    ]


def test_a_backlog_is_there_before_the_scheduler_starts(folder: Path) -> None:
    who = "stowplan,raw/events"
    workload, told, _ = bench(folder, "--only", who, "--mode", "backlog", "--scale", "0.5")
    assert workload["setup"]["measured"] == 5, told
    runs = [one["run"] for one in workload["runs"]]
    assert sorted(run["contestant"] for run in runs) == ["raw + events", "stowplan"]
    for run in runs:
        assert run["pods"] == 5
        assert run["latency_p50_s"] is None
        assert run["first_bind_s"] > 0


def descendants(pid: int) -> set[int]:
    found = set()
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile
            for child in file.read_text().split():
                found |= {int(child)} | descendants(int(child))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_an_interrupt_leaves_no_process_behind(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(command(), cwd=folder, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 120
        while len(started := descendants(running.pid)) < 3:  # etcd, kube-apiserver, stowplan
            assert time.monotonic() < deadline
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(number)
        _, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the same command resumes here" in told
    assert "Traceback" not in told
    # One that was just being started dies with its parent, a moment later.
    while left := [pid for pid in started if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


DEVICES = """
- name: Template
  workloadTemplate:
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: createResourceDriver, driverName: gpu.example.com, nodes: node-*, maxClaimsPerNode: 5}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createAny, templatePath: template.yaml, namespace: test}
  - opcode: createPods
    namespace: test
    count: 10
    podTemplatePath: claim-pod.yaml
    collectMetrics: true
  workloads: [{name: Few, params: {}}]
- name: Extended
  workloadTemplate:
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: createResourceDriver, driverName: gpu.example.com, nodes: node-*, maxClaimsPerNode: 5}
  - {opcode: createAny, templatePath: class.yaml}
  - opcode: createPods
    namespace: test
    count: 10
    podTemplatePath: extended-pod.yaml
    collectMetrics: true
  workloads: [{name: Few, params: {}}]
- name: Steady
  workloadTemplate:
  - {opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}
  - {opcode: createResourceDriver, driverName: gpu.example.com, nodes: node-*, maxClaimsPerNode: 5}
  - {opcode: createAny, templatePath: class.yaml}
  - {opcode: createAny, templatePath: template.yaml, namespace: test}
  - opcode: createPods
    namespace: test
    count: 10
    steadyState: true
    duration: 4s
    podTemplatePath: claim-pod.yaml
    collectMetrics: true
  workloads: [{name: Few, params: {}}]
"""

CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]
"""

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}}
"""

CLAIM_POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  tolerations: [{key: special, operator: Exists}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers:
  - {name: pause, image: pause, resources: {claims: [{name: gpu}]}}
"""

EXTENDED_POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  tolerations: [{key: special, operator: Exists}]
  containers:
  - {name: pause, image: pause, resources: {limits: {example.com/gpu: 1}}}
"""


@pytest.mark.parametrize("test", ["Template", "Extended", "Steady"])
def test_raw_gives_every_pod_a_device_of_its_own(folder: Path, test: str) -> None:
    """There are as many devices as pods, so that a device given twice would leave a pod waiting."""
    require_binaries("kube-controller-manager")
    files = {"tiny": DEVICES, "class": CLASS, "template": TEMPLATE}
    files |= {"claim-pod": CLAIM_POD, "extended-pod": EXTENDED_POD}
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    backlog = () if test == "Steady" else ("--mode", "backlog")
    workload, told, code = bench(folder, "--workload", test, "--only", "raw,-raw/events", *backlog)
    assert code == 0, told
    (one,) = workload["runs"]
    if test == "Steady":
        assert one["run"]["pods"] > 10, "devices come back"
    else:
        assert one["run"]["pods"] == 10
