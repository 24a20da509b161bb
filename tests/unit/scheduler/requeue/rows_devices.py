"""Rows of DynamicResources, and of NodeResourcesFit for resources that devices stand for."""

from __future__ import annotations

from typing import Any

from stowplan.testing import node, pod
from tests.unit.plugins.dra.device_kit import (
    allocation,
    claim,
    device_class,
    gpus,
    made_for,
    using,
)
from tests.unit.scheduler.requeue.matrix import Pair, Row, becomes, comes, updates
from tests.unit.scheduler.requeue.registered_events import (
    ADD,
    ALLOCATABLE,
    CLAIM_MADE,
    DEVICE_CLASS,
    NODE,
    NODE_LABEL,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    UPDATE,
)

_DEVICES, _FIT = "DynamicResources", "NodeResourcesFit"
_WANT_RESOURCES = (
    pod("a", requests={"example.com/gpu": 1}),
    pod("b", requests={"example.com/nic": 1}),
)
_A, _B = using("c1", name="a"), using("c2", name="b")
_CLAIMS = (claim("c1"), claim("c2"))
_TAKEN = claim("taken", allocation=allocation("n1", "gpu-0"))
_ZONE = "topology.kubernetes.io/zone"
_IN_ZONE: dict[str, Any] = {
    "nodeName": None,
    "nodeSelector": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": ["z2"]}]}
        ]
    },
}

# The only device is taken.
_FULL = (node("n1"), device_class(), gpus("n1", "gpu-0"), _TAKEN, *_CLAIMS)
# The only device is in another zone.
_ELSEWHERE = (node("n1", zone="z1"), device_class(), gpus("z2", "gpu-0", **_IN_ZONE), *_CLAIMS)
_FROM_TEMPLATE = using(name="a", templates=["t"])

ROWS = [
    Row(
        Pair(_DEVICES, RESOURCE_CLAIM, ADD),
        "the claim of one comes",
        (node("n1"), device_class(), gpus("n1", "gpu-0")),
        (_A, _B),
        comes(claim("c1")),
        placed=("a",),
    ),
    Row(
        Pair(_DEVICES, RESOURCE_CLAIM, UPDATE),
        "another claim gives its device back",
        _FULL,
        (_A, _B),
        becomes(claim("taken", version="2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, RESOURCE_CLAIM, UPDATE),
        "another claim gets a consumer",
        _FULL,
        (_A, _B),
        becomes(
            claim(
                "taken",
                version="2",
                allocation=allocation("n1", "gpu-0"),
                reserved_for=[using("taken", name="c")],
            )
        ),
    ),
    Row(
        Pair(_DEVICES, POD, CLAIM_MADE),
        "the claim of one is made from its template",
        (node("n1"), device_class(), gpus("n1", "gpu-0"), claim("made", owner=_FROM_TEMPLATE)),
        (_FROM_TEMPLATE, using(name="b", templates=["t"])),
        updates("a", resource_claim_statuses=made_for(("t", "made")).resource_claim_statuses),
        placed=("a",),
    ),
    Row(
        Pair(_DEVICES, DEVICE_CLASS, ADD),
        "the class comes",
        (node("n1"), gpus("n1", "gpu-0"), *_CLAIMS),
        (_A, _B),
        comes(device_class()),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, DEVICE_CLASS, UPDATE),
        "the class selects the device",
        (node("n1"), device_class("gpu", "false"), gpus("n1", "gpu-0"), *_CLAIMS),
        (_A, _B),
        becomes(device_class()),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, RESOURCE_SLICE, ADD),
        "a device comes",
        (node("n1"), device_class(), *_CLAIMS),
        (_A, _B),
        comes(gpus("n1", "gpu-0")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, RESOURCE_SLICE, UPDATE),
        "the slice has another device",
        _FULL,
        (_A, _B),
        becomes(gpus("n1", "gpu-0", "gpu-1", generation=2)),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, NODE, ADD),
        "a node comes that reaches the device",
        _ELSEWHERE,
        (_A, _B),
        comes(node("n2", zone="z2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, NODE, NODE_LABEL),
        "the node moves to where the device is",
        _ELSEWHERE,
        (_A, _B),
        becomes(node("n1", zone="z2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_DEVICES, NODE, ALLOCATABLE),
        "the node grows",
        _FULL,
        (_A, _B),
        becomes(node("n1", cpu=8)),
        tried=("a", "b"),
    ),
    Row(
        Pair(_FIT, DEVICE_CLASS, ADD),
        "a class comes whose devices stand for what one wants",
        (node("n1"), gpus("n1", "gpu-0")),
        _WANT_RESOURCES,
        comes(device_class(extendedResourceName="example.com/gpu")),
        placed=("a",),
    ),
    Row(
        Pair(_FIT, DEVICE_CLASS, UPDATE),
        "the devices of a class stand for what one wants",
        (node("n1"), gpus("n1", "gpu-0"), device_class()),
        _WANT_RESOURCES,
        becomes(device_class(extendedResourceName="example.com/gpu")),
        placed=("a",),
    ),
]
