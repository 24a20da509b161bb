"""Recordings hold no secrets; hashed ones hold no names, and still match what they matched."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.api.device_objects import DeviceClass, ResourceClaim
from stowplan.api.objects import Node, Pod
from stowplan.api.storage_objects import CSIDriver, CSINode
from stowplan.api.workload_objects import PodDisruptionBudget
from stowplan.recording.decisions import Decision
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
    for word in ("250m", "NoSchedule", "default-scheduler", '"8"', '"disk"'):
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
    before = (claim.spec.devices.requests or ())[0].exactly
    assert before is not None
    assert request.exactly.selectors == before.selectors
    assert again.status.allocation is not None
    assert (again.status.allocation.devices.results or ())[0].request == request.name


def test_names_in_fields_of_their_own_kind() -> None:
    """Drivers and classes of devices stay, as everywhere; names that are keys do not."""
    hashed = Hashed(b"key")
    for kind in (CSIDriver, DeviceClass):
        named = msgspec.convert({"metadata": {"name": "disk.example"}}, kind)
        assert hashed.identity(named) == {"metadata": {"name": "disk.example"}}
        assert b'"disk.example"' in hashed(named)
    drivers = [{"name": "disk.example", "nodeID": "db-7", "allocatable": {"count": 3}}]
    node = msgspec.convert({"metadata": {"name": "db-7"}, "spec": {"drivers": drivers}}, CSINode)
    text = hashed(node)
    assert b'"disk.example"' in text
    assert b"db-7" not in text
    budget = msgspec.convert(
        {"status": {"disruptedPods": {"pay-0": "2026-01-02T03:04:05Z"}}}, PodDisruptionBudget
    )
    text = hashed(budget)
    assert b"pay-0" not in text
    assert b"2026-01-02T03:04:05Z" in text


def test_finalizers_of_other_controllers_are_not_recorded() -> None:
    """Nothing would ever remove them from the claims of a replay."""
    finalizers = ["acme.example/audit", "resource.kubernetes.io/delete-protection"]
    claim = msgspec.convert({"metadata": {"finalizers": finalizers}}, ResourceClaim)
    for text in (kept(claim), Hashed(b"key")(claim)):
        again = msgspec.json.decode(text, type=ResourceClaim)
        assert again.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)


def test_addresses_of_hosts_are_other_addresses() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 80, "hostIP": address}
        for address in ("192.0.2.7", "0.0.0.0", "192.0.2.7")
    ]
    pod = msgspec.convert({"spec": {"containers": [{"name": "c", "ports": ports}]}}, Pod)
    again = msgspec.json.decode(Hashed(b"key")(pod), type=Pod)
    one, every, other = (port.host_ip for port in (again.spec.containers or ())[0].ports or ())
    assert one == other != "192.0.2.7"
    assert one.startswith("10.")
    assert every == "0.0.0.0"


def test_what_drivers_report_of_devices_is_not_recorded() -> None:
    condition = {"type": "Ready", "status": "True", "message": "s3cret"}
    reported = {"driver": "gpu.example", "pool": "n1", "device": "d0", "conditions": [condition]}
    more = {"data": {"key": "s3cret"}, "networkData": {"ips": ["s3cret"]}}
    claim = msgspec.convert({"status": {"devices": [{**reported, **more}]}}, ResourceClaim)
    for text in (kept(claim), Hashed(b"key")(claim)):
        assert b"s3cret" not in text
        assert b'"Ready"' in text


@pytest.mark.parametrize(
    ("source", "scheduler", "stays"),
    [
        ("event", "default-scheduler", True),
        ("event", "payroll.acme.example/controller", False),
        ("ledger", "batch-scheduler", True),  # a profile of ours, as pods name it
        ("event", "", True),
    ],
)
def test_controllers_that_write_events_are_hashed(source: str, scheduler: str, stays: bool) -> None:
    hashed = Hashed(b"key")
    attempt = Decision(
        pod="4711/998877", result="scheduled", node="555123", scheduler=scheduler, source=source
    )
    text = hashed.names.text
    assert hashed.decision(attempt) == msgspec.structs.replace(
        attempt,
        pod=f"{text('4711')}/{text('998877')}",
        node=text("555123"),
        scheduler=scheduler if stays else text(scheduler),
    )
    assert text("555123") != "555123"
