"""Rows of VolumeBinding."""

from __future__ import annotations

from typing import Any

from stowplan.testing import node
from tests.unit.plugins.volume_binding_kit import (
    STATIC,
    claim,
    csi_node,
    driver,
    pool,
    storage_class,
    using,
    volume,
)
from tests.unit.scheduler.requeue.matrix import Pair, Row, becomes, comes
from tests.unit.scheduler.requeue.registered_events import (
    ADD,
    CAPACITY,
    CLASS,
    CSI_DRIVER,
    CSI_NODE,
    NODE,
    NODE_LABEL,
    PV,
    PVC,
    UPDATE,
)
from tests.unit.scheduler.requeue.rows_volumes import made_anew

_BINDING = "VolumeBinding"
_A, _B = using("c1", name="a"), using("c2", name="b")

# No volume for claims that take only existing ones.
_NO_VOLUMES = (
    node("n1", zone="z1"),
    STATIC,
    claim("c1", storage_class="static"),
    claim("c2", storage_class="static"),
)
# Volumes that are out of reach.
_OUT_OF_REACH = (
    node("n1", zone="z1"),
    STATIC,
    claim("c1", bound_to="v1", storage_class="static"),
    claim("c2", bound_to="v2", storage_class="static"),
    volume("v1", storage_class="static", zones=["z2"]),
    volume("v2", storage_class="static", zones=["z3"]),
)
# Volumes that can be made in another zone only.
_MADE_ELSEWHERE = (
    node("n1", zone="z1"),
    storage_class(zones=["z2"]),
    claim("c1"),
    claim("c2"),
)
# Volumes that could be made, had the driver room.
_POOL: Any = {"matchLabels": {"topology.kubernetes.io/zone": "z1"}}
_NO_ROOM = (
    node("n1", zone="z1"),
    storage_class(),
    driver(capacity=True),
    pool(_POOL, capacity="100Mi"),
    claim("c1"),
    claim("c2"),
)
_INLINE = using(
    "c1", name="a", volumes=[{"name": "inline", "csi": {"driver": "disks.example.com"}}]
)
_UNBOUND = (
    node("n1", zone="z1"),
    storage_class("now", mode="Immediate"),
    volume("v1", storage_class="now"),
    claim("c1", storage_class="now"),
    claim("c2", storage_class="now"),
)

ROWS = [
    Row(
        Pair(_BINDING, CLASS, ADD),
        "the class of the claims comes",
        (node("n1"), claim("c1"), claim("c2", storage_class="other")),
        (_A, _B),
        comes(storage_class()),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_BINDING, CLASS, UPDATE),
        "the class allows the zone",
        _MADE_ELSEWHERE,
        (_A, _B),
        becomes(storage_class(zones=["z1"])),
        placed=("a", "b"),
    ),
    Row(
        Pair(_BINDING, CLASS, UPDATE),
        "the class allows the same zones as before",
        _MADE_ELSEWHERE,
        (_A, _B),
        becomes(storage_class(zones=["z2"], labels={"colour": "red"})),
    ),
    Row(
        Pair(_BINDING, PVC, ADD),
        "the claim of one is made anew",
        _NO_VOLUMES,
        (_A, _B),
        made_anew("c1", storage_class="static"),
        tried=("a",),
    ),
    Row(
        Pair(_BINDING, PVC, UPDATE),
        "the claim of one is bound",
        _UNBOUND,
        (_A, _B),
        becomes(claim("c1", storage_class="now", bound_to="v1", version="2")),
        placed=("a",),
    ),
    Row(
        Pair(_BINDING, PV, ADD),
        "a volume comes",
        _NO_VOLUMES,
        (_A, _B),
        comes(volume("v1", storage_class="static")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_BINDING, PV, UPDATE),
        "a volume becomes available",
        (*_NO_VOLUMES, volume("v1", storage_class="static", size="1Mi")),
        (_A, _B),
        becomes(volume("v1", storage_class="static", version="2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_BINDING, NODE, ADD),
        "a node comes that reaches the volume of one",
        _OUT_OF_REACH,
        (_A, _B),
        comes(node("n2", zone="z2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_BINDING, NODE, NODE_LABEL),
        "the node moves to where the volume of one is",
        _OUT_OF_REACH,
        (_A, _B),
        becomes(node("n1", zone="z2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_BINDING, CSI_NODE, ADD),
        "a node tells its drivers",
        _OUT_OF_REACH,
        (_A, _B),
        comes(csi_node("n1")),
        tried=("a", "b"),
    ),
    Row(
        Pair(_BINDING, CSI_NODE, UPDATE),
        "a node tells that more has moved to CSI",
        (*_OUT_OF_REACH, csi_node("n1")),
        (_A, _B),
        becomes(csi_node("n1", "kubernetes.io/aws-ebs")),
        tried=("a", "b"),
    ),
    Row(
        Pair(_BINDING, CSI_NODE, UPDATE),
        "a node tells the same as before",
        (*_OUT_OF_REACH, csi_node("n1", "kubernetes.io/aws-ebs")),
        (_A, _B),
        becomes(csi_node("n1", "kubernetes.io/aws-ebs")),
    ),
    Row(
        Pair(_BINDING, CSI_DRIVER, UPDATE),
        "the driver of one publishes no capacity any more",
        _NO_ROOM,
        (_INLINE, _B),
        becomes(driver(capacity=False)),
        placed=("a",),
    ),
    Row(
        Pair(_BINDING, CAPACITY, ADD),
        "a pool with room comes",
        _NO_ROOM,
        (_A, _B),
        comes(pool(_POOL, name="other")),
        placed=("a", "b"),
    ),
    Row(
        Pair(_BINDING, CAPACITY, UPDATE),
        "the pool grows",
        _NO_ROOM,
        (_A, _B),
        becomes(pool(_POOL)),
        placed=("a", "b"),
    ),
    Row(
        Pair(_BINDING, CAPACITY, UPDATE),
        "the pool shrinks",
        _NO_ROOM,
        (_A, _B),
        becomes(pool(_POOL, capacity="10Mi")),
    ),
]
