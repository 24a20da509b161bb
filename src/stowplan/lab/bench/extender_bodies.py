"""The requests to the extenders, and checks of their answers.

Bodies are written as Go writes them (compact, every field there), requests with the headers of
kube-scheduler's client. A node is what a kubelet makes of a machine, without `managedFields`, which
kube-scheduler does not keep. From pod to pod the nodes come in another order, because
kube-scheduler looks at them from where it stopped, and prioritize is asked about those that filter
has left.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

import msgspec

from stowplan.loader.json_text import load_json

_IMAGES_ON_A_NODE: Final = 12
_ORDERS: Final = 64
_CONDITIONS: Final = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}
_WHEN: Final = "2026-11-15T12:00:00Z"


class Mode(StrEnum):
    """What kube-scheduler sends of the nodes."""

    NAMES = "node names"
    NODES = "whole nodes"


class WrongAnswer(Exception):
    """An extender answered something else than that everything fits."""


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """The same nodes, filtered and prioritized."""

    mode: Mode
    nodes: int
    #: To filter and to prioritize, for each order of the nodes.
    requests: tuple[tuple[bytes, bytes], ...]
    body_bytes: int


def node_name(number: int) -> str:
    return f"ip-10-{number // 65536}-{number // 256 % 256}-{number % 256}.eu-central-1.internal"


def node(number: int) -> dict[str, Any]:
    name = node_name(number)
    zone = f"eu-central-1{'abc'[number % 3]}"
    amounts = {"cpu": "16", "memory": "64938644Ki", "pods": "110", "hugepages-2Mi": "0"}
    disks = {"ephemeral-storage": "104845292Ki", "hugepages-1Gi": "0"}
    return {
        "metadata": {
            "name": name,
            "uid": f"6c8f3c52-8d1b-4b5e-9f5e-{number:012x}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": _WHEN,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/instance-type": "m6i.4xlarge",
                "beta.kubernetes.io/os": "linux",
                "failure-domain.beta.kubernetes.io/region": "eu-central-1",
                "failure-domain.beta.kubernetes.io/zone": zone,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/region": "eu-central-1",
                "topology.kubernetes.io/zone": zone,
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": f'{{"ebs.csi.aws.com":"i-{number:017x}"}}',
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "podCIDR": f"10.{128 + number // 256}.{number % 256}.0/24",
            "podCIDRs": [f"10.{128 + number // 256}.{number % 256}.0/24"],
            "providerID": f"aws:///{zone}/i-{number:017x}",
        },
        "status": {
            "capacity": amounts | disks,
            "allocatable": amounts | disks | {"cpu": "15890m"},
            "conditions": [
                {
                    "type": kind,
                    "status": status,
                    "lastHeartbeatTime": _WHEN,
                    "lastTransitionTime": _WHEN,
                    "reason": reason,
                    "message": message,
                }
                for kind, (status, reason, message) in _CONDITIONS.items()
            ],
            "addresses": [
                {"type": "InternalIP", "address": f"10.0.{number // 256}.{number % 256}"},
                {"type": "Hostname", "address": name},
                {"type": "InternalDNS", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": f"ec2{number:029x}",
                "systemUUID": f"ec2{number:05x}-9f0c-4a35-8d7e-1b2c3d4e5f60",
                "bootID": f"0b6a2f0e-3a52-4b1e-8f2b-{number:012x}",
                "kernelVersion": "6.12.40-63.114.amzn2023.x86_64",
                "osImage": "Amazon Linux 2023.9.20251110",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [_image(number, place) for place in range(_IMAGES_ON_A_NODE)],
        },
    }


def _image(number: int, place: int) -> dict[str, Any]:
    name = f"registry.example.com/platform/service-{(number + place) % 40:02}"
    return {
        "names": [f"{name}@sha256:{place:08x}{number % 7:056x}", f"{name}:v1.{place}.0"],
        "sizeBytes": 31_415_926 + 1_000_003 * place,
    }


def pod() -> dict[str, Any]:
    container = {
        "name": "web",
        "image": "registry.example.com/platform/service-01:v1.0.0",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{place}", "value": f"value-{place}"} for place in range(8)],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
        "volumeMounts": [
            {
                "name": "kube-api-access",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "metadata": {
            "name": "web-7d4b9c6f5d-x2x9k",
            "generateName": "web-7d4b9c6f5d-",
            "namespace": "default",
            "uid": "0f2b9e1a-52a7-4f0f-9a5e-8d0f4b2a1c3d",
            "resourceVersion": "4711",
            "creationTimestamp": _WHEN,
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5d"},
        },
        "spec": {
            "containers": [container],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "priority": 0,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


@cache
def question(mode: Mode, nodes: int) -> ExtenderQuestion:
    bodies = []
    if mode is Mode.NAMES:
        names = list(map(node_name, range(nodes)))
        for turn in range(_ORDERS):
            start = turn * nodes // _ORDERS
            args = {"Pod": pod(), "Nodes": None, "NodeNames": names[start:] + names[:start]}
            bodies.append(msgspec.json.encode(args))
    else:  # tens of megabytes, so that one order has to do
        items = {"metadata": {}, "items": list(map(node, range(nodes)))}
        bodies.append(msgspec.json.encode({"Pod": pod(), "Nodes": items, "NodeNames": None}))
    requests = tuple((_request("filter", body), _request("prioritize", body)) for body in bodies)
    return ExtenderQuestion(mode, nodes, requests, len(bodies[0]))


def _request(verb: str, body: bytes) -> bytes:
    head = (
        f"POST /{verb} HTTP/1.1\r\n"
        "Host: 127.0.0.1\r\n"
        "User-Agent: Go-http-client/1.1\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Content-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def check_filter(asked: ExtenderQuestion, body: bytes) -> None:
    """WrongAnswer unless every node stays, as it was; of the first order."""
    answer = _decoded(body)
    if answer.get("Error") or answer.get("FailedNodes"):
        raise WrongAnswer("filter refused nodes")
    if asked.mode is Mode.NAMES:
        is_right = answer.get("NodeNames") == list(map(node_name, range(asked.nodes)))
    else:
        is_right = (answer.get("Nodes") or {}).get("items") == list(map(node, range(asked.nodes)))
    if not is_right:
        raise WrongAnswer("filter did not answer with all nodes")


def check_prioritize(asked: ExtenderQuestion, body: bytes) -> None:
    """WrongAnswer unless every node is there, with no preference; of the first order."""
    expected = [{"Host": node_name(number), "Score": 0} for number in range(asked.nodes)]
    if _decoded(body) != expected:
        raise WrongAnswer("prioritize did not answer with all nodes and score 0")


def _decoded(body: bytes) -> Any:
    try:
        return load_json(body)
    except ValueError as error:
        raise WrongAnswer(f"an answer is not JSON: {error}") from None
