"""Rows of the plugins that look at volumes, except VolumeBinding."""

from __future__ import annotations

from typing import Any

from stowplan.api.objects import Pod
from stowplan.testing import node
from stowplan.testing.builders import ZONE_LABEL
from tests.unit.plugins.volume_binding_kit import claim, volume
from tests.unit.plugins.volume_kit import AT_ONCE, WAITS, attachment, csi_node, storage_class
from tests.unit.plugins.volume_kit import using as _using
from tests.unit.scheduler.requeue.matrix import Change, Changeable, Pair, Row, becomes, comes, goes
from tests.unit.scheduler.requeue.registered_events import (
    ADD,
    ATTACHMENT,
    CLASS,
    CSI_NODE,
    DELETE,
    NODE,
    NODE_LABEL,
    POD,
    PV,
    PVC,
    UPDATE,
)

DRIVER = "disks.example.com"


def _with(name: str, *volumes: str | dict[str, Any], **more: Any) -> Pod:
    return _using(*volumes, name=name, **more)


def _ebs(name: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name}}


def _disk(name: str, **more: Any) -> Any:
    """A volume of the driver, bound to the claim of the same name."""
    ref = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    csi = {"driver": DRIVER, "volumeHandle": name}
    return volume(name, csi=csi, claim_ref=ref, phase="Bound", **more)


# VolumeRestrictions

_RESTRICTIONS = "VolumeRestrictions"
_DISKS_IN_USE = (
    node("n1"),
    _with("one", _ebs("disk-1"), node="n1"),
    _with("two", _ebs("disk-2"), node="n1"),
)
_WANTS_DISKS = (_with("a", _ebs("disk-1")), _with("b", _ebs("disk-2")))
_ONE_POD_ONLY = (
    node("n1"),
    claim("mine", bound_to="mine", accessModes=["ReadWriteOncePod"]),
    _disk("mine"),
    _with("holder", "mine", node="n1"),
    _with("other", node="n1"),
)
VOLUME_RESTRICTIONS = [
    Row(
        Pair(_RESTRICTIONS, POD, DELETE),
        "who had the disk of one goes",
        _DISKS_IN_USE,
        _WANTS_DISKS,
        goes("one"),
        placed=("a",),
    ),
    Row(
        Pair(_RESTRICTIONS, POD, DELETE),
        "who had the claim for itself goes",
        _ONE_POD_ONLY,
        (_with("a", "mine"),),
        goes("holder"),
        placed=("a",),
    ),
    Row(
        Pair(_RESTRICTIONS, POD, DELETE),
        "a pod without volumes goes",
        _ONE_POD_ONLY,
        (_with("a", "mine"),),
        goes("other"),
    ),
    Row(
        Pair(_RESTRICTIONS, NODE, ADD),
        "a node comes",
        _DISKS_IN_USE,
        _WANTS_DISKS,
        comes(node("n2")),
        placed=("a", "b"),
    ),
    Row(
        Pair(_RESTRICTIONS, PVC, ADD),
        "the claim of one comes",
        (node("n1"), _disk("c1")),
        (_with("a", "c1"), _with("b", "c2")),
        comes(claim("c1", bound_to="c1")),
        placed=("a",),
    ),
]

# NodeVolumeLimits: the node takes one volume of the driver, and has one.

_LIMITS = "NodeVolumeLimits"
_CLAIMS = tuple(
    thing for name in ("held", "c1", "c2") for thing in (_disk(name), claim(name, bound_to=name))
)
_FULL_OF_DISKS = (
    *_CLAIMS,
    node("n1"),
    csi_node("n1", disks_example_com=1),
    _with("holder", "held", node="n1"),
    _with("other", node="n1"),
)
_ATTACHED = attachment("old", "n1", DRIVER, "gone")
_FULL_OF_ATTACHMENTS = (
    *_CLAIMS,
    node("n1"),
    csi_node("n1", disks_example_com=1, ebs_csi_aws_com=0),
    _disk("gone"),
    _ATTACHED,
)
_WANTS_CLAIMS = (_with("a", "c1"), _with("b", "c2"))


def made_anew(name: str, **fields: Any) -> Change:
    """A claim that is deleted and created again: its deletion interests nobody."""

    def change(world: Changeable) -> None:
        world.remove(claim(name, **fields))
        world.watch()
        world.add(claim(name, **fields))

    return change


NODE_VOLUME_LIMITS = [
    Row(
        Pair(_LIMITS, CSI_NODE, ADD),
        "another node tells its limits",
        _FULL_OF_DISKS,
        _WANTS_CLAIMS,
        comes(csi_node("n2", disks_example_com=1)),
        tried=("a", "b"),
    ),
    Row(
        Pair(_LIMITS, CSI_NODE, UPDATE),
        "the limit is raised",
        _FULL_OF_DISKS,
        _WANTS_CLAIMS,
        becomes(csi_node("n1", disks_example_com=3)),
        placed=("a", "b"),
    ),
    Row(
        Pair(_LIMITS, CSI_NODE, UPDATE),
        "the limit is lowered",
        _FULL_OF_DISKS,
        _WANTS_CLAIMS,
        becomes(csi_node("n1", disks_example_com=0)),
    ),
    Row(
        Pair(_LIMITS, POD, DELETE),
        "a pod with a claim goes",
        _FULL_OF_DISKS,
        (_with("a", "c1"),),
        goes("holder"),
        placed=("a",),
    ),
    Row(
        Pair(_LIMITS, POD, DELETE),
        "a pod without volumes goes",
        _FULL_OF_DISKS,
        _WANTS_CLAIMS,
        goes("other"),
    ),
    Row(
        Pair(_LIMITS, PVC, ADD),
        "the claim of one is made anew",
        _FULL_OF_DISKS,
        _WANTS_CLAIMS,
        made_anew("c1", bound_to="c1"),
        tried=("a",),
    ),
    Row(
        Pair(_LIMITS, ATTACHMENT, DELETE),
        "a volume is detached by the driver of one",
        _FULL_OF_ATTACHMENTS,
        (_with("a", "c1"), _with("b", _ebs("vol-1"))),
        goes(_ATTACHED),
        placed=("a",),
    ),
]

# VolumeZone

_ZONE = "VolumeZone"
_ELSEWHERE = (
    node("n1", zone="z1"),
    claim("c1", bound_to="v1"),
    claim("c2", bound_to="v2"),
    volume("v1", labels={ZONE_LABEL: "z2"}),
    volume("v2", labels={ZONE_LABEL: "z3"}),
)
VOLUME_ZONE = [
    Row(
        Pair(_ZONE, NODE, ADD),
        "a node comes in the zone of one",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        comes(node("n2", zone="z2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_ZONE, NODE, NODE_LABEL),
        "the node moves to the zone of one",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        becomes(node("n1", zone="z2")),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_ZONE, PV, ADD),
        "a volume comes",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        comes(volume("v3", labels={ZONE_LABEL: "z1"})),
        tried=("a", "b"),
    ),
    Row(
        Pair(_ZONE, PV, UPDATE),
        "a volume moves to the zone of the node",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        becomes(volume("v1", labels={ZONE_LABEL: "z1"})),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair(_ZONE, PV, UPDATE),
        "a volume grows",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        becomes(volume("v1", size="50Gi", labels={ZONE_LABEL: "z2"})),
    ),
    Row(
        Pair(_ZONE, PVC, ADD),
        "the claim of one is made anew",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        made_anew("c1", bound_to="v1"),
        tried=("a",),
    ),
    Row(
        Pair(_ZONE, PVC, UPDATE),
        "the claim of one changes",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        becomes(claim("c1", bound_to="v1", version="2")),
        tried=("a",),
    ),
    Row(
        Pair(_ZONE, CLASS, ADD),
        "a class comes that waits for pods",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        comes(storage_class("late", DRIVER, WAITS)),
        tried=("a", "b"),
    ),
    Row(
        Pair(_ZONE, CLASS, ADD),
        "a class comes that does not wait",
        _ELSEWHERE,
        _WANTS_CLAIMS,
        comes(storage_class("eager", DRIVER, AT_ONCE)),
    ),
]

ROWS = [*VOLUME_RESTRICTIONS, *NODE_VOLUME_LIMITS, *VOLUME_ZONE]
