"""Kubernetes' own files, unchanged: all are read, all that can be played are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from stowplan.workloads.expressions import as_text, parse
from stowplan.workloads.load import find_performance_config, read_workloads, select
from stowplan.workloads.model import Churn, Workload
from stowplan.workloads.play import play
from stowplan.workloads.templates import Template
from tests.unit.workloads.conftest import upstream_folder
from tests.unit.workloads.memory_cluster import MemoryCluster, Recorder

EXAMPLES = Path(__file__).parents[3] / "examples" / "workloads"
PLAYABLE = ("affinity", "dra", "event_handling", "misc", "topology_spreading", "volumes")
#: Of Kubernetes 1.36, the variants with queueing hints: title, nodes and pods.
MEASURED = {
    "SchedulingBasic/5000Nodes_10000Pods": (5000, 11000),
    "SchedulingBasic/5000Nodes_50000Pods": (5000, 55000),
    "SchedulingNodeAffinity/5000Nodes_10000Pods": (5000, 15000),
    "SchedulingSecrets/5000Nodes_10000Pods": (5000, 11000),
    "TopologySpreading/5000Nodes_5000Pods": (5000, 10000),
    "PreferredTopologySpreading/5000Nodes_5000Pods": (5000, 10000),
    "DefaultTopologySpreading/5000Nodes_50000Pods": (5000, 55000),
    "SchedulingPodAntiAffinity/5000Nodes_2000Pods": (5000, 3000),
    "SchedulingPodAffinity/5000Nodes_5000Pods": (5000, 10000),
    "SchedulingPreferredPodAffinity/5000Nodes_5000Pods": (5000, 10000),
    "SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods": (5000, 10000),
    "SchedulingPreferredAffinityWithNSSelector/5000Nodes_5000Pods": (5000, 10000),
    "SchedulingPreferredAntiAffinityWithNSSelector/5000Nodes_2000Pods": (5000, 6000),
    "SchedulingRequiredPodAffinityWithNSSelector/5000Nodes_2000Pods": (5000, 7000),
    "SchedulingRequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods": (6000, 6000),
    "MixedSchedulingBasePod/5000Nodes_5000Pods": (5000, 15000),
    "SchedulingWithMixedChurn/5000Nodes_10000Pods": (5000, 10000),
    "Unschedulable/5kNodes/100Init/10kPods": (5000, 10100),
    "PreemptionBasic/1000Nodes": (1000, 5000),
    "PreemptionAsync/5000Nodes": (5000, 25000),
    "SchedulingInTreePVs/5000Nodes_2000Pods": (5000, 3000),
    "SchedulingCSIPVs/5000Nodes_5000Pods": (5000, 10000),
}


def upstream() -> list[Workload]:
    upstream_folder()
    return [
        workload
        for topic in PLAYABLE
        for workload in read_workloads(find_performance_config(topic))
    ]


def test_every_file_is_read_and_only_what_needs_more_cannot_be_played() -> None:
    folder = upstream_folder()
    files = sorted(folder.rglob("performance-config.yaml"))
    assert len(files) >= 10
    for file in files:
        topic = file.parent.relative_to(folder).parts[0]
        workloads = read_workloads(file)
        assert workloads
        for workload in workloads:
            assert bool(workload.cannot_play) is (topic not in PLAYABLE), workload.title
            assert workload.measures or workload.cannot_play


def alike(built: Any, rendered: Any) -> bool:
    """Equal but for what upstream's typed client does: amounts are texts, fields lower case."""
    if isinstance(built, dict) and isinstance(rendered, dict):
        lower = {key[:1].lower() + key[1:]: value for key, value in rendered.items()}
        return all(
            alike(value, rendered.get(key, lower.get(key))) for key, value in built.items()
        ) and len(built) == len(rendered)
    if isinstance(built, list) and isinstance(rendered, list):
        return len(built) == len(rendered) and all(map(alike, built, rendered))
    return built == rendered or (isinstance(built, str) and built == str(rendered))


def rendered(file: Path, index: int, count: int) -> str:
    def value(action: re.Match[str]) -> str:
        return as_text(parse(action[1])(index, count))

    return re.sub(r"\{\{(.*?)\}\}", value, file.read_text())


def test_templates_build_what_rendering_and_reading_each_gives() -> None:
    files = [
        file
        for file in upstream_folder().rglob("*.yaml")
        if file.name not in ("performance-config.yaml", "scheduler-config.yaml")
    ]
    assert len(files) > 100
    for file in files:
        template = Template(file)
        for index in (0, 7, 26):
            text = rendered(file, index, 30)
            assert alike(template.build(index, 30), yaml.safe_load(text)), file


def test_sizes_of_the_measured_workloads() -> None:
    workloads = upstream()
    found = {title: select(workloads, f"{title}_QueueingHintsEnabled") for title in MEASURED}
    sizes = {title: (each.nodes, each.pods) for title, (each,) in found.items()}
    assert sizes == MEASURED
    for (workload,) in found.values():
        assert workload.feature_gates["SchedulerQueueingHints"] is True
        assert "performance" in workload.labels


async def test_every_small_workload_is_played_to_its_end() -> None:
    workloads = select(upstream(), labels=["integration-test"])
    assert len(workloads) > 60
    for workload in workloads:
        cluster, recorder = MemoryCluster(), Recorder()
        async with cluster.running():
            await play(workload, cluster, observer=recorder)
        measured = [each for each in recorder.told if each.startswith("measured ")]
        assert measured, workload.title
        churned = {each.namespace for each in workload.operations if isinstance(each, Churn)}
        made = Counter(
            write.resource.plural
            for _, write in cluster.requests
            if write.verb == "create"
            and write.namespace not in churned
            and not write.name.startswith("node-churn-")
        )
        assert (made["nodes"], made["pods"]) == (workload.nodes, workload.pods), workload.title


async def test_our_examples_are_played_to_their_end() -> None:
    for workload in select(read_workloads(EXAMPLES / "shop.yaml"), "small"):
        cluster, recorder = MemoryCluster(), Recorder()
        async with cluster.running():
            await play(workload, cluster, observer=recorder)
        assert recorder.told[-1] == f"{len(workload.operations) - 1} ended"
