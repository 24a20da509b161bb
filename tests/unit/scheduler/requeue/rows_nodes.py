"""Rows of the plugins that look at a node, or at the pod alone."""

from __future__ import annotations

from typing import Any

from stowplan.api.objects import Container, Pod, Toleration
from stowplan.testing import node, pod
from tests.unit.scheduler.requeue.matrix import Pair, Row, becomes, comes, goes, updates
from tests.unit.scheduler.requeue.registered_events import (
    ADD,
    ALLOCATABLE,
    DELETE,
    FEATURE,
    GATES,
    NODE,
    NODE_LABEL,
    POD,
    SCALE_DOWN,
    TAINT,
    TOLERATION,
    UPDATE,
)
from tests.unit.scheduler.requeue.world import World

CORDONED = "node.kubernetes.io/unschedulable"
DISK = {"disk": "ssd"}
FEATURED = "UserNamespacesHostNetworkSupport"


def _tolerating(key: str) -> tuple[Toleration, ...]:
    return (Toleration(key=key, operator="Exists"),)


def _on_port(name: str, port: int, protocol: str = "TCP", **more: Any) -> Pod:
    ports = [{"containerPort": port, "hostPort": port, "protocol": protocol}]
    return pod(name, containers=[{"name": "main", "ports": ports}], **more)


def _asking(cpu: str, memory: str = "128Mi") -> tuple[Container, ...] | None:
    """The containers of a pod that asks for this much."""
    return pod(cpu=cpu, memory=memory).spec.containers


# SchedulingGates

GATED = (pod("a", gates=["one", "two"]), pod("b", gates=["one"]))
SCHEDULING_GATES = [
    Row(
        Pair("SchedulingGates", POD, GATES),
        "its own last gate goes",
        (node("n1"),),
        GATED,
        updates("a", scheduling_gates=None),
        placed=("a",),
    ),
]

# NodeUnschedulable

_CLOSED = (node("n1", unschedulable=True),)
_ON_OPEN_NODES = (pod("a"), pod("b"))
NODE_UNSCHEDULABLE = [
    Row(
        Pair("NodeUnschedulable", NODE, ADD),
        "an open node comes",
        _CLOSED,
        _ON_OPEN_NODES,
        comes(node("n2")),
        placed=("a", "b"),
    ),
    Row(
        Pair("NodeUnschedulable", NODE, ADD),
        "another closed node comes",
        _CLOSED,
        _ON_OPEN_NODES,
        comes(node("n2", unschedulable=True)),
    ),
    Row(
        Pair("NodeUnschedulable", NODE, TAINT),
        "the node is opened",
        _CLOSED,
        _ON_OPEN_NODES,
        becomes(node("n1")),
        placed=("a", "b"),
    ),
    Row(
        Pair("NodeUnschedulable", NODE, TAINT),
        "a taint changes but the node stays closed",
        _CLOSED,
        _ON_OPEN_NODES,
        becomes(node("n1", unschedulable=True, taints=["soft=:PreferNoSchedule"])),
    ),
    Row(
        Pair("NodeUnschedulable", POD, TOLERATION),
        "it tolerates closed nodes",
        _CLOSED,
        _ON_OPEN_NODES,
        updates("a", tolerations=_tolerating(CORDONED)),
        placed=("a",),
    ),
    Row(
        Pair("NodeUnschedulable", POD, TOLERATION),
        "it tolerates something else",
        _CLOSED,
        _ON_OPEN_NODES,
        updates("a", tolerations=_tolerating("dedicated")),
    ),
]

# NodeName: a pod that names its node counts as bound to it, so no attempt ever ends this way. The
# registration is there for parity; it is tested on pods whose record says what one would.


def _rejected_by_node_name(world: World, waiting: Pod) -> None:
    world.add(waiting)
    queued = world.queue.pop()
    assert queued is not None
    queued.unschedulable_plugins = {"NodeName"}
    assert world.queue.add_unschedulable(queued)


NODE_NAME = [
    Row(
        Pair("NodeName", NODE, ADD),
        "a node comes",
        (node("n1"),),
        (pod("a"),),
        comes(node("n2")),
        placed=("a",),
        arrives=_rejected_by_node_name,
    ),
]

# TaintToleration

_TAINTED = (node("n1", taints=["team=red:NoSchedule"]),)
_TAINT_TOLERANT = pod("a", tolerations=["team=blue:NoSchedule"])
_TAINT_INTOLERANT = pod("b")
TAINT_TOLERATION = [
    Row(
        Pair("TaintToleration", NODE, ADD),
        "a node comes with a taint that one tolerates",
        _TAINTED,
        (_TAINT_TOLERANT, _TAINT_INTOLERANT),
        comes(node("n2", taints=["team=blue:NoSchedule"])),
        placed=("a",),
    ),
    Row(
        Pair("TaintToleration", NODE, TAINT),
        "the taint becomes one that one tolerates",
        _TAINTED,
        (_TAINT_TOLERANT, _TAINT_INTOLERANT),
        becomes(node("n1", taints=["team=blue:NoSchedule"])),
        placed=("a",),
    ),
    Row(
        Pair("TaintToleration", NODE, TAINT),
        "the taint goes",
        _TAINTED,
        (_TAINT_TOLERANT, _TAINT_INTOLERANT),
        becomes(node("n1")),
        placed=("a", "b"),
    ),
    Row(
        Pair("TaintToleration", POD, TOLERATION),
        "one tolerates the taint",
        _TAINTED,
        (_TAINT_TOLERANT, _TAINT_INTOLERANT),
        updates("b", tolerations=_tolerating("team")),
        placed=("b",),
    ),
    Row(
        Pair("TaintToleration", POD, TOLERATION),
        "one tolerates something else",
        _TAINTED,
        (_TAINT_TOLERANT, _TAINT_INTOLERANT),
        updates("b", tolerations=_tolerating("other")),
        tried=("b",),
    ),
]

# NodeAffinity

_PLAIN = (node("n1"),)
_CHOOSY = (pod("a", node_selector=DISK), pod("b", node_selector={"disk": "tape"}))
NODE_AFFINITY = [
    Row(
        Pair("NodeAffinity", NODE, ADD),
        "a node comes with the label",
        _PLAIN,
        _CHOOSY,
        comes(node("n2", labels=DISK)),
        placed=("a",),
    ),
    Row(
        Pair("NodeAffinity", NODE, NODE_LABEL),
        "the node gets the label",
        _PLAIN,
        _CHOOSY,
        becomes(node("n1", labels=DISK)),
        placed=("a",),
    ),
    Row(
        Pair("NodeAffinity", NODE, NODE_LABEL),
        "the node gets another label",
        _PLAIN,
        _CHOOSY,
        becomes(node("n1", labels={"colour": "red"})),
    ),
]

# NodePorts

_BUSY_PORTS = (node("n1"), _on_port("tcp", 80, node="n1"), _on_port("udp", 80, "UDP", node="n1"))
_WANTS_PORTS = (_on_port("a", 80), _on_port("b", 80, "UDP"))
NODE_PORTS = [
    Row(
        Pair("NodePorts", POD, DELETE),
        "who had the port of one goes",
        _BUSY_PORTS,
        _WANTS_PORTS,
        goes("tcp"),
        placed=("a",),
    ),
    Row(
        Pair("NodePorts", NODE, ADD),
        "a node comes",
        _BUSY_PORTS,
        _WANTS_PORTS,
        comes(node("n2")),
        placed=("a", "b"),
    ),
]

# NodeResourcesFit

_FULL = (node("n1", cpu="2", memory="2Gi"), pod("big", cpu="2", memory="1Gi", node="n1"))
_WANTS_CPU = (pod("a", cpu="1", memory=None), pod("b", cpu="8", memory=None))
_WANTS_BOTH = (pod("a", cpu="1", memory=None), pod("m", cpu=None, memory="1500Mi"))
NODE_RESOURCES_FIT = [
    Row(
        Pair("NodeResourcesFit", POD, DELETE),
        "a placed pod goes",
        _FULL,
        _WANTS_CPU,
        goes("big"),
        placed=("a",),
        tried=("b",),
    ),
    Row(
        Pair("NodeResourcesFit", POD, DELETE),
        "a pod goes that had only the promise of a node",
        (*_FULL, pod("next", priority=5, nominated_node="n1", gates=["later"])),
        (pod("a", cpu="1"), pod("b", cpu="1", priority=9, preemption_policy="Never")),
        goes("next"),
        tried=("a",),
    ),
    Row(
        Pair("NodeResourcesFit", POD, DELETE),
        "a placed pod of another scheduler goes",
        (*_FULL, pod("other", cpu="0", scheduler_name="other", node="n1")),
        _WANTS_CPU,
        goes("other"),
        tried=("a", "b"),
    ),
    Row(
        Pair("NodeResourcesFit", POD, SCALE_DOWN),
        "a placed pod gives back cpu but no memory",
        _FULL,
        _WANTS_BOTH,
        updates("big", containers=_asking("1", "1Gi")),
        placed=("a",),
    ),
    Row(
        Pair("NodeResourcesFit", POD, SCALE_DOWN),
        "one asks for less",
        _FULL,
        (pod("a", cpu="1", memory=None), pod("b", cpu="1", memory="128Mi")),
        updates("b", containers=_asking("0", "128Mi")),
        placed=("b",),
    ),
    Row(
        Pair("NodeResourcesFit", NODE, ADD),
        "a node comes that would take one",
        _FULL,
        _WANTS_CPU,
        comes(node("n2", cpu="1")),
        placed=("a",),
    ),
    Row(
        Pair("NodeResourcesFit", NODE, ALLOCATABLE),
        "the node offers more of what one wants",
        _FULL,
        _WANTS_CPU,
        becomes(node("n1", cpu="3", memory="2Gi")),
        placed=("a",),
    ),
    Row(
        Pair("NodeResourcesFit", NODE, ALLOCATABLE),
        "the node offers more of what nobody wants",
        _FULL,
        _WANTS_CPU,
        becomes(node("n1", cpu="2", memory="4Gi")),
    ),
    Row(
        Pair("NodeResourcesFit", NODE, ALLOCATABLE),
        "the node takes more pods",
        (node("n1", pods=1), pod("only", node="n1")),
        (pod("a"), pod("b", cpu="64")),
        becomes(node("n1", pods=2)),
        placed=("a",),
    ),
]

# NodeDeclaredFeatures

_FEATURELESS = (node("n1"),)
_NEEDS_FEATURE = (
    pod("a", host_network=True, host_users=False),
    pod("b", host_network=True, host_users=False),
)
NODE_DECLARED_FEATURES = [
    Row(
        Pair("NodeDeclaredFeatures", NODE, ADD),
        "a node comes that declares the feature",
        _FEATURELESS,
        _NEEDS_FEATURE,
        comes(node("n2", declared_features=[FEATURED])),
        placed=("a", "b"),
    ),
    Row(
        Pair("NodeDeclaredFeatures", NODE, FEATURE),
        "the node declares the feature",
        _FEATURELESS,
        _NEEDS_FEATURE,
        becomes(node("n1", declared_features=[FEATURED])),
        placed=("a", "b"),
    ),
    Row(
        Pair("NodeDeclaredFeatures", NODE, FEATURE),
        "the node declares another feature",
        _FEATURELESS,
        _NEEDS_FEATURE,
        becomes(node("n1", declared_features=["Other"])),
        tried=("a", "b"),
    ),
    Row(
        Pair("NodeDeclaredFeatures", POD, UPDATE),
        "one needs it no more",
        _FEATURELESS,
        _NEEDS_FEATURE,
        updates("a", host_users=None),
        placed=("a",),
    ),
    Row(
        Pair("NodeDeclaredFeatures", POD, UPDATE),
        "one still needs it",
        _FEATURELESS,
        _NEEDS_FEATURE,
        updates("a", annotations={"note": "changed"}),
    ),
]

# DefaultPreemption


def _held_by_preemption(world: World, waiting: Pod) -> None:
    world.handle.preempting.begin(waiting)
    world.add(waiting)


DEFAULT_PREEMPTION = [
    Row(
        Pair("DefaultPreemption", POD, DELETE),
        "a pod goes while others are evicted for it",
        (node("n1"), pod("other", node="n1")),
        (pod("a"),),
        goes("other"),
        arrives=_held_by_preemption,
    ),
]

ROWS = [
    *SCHEDULING_GATES,
    *NODE_UNSCHEDULABLE,
    *NODE_NAME,
    *TAINT_TOLERATION,
    *NODE_AFFINITY,
    *NODE_PORTS,
    *NODE_RESOURCES_FIT,
    *NODE_DECLARED_FEATURES,
    *DEFAULT_PREEMPTION,
]
