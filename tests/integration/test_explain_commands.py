"""The commands that `explain --fix` prints, run by a shell with the real kubectl.

Every pod is of a Deployment and pending for one cause. The commands are run while no scheduler is;
then a scheduler starts, and every Deployment must get a pod onto a node.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from stowplan.clock import VirtualClock
from stowplan.config.defaults import default_config
from stowplan.explain.fixes import find_fixes
from stowplan.explain.reasoning import Explainer
from stowplan.explain.sources import pending_pods, read_live
from stowplan.judge.configuration import Configuration, default_registry
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.waiting import wait_for

ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
APART = {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": ZONE}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GENERATION = {"key": "generation", "operator": "Gt", "values": ["4"]}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "topologyspread"}},
}

#: The kind of a fix -> the node's spec, and the spec of the pods.
SCENARIOS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Request": ({}, {"cpu": "8"}),
    "Toleration": ({"taints": [TAINT]}, {}),
    "Taint": ({"taints": [TAINT]}, {}),
    "Uncordon": ({"unschedulable": True}, {}),
    "NodeLabel": (
        {},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [GENERATION]}
        ]}}}},
    ),
    "Eviction": ({}, {"cpu": "3"}),
    "TopologySpread": ({}, {"topologySpreadConstraints": [SPREAD]}),
    "PodAffinity": ({}, {"affinity": {"podAffinity": {REQUIRED: [APART]}}}),
}  # fmt: skip


def _objects() -> Iterator[dict[str, Any]]:
    for kind, (node, pod) in SCENARIOS.items():
        name = kind.lower()
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"scenario": name}},
            "spec": node,
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
        }
        spec = {"nodeSelector": {"scenario": name}, **pod}
        requests = {"cpu": spec.pop("cpu", "1"), "memory": "1Gi"}
        spec["containers"] = [{"name": "app", "image": "a", "resources": {"requests": requests}}]
        labels = {"app": name}
        yield {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": "3"}}}
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "in-the-way", "namespace": "default"},
        "spec": {
            "nodeName": "eviction",
            "containers": [container],
            "terminationGracePeriodSeconds": 0,  # there is no kubelet
        },
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    folder, workloads = tmp_path_factory.mktemp("commands"), WorkloadControllerOptions()
    with running_embedded_server(folder, workloads=workloads) as running:
        yield running


def test_every_command_of_a_fix_leads_to_a_placed_pod(
    server: EmbeddedServer, kubectl_binary: Path, tmp_path: Path
) -> None:
    path = f"{kubectl_binary.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "KUBECONFIG": str(server.kubeconfig_path), "PATH": path}

    def shell(command: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["sh", "-c", command], input=stdin, capture_output=True, text=True, env=env, timeout=60
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    shell("kubectl apply -f -", yaml.safe_dump_all(_objects()))
    wait_for(
        "a pod of each Deployment",
        lambda: len(_pods(shell)) == len(SCENARIOS) + 1 or None,
    )
    commands = asyncio.run(_commands(str(server.kubeconfig_path)))
    assert commands.keys() == SCENARIOS.keys()
    for command in commands.values():
        shell(command)
    log = (tmp_path / "scheduler.log").open("w")
    options = ("--leader-elect=false", "--secure-port=0")
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "stowplan", "run", *options], env=env, stdout=log, stderr=log
    )
    try:

        def placed() -> bool:
            apps = {pod["metadata"]["labels"]["app"] for pod in _pods(shell) if _is_placed(pod)}
            return apps == {kind.lower() for kind in SCENARIOS}

        wait_for("every Deployment to have a pod on a node", placed)
    finally:
        scheduler.terminate()
        scheduler.wait(30)
        log.close()


def _pods(shell: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shell("kubectl get pods -o json"))["items"]
    return found


def _is_placed(pod: dict[str, Any]) -> bool:
    return "app" in pod["metadata"].get("labels", {}) and bool(pod["spec"].get("nodeName"))


async def _commands(kubeconfig: str) -> dict[str, str]:
    """For each scenario, the command of the first fix of its kind."""
    settings = Configuration(default_config(), default_registry())
    async with ApiClient(load_cluster_config(kubeconfig=kubeconfig)) as client:
        cluster = await read_live(client, settings.looked_up(), pytest.fail)
    explainer = Explainer(cluster, settings)
    found: dict[str, str] = {}
    for thing in list(pending_pods(cluster)):
        scenario = thing.struct.metadata.labels["app"]
        for fix in find_fixes(explainer, thing, VirtualClock()):
            if fix.kind.lower() == scenario:
                found.setdefault(fix.kind, fix.command)
    return found
