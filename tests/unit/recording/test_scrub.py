"""Recordings hold no secrets; hashed ones hold no names, and still match what they matched."""

from __future__ import annotations

import msgspec

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Node, Pod
from stowplan.recording.scrub import Hashed, kept

POD = {
    "metadata": {
        "name": "pay-0",
        "namespace": "shop",
        "uid": "u1",
        "labels": {"app": "pay", "type": "ledger"},
        "annotations": {"vault": "s3cret", "volume.kubernetes.io/selected-node": "db-7"},
    },
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/pay:1",
                "command": ["run", "--token=s3cret"],
                "args": ["s3cret"],
                "env": [{"name": "PASSWORD", "value": "s3cret"}],
                "resources": {"requests": {"cpu": "250m"}},
            }
        ],
        "schedulerName": "default-scheduler",
        "nodeName": "db-7",
        "nodeSelector": {"disk": "fast"},
        "priorityClassName": "system-node-critical",
        "tolerations": [
            {"key": "team", "operator": "Equal", "value": "pay", "effect": "NoSchedule"}
        ],
        "volumes": [
            {
                "name": "scratch",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "metadata": {"annotations": {"note": "s3cret"}},
                        "spec": {"storageClassName": "quick", "accessModes": ["ReadWriteOnce"]},
                    }
                },
            },
            {"name": "keys", "secret": {"secretName": "s3cret"}},
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "disk", "operator": "In", "values": ["fast"]},
                                {"key": "cores", "operator": "Gt", "values": ["8"]},
                            ]
                        }
                    ]
                }
            }
        },
    },
    "status": {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "message": "s3cret",
                "reason": "Waits",
            }
        ]
    },
}
NODE = {
    "metadata": {"name": "db-7", "labels": {"disk": "fast", "cores": "16"}},
    "status": {"allocatable": {"cpu": "4", "example.com/gpu": "2"}},
}


def test_what_no_scheduler_reads_is_not_recorded() -> None:
    pod = msgspec.convert(POD, Pod)
    text = kept(pod)
    assert b"s3cret" not in text
    assert b"PASSWORD" not in text
    again = msgspec.json.decode(text, type=Pod)
    assert again.spec.containers == pod.spec.containers
    assert again.spec.affinity == pod.spec.affinity
    assert again.metadata.annotations == {"volume.kubernetes.io/selected-node": "db-7"}


def test_hashed_recordings_hold_no_names() -> None:
    text = Hashed(b"key")(msgspec.convert(POD, Pod)).decode()
    for name in ("pay", "shop", "db-7", "ledger", "fast", "quick", "registry.example", "s3cret"):
        assert name not in text, name
    # What decisions depend on stays: amounts, words of Kubernetes, numbers.
    for word in ("250m", "NoSchedule", "default-scheduler", "ReadWriteOnce", '"8"', '"disk"'):
        assert word in text, word


def test_hashes_match_what_the_names_matched() -> None:
    hashed = Hashed(b"key")
    pod = msgspec.json.decode(hashed(msgspec.convert(POD, Pod)), type=Pod)
    node = msgspec.json.decode(hashed(msgspec.convert(NODE, Node)), type=Node)
    assert pod.spec.node_name == node.metadata.name
    assert pod.spec.node_selector is not None
    assert node.metadata.labels is not None
    assert pod.spec.node_selector["disk"] == node.metadata.labels["disk"]
    assert node.metadata.labels["cores"] == "16"
    assert node.status.allocatable == {"cpu": "4", "example.com/gpu": "2"}
    other = msgspec.json.decode(Hashed(b"other")(msgspec.convert(NODE, Node)), type=Node)
    assert other.metadata.name != node.metadata.name


CLAIM = {
    "metadata": {"name": "gpu", "namespace": "shop"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "big",
                    "exactly": {
                        "deviceClassName": "gpus",
                        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example'"}}],
                    },
                }
            ],
            "constraints": [{"requests": ["big"], "matchAttribute": "gpu.example/model"}],
            "config": [{"opaque": {"driver": "gpu.example", "parameters": {"key": "s3cret"}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "big", "driver": "gpu.example", "pool": "n1", "device": "d0"}
                ],
                "config": [{"source": "FromClaim", "opaque": {"parameters": "s3cret"}}],
            }
        }
    },
}


def test_parameters_of_drivers_are_not_recorded_and_requests_are_hashed_alike() -> None:
    claim = msgspec.convert(CLAIM, ResourceClaim)
    assert b"s3cret" not in kept(claim)
    text = Hashed(b"key")(claim)
    assert b"big" not in text
    again = msgspec.json.decode(text, type=ResourceClaim)
    request = (again.spec.devices.requests or ())[0]
    assert (again.spec.devices.constraints or ())[0].requests == (request.name,)
    assert request.exactly is not None
    assert request.exactly.selectors == (claim.spec.devices.requests or ())[0].exactly.selectors  # type: ignore[union-attr]
    assert again.status.allocation is not None
    assert (again.status.allocation.devices.results or ())[0].request == request.name
