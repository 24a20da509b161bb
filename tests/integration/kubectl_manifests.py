"""Manifests of the kubectl script, as text that kubectl reads from its standard input."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]


def manifest(
    kind: str, name: str, *, api: str = "v1", labels: Json | None = None, **rest: Any
) -> str:
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = labels
    if more := rest.pop("metadata", None):
        metadata |= more
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": metadata, **rest})


def pod(name: str, *, labels: Json | None = None, metadata: Json | None = None, **spec: Any) -> str:
    container = {
        "name": "main",
        "image": "registry.example/pause:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    spec.setdefault("containers", [container])
    return manifest("Pod", name, labels=labels, metadata=metadata or {}, spec=spec)


def node(name: str, **spec: Any) -> Json:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    capacity = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "suite": "transcripts",
                "kubernetes.io/hostname": name,
                "node-role.kubernetes.io/worker": "",
            },
        },
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, "memory": "15Gi"},
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
            "nodeInfo": {
                "kubeletVersion": "v1.36.3",
                "kernelVersion": "6.1.0",
                "osImage": "Debian",
                "containerRuntimeVersion": "containerd://2.0.0",
                "architecture": "amd64",
                "operatingSystem": "linux",
                "machineID": "m",
                "systemUUID": "s",
                "bootID": "b",
                "kubeProxyVersion": "",
            },
        },
    }


NODES = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [node("transcript-a"), node("transcript-b", unschedulable=True)],
    }
)


def event(name: str, pod_name: str, kind: str, reason: str, message: str) -> str:
    """A core/v1 Event as kube-scheduler's recorder leaves it."""
    return manifest(
        "Event",
        name,
        involvedObject={
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "transcripts",
            "name": pod_name,
        },
        type=kind,
        reason=reason,
        message=message,
        action="Scheduling",
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingComponent="default-scheduler",
        reportingInstance="default-scheduler-host",
    )


def events_v1(name: str, pod_name: str) -> str:
    """The same through events.k8s.io, seen several times."""
    return manifest(
        "Event",
        name,
        api="events.k8s.io/v1",
        regarding={
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "transcripts",
            "name": pod_name,
        },
        type="Warning",
        reason="FailedScheduling",
        note="0/2 nodes are available: 2 Insufficient cpu.",
        action="Scheduling",
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController="default-scheduler",
        reportingInstance="default-scheduler-host",
    )


UNSCHEDULABLE = json.dumps(
    {
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/2 nodes are available: 2 Insufficient cpu.",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        }
    }
)

RUNNING = json.dumps(
    {
        "status": {
            "phase": "Running",
            "podIP": "192.0.2.9",
            "podIPs": [{"ip": "192.0.2.9"}],
            "hostIP": "192.0.2.7",
            "hostIPs": [{"ip": "192.0.2.7"}],
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "registry.example/pause:1",
                    "imageID": "registry.example/pause@sha256:0",
                    "containerID": "containerd://1",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        }
    }
)


def binding(pod_name: str, node_name: str) -> str:
    return manifest(
        "Binding",
        pod_name,
        target={"apiVersion": "v1", "kind": "Node", "name": node_name},
    )


TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
}
SELECTOR = {"matchLabels": {"app": "web"}}


def workload(kind: str, name: str, **spec: Any) -> str:
    return manifest(
        kind,
        name,
        api="apps/v1",
        labels={"app": "web"},
        spec={"replicas": 2, "selector": SELECTOR, "template": TEMPLATE, **spec},
    )
