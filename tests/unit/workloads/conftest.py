"""Fixtures of these tests: files written on the spot, and upstream's own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from stowplan.errors import ConfigError
from stowplan.workloads.load import find_performance_config, read_workloads
from stowplan.workloads.model import Workload

TEMPLATES = {
    "pod.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {generateName: pod-, labels: {app: web}}
        spec: {containers: [{name: c, image: i}]}
        """,
    "numbered-pod.yaml": """
        apiVersion: v1
        kind: Pod
        metadata: {name: "pod-{{ .Index }}", labels: {parity: "{{ Mod .Index 2 }}"}}
        spec: {containers: [{name: c, image: i}]}
        """,
    "node.yaml": """
        apiVersion: v1
        kind: Node
        metadata: {generateName: shelf-, labels: {disk: ssd}}
        status: {capacity: {cpu: "4", pods: 10}}
        """,
    "service.yaml": """
        apiVersion: v1
        kind: Service
        metadata: {generateName: service-}
        spec: {selector: {app: web}}
        """,
    "namespace.yaml": """
        apiVersion: v1
        kind: Namespace
        metadata: {labels: {team: devops}}
        """,
    "volume.yaml": """
        apiVersion: v1
        kind: PersistentVolume
        spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: d.example}}
        """,
    "aws-volume.yaml": """
        apiVersion: v1
        kind: PersistentVolume
        spec: {capacity: {storage: 1Gi}, awsElasticBlockStore: {volumeID: none}}
        """,
    "claim.yaml": """
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
        spec: {accessModes: [ReadOnlyMany]}
        """,
    "claim-resource.yaml": """
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: claim}
        """,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with small templates of most kinds."""
    for name, text in TEMPLATES.items():
        (tmp_path / name).write_text(dedent(text).strip() + "\n")
    return tmp_path


@pytest.fixture
def read(folder: Path) -> Callable[..., Workload]:
    """Reads the one workload of a test with these operations (and other fields of the test)."""

    def read_one(operations: str, params: str = "{}", more: str = "") -> Workload:
        lines = dedent(operations).strip().splitlines()
        text = ["- name: Test", "  workloadTemplate:", *(f"  {line}" for line in lines)]
        text += ["  workloads:", f"  - {{name: one, params: {params}}}"]
        text += [f"  {line}" for line in dedent(more).strip().splitlines()]
        file = folder / "performance-config.yaml"
        file.write_text("\n".join(text) + "\n")
        (workload,) = read_workloads(file)
        return workload

    return read_one


def upstream_folder() -> Path:
    """Kubernetes' own files; where they are missing this skips, in CI it fails."""
    try:
        return find_performance_config("misc").parent.parent
    except ConfigError as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(str(problem))
