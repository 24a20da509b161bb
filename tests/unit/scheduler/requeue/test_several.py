"""Pods with more than one reason to wait, and changes that are nobody's business."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.api.objects import Condition, Namespace, ObjectMeta
from stowplan.api.workload_objects import SelectingSpec, Service
from stowplan.testing import node, pod
from tests.unit.plugins.dra.device_kit import claim
from tests.unit.scheduler.requeue.matrix import Change, Changeable, becomes, comes, goes, updates
from tests.unit.scheduler.requeue.world import World

# Several plugins rejected the pod: each one's events bring it back, and no others


def rejected_by_two() -> World:
    world = World([node("red", taints=["team=red:NoSchedule"]), node("small", cpu="1")])
    world.add(pod("a", cpu="2"))
    world.attempt_all()
    assert world.queued("a").rejectors == {"TaintToleration", "NodeResourcesFit"}
    world.clock.advance(60)
    return world


@pytest.mark.parametrize(
    ("change", "place"),
    [
        pytest.param(becomes(node("red")), "active", id="the taint goes"),
        pytest.param(becomes(node("small", cpu="2")), "active", id="the node grows"),
        pytest.param(becomes(node("small", cpu="500m")), "unschedulable", id="the node shrinks"),
        pytest.param(
            becomes(node("small", cpu="1", labels={"disk": "ssd"})),
            "unschedulable",
            id="a label that nobody asked for",
        ),
        pytest.param(updates("a", labels={"x": "y"}), "unschedulable", id="its own label"),
        pytest.param(
            # Too small for the pod, but its taints were no reason to stay away.
            comes(node("tiny", cpu="1")),
            "active",
            id="one plugin of two is enough",
        ),
    ],
)
def test_the_events_of_every_rejecting_plugin_count(change: Change, place: str) -> None:
    world = rejected_by_two()
    change(world)
    assert world.where("a") == place


def test_a_plugin_that_narrowed_the_nodes_is_a_reason_too() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n1", "n2")]
    terms = {"nodeSelectorTerms": [{"matchFields": [field]} for field in fields]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    world = World([node("n1", cpu="1"), node("other")])
    world.add(pod("a", cpu="2", affinity=affinity))
    world.attempt_all()
    assert world.queued("a").rejectors == {"NodeAffinity", "NodeResourcesFit"}
    world.clock.advance(60)
    world.replace(node("n1", cpu="1500m"))
    assert world.where("a") == "unschedulable"
    world.add(node("n3", cpu="1"))
    assert world.where("a") == "unschedulable"
    world.add(node("n2", cpu="1"))
    assert world.where("a") == "active", "too small, but NodeAffinity does not know that"


def test_a_second_attempt_forgets_the_reasons_of_the_first() -> None:
    world = rejected_by_two()
    world.replace(node("red", cpu="1"))
    world.attempt_all()
    assert world.queued("a").rejectors == {"NodeResourcesFit"}
    world.clock.advance(60)
    world.add(node("blue", cpu="1", taints=["team=blue:NoSchedule"]))
    world.replace(node("blue", cpu="1"))
    assert world.where("a") == "active", "who waits for nodes hears of taints"


# Changes that nobody waits for

WAITING = (
    pod("by-taint", node_selector={"kubernetes.io/hostname": "red"}),
    pod("by-label", node_selector={"disk": "ssd"}, tolerations=[{"operator": "Exists"}]),
    pod("by-size", cpu="64", tolerations=[{"operator": "Exists"}]),
    pod("by-claims", resource_claims=[{"name": "gpu", "resourceClaimName": "missing"}]),
    pod("by-gate", gates=["later"]),
)


def _beats(name: str) -> Change:
    """The kubelet says that it is alive, has one more image, and is short of memory."""

    def change(world: Changeable) -> None:
        old = world.node(name)
        conditions = (
            Condition(type="Ready", status="True", reason="again"),
            Condition(type="MemoryPressure", status="True"),
        )
        images = node(images={"example.test/main:1": 1000}).status.images
        status = msgspec.structs.replace(old.status, conditions=conditions, images=images)
        world.replace(msgspec.structs.replace(old, status=status))

    return change


def _is_annotated(name: str) -> Change:
    def change(world: Changeable) -> None:
        old = world.node(name)
        metadata = msgspec.structs.replace(old.metadata, annotations={"note": "changed"})
        world.replace(msgspec.structs.replace(old, metadata=metadata))

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_beats("n1"), id="a node's heartbeat"),
        pytest.param(_is_annotated("n1"), id="a node's annotations"),
        pytest.param(becomes(node("n1", unschedulable=True)), id="a node is cordoned"),
        pytest.param(goes("spare"), id="a node goes"),
        pytest.param(comes(pod("new", node="n1")), id="a placed pod comes"),
        pytest.param(updates("runs", phase="Running"), id="a placed pod runs"),
        pytest.param(comes(pod("foreign", scheduler_name="other")), id="a foreign pod comes"),
        pytest.param(updates("stranger", labels={"x": "y"}), id="a foreign pod changes"),
        pytest.param(goes("stranger"), id="a foreign pod goes that has no place"),
        pytest.param(updates("by-size", annotations={"x": "y"}), id="a waiting pod's annotation"),
        pytest.param(goes("by-gate"), id="a waiting pod goes"),
        pytest.param(
            comes(Namespace(metadata=ObjectMeta(name="new", labels={"x": "y"}))), id="a namespace"
        ),
        pytest.param(
            comes(
                Service(
                    metadata=ObjectMeta(name="svc", namespace="default"),
                    spec=SelectingSpec(selector={"x": "y"}),
                )
            ),
            id="a service",
        ),
    ],
)
def test_changes_that_help_nobody_bring_nobody_back(change: Change) -> None:
    cluster = [
        node("n1"),
        node("spare"),
        node("red", taints=["team=red:NoSchedule"]),
        pod("runs", node="n1"),
        pod("stranger", scheduler_name="other", nominated_node="n1"),
    ]
    world = World([*cluster, *WAITING])
    world.attempt_all()
    world.clock.advance(60)
    change(world)
    for waiting in WAITING:
        name = waiting.metadata.name
        if name in world.pods:
            is_gated = name in ("by-gate", "by-claims")
            assert world.where(name) == ("gated" if is_gated else "unschedulable"), name
    assert world.attempt_all() == {}


def test_a_pod_without_its_claim_is_gated_until_the_claim_comes() -> None:
    world = World([node("n1"), WAITING[3]])
    assert world.attempt_all() == {}
    assert world.queued("by-claims").rejectors == {"DynamicResources"}
    world.clock.advance(60)
    world.add(node("n2", labels={"x": "y"}))
    world.replace(node("n1", cpu="64", taints=["soft=:PreferNoSchedule"]))
    world.clock.advance(240)
    world.queue.flush_unschedulable()
    assert world.where("by-claims") == "gated"
    world.add(claim("missing"))
    assert world.where("by-claims") == "active"
