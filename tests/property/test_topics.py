"""Topics spare only hints that would have answered SKIP, for every plugin that registers topics.

Pods and objects are random, and of few names, so that they often meet. What the registrations of
claims, drivers and own pods answer is compared with a rule written down here, too: their hints are
derived from the topics, and would be wrong in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.device_objects import (
    AllocationResult,
    ClaimMeta,
    ResourceClaim,
    ResourceClaimStatus,
)
from stowplan.api.objects import ObjectMeta, Pod
from stowplan.api.resources import RESOURCE_CLAIMS
from stowplan.api.storage_objects import (
    CSIDriver,
    CSIDriverSpec,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
)
from stowplan.cluster.catalog import Catalog
from stowplan.framework.handle import Handle
from stowplan.plugins.registry import IN_TREE
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint, Topics
from stowplan.testing import node, pod
from tests.examples import SHARE, examples
from tests.unit.plugins.volume_kit import csi_node, storage_class, volume
from tests.unit.queue.queue_kit import PROFILE, Bench, on

Change: TypeAlias = tuple[object, object]

#: An event of no real kind, after which pods are gated.
_GATES = ClusterEvent("Gates", ActionType.ADD)

NAMES, NAMESPACES = ["a", "b"], ["default", "other"]
#: `a-v0` is the claim of the ephemeral volume `v0` of the pod `a`.
CLAIMS = ["c", "d", "a-v0", "b-v1"]
KEY = "zone"

_name, _namespace = st.sampled_from(NAMES), st.sampled_from(NAMESPACES)
_meta = st.builds(ObjectMeta, name=_name)


def _sometimes(things: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), things)


_sources: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(CLAIMS[:3]).map(lambda name: {"persistentVolumeClaim": {"claimName": name}}),
    st.sampled_from(
        [
            {"ephemeral": {}},
            {"emptyDir": {}},
            {"csi": {"driver": "a"}},
            {"gcePersistentDisk": {"pdName": "g"}},
            {"gcePersistentDisk": {"pdName": "g", "readOnly": True}},
            {"rbd": {"monitors": ["m"], "image": "i"}},
            {"rbd": {"monitors": ["l", "m"], "image": "i", "readOnly": True}},
        ]
    ),
)
_ports = st.builds(
    lambda port, address, protocol: {
        "containerPort": 80,
        "hostPort": port,
        "protocol": protocol,
        **({"hostIP": address} if address else {}),
    },
    *(st.sampled_from(values) for values in ([80, 81], ["", "10.0.0.1"], ["TCP", "UDP"])),
)
_field = st.builds(
    lambda operator, names: {"key": "metadata.name", "operator": operator, "values": names},
    st.sampled_from(["In", "In", "In", "NotIn", "Exists"]),
    st.sampled_from([["a"], ["b"], ["n1"], ["a", "b"]]),
)
_expression = st.sampled_from(
    [
        {"key": KEY, "operator": "In", "values": ["a"]},
        {"key": KEY, "operator": "Exists"},
        {"key": KEY, "operator": "Gt", "values": ["no number"]},
    ]
)
_terms = st.lists(
    st.builds(
        lambda fields, expressions: {"matchFields": fields, "matchExpressions": expressions},
        st.lists(_field, max_size=2),
        st.lists(_expression, max_size=1),
    ),
    min_size=1,
    max_size=2,
)
#: As the controller of DaemonSets writes them.
_of_daemons = st.sampled_from(["a", "b"]).map(
    lambda name: [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
)
_affinity = st.one_of(_terms, _of_daemons).map(
    lambda terms: {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
)
_spread = st.builds(
    lambda values: [
        {
            "topologyKey": KEY,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": values},
        }
    ],
    st.sampled_from([{}, {"app": "a"}]),
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod of the UID that its name stands for."""
    name, namespace = draw(_name), draw(_namespace)
    spec: dict[str, Any] = {}
    if (affinity := draw(_sometimes(_affinity))) is not None:
        spec["affinity"] = affinity
    if (spread := draw(_sometimes(_spread))) is not None:
        spec["topology_spread_constraints"] = spread
    if draw(st.booleans()):
        spec |= {"host_network": True, "host_users": draw(st.booleans())}
    sources = draw(st.lists(_sources, max_size=2))
    return pod(
        name,
        namespace=namespace,
        uid=f"{namespace}-{name}",
        node=draw(st.sampled_from(["", "", "n1"])),
        labels=draw(st.sampled_from([None, {"app": "a"}])),
        claims={"device": claimed} if (claimed := draw(_sometimes(_name))) else None,
        tolerations=draw(st.sampled_from([(), ("node.kubernetes.io/unschedulable",)])),
        nominated_node=draw(st.sampled_from(["", "n1"])),
        volumes=[{"name": f"v{number}", **source} for number, source in enumerate(sources)],
        containers=[{"name": "c", "ports": draw(st.lists(_ports, max_size=2))}],
        **spec,
    )


_pins = st.sampled_from([f"rf.scheduler.{PROFILE}.default/a", f"rf.scheduler.{PROFILE}/b", KEY])
#: What an event is about, by its kind.
OBJECTS: dict[str, st.SearchStrategy[Any]] = {
    EventResource.POD: pods(),
    EventResource.NODE: st.builds(
        lambda name, labels, cordoned, features: node(
            name, labels=labels, unschedulable=cordoned, declared_features=features
        ),
        _name,
        st.dictionaries(_pins, st.sampled_from(["", "a"]), max_size=3),
        st.booleans(),
        st.sampled_from([(), ("UserNamespacesHostNetworkSupport",)]),
    ),
    EventResource.PERSISTENT_VOLUME_CLAIM: st.builds(
        lambda name, namespace, bound: PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace=namespace),
            spec=PersistentVolumeClaimSpec(volume_name=bound),
        ),
        st.sampled_from(CLAIMS),
        _namespace,
        st.sampled_from(["", "pv"]),
    ),
    EventResource.PERSISTENT_VOLUME: st.sampled_from(
        [volume("pv"), volume("pv", {"topology.kubernetes.io/zone": "a"})]
    ),
    EventResource.STORAGE_CLASS: st.sampled_from(
        [storage_class("a"), storage_class("a", mode="Immediate")]
    ),
    EventResource.CSI_NODE: st.sampled_from([csi_node("n1", a=1), csi_node("n1", a=2)]),
    EventResource.CSI_DRIVER: st.builds(
        CSIDriver,
        metadata=_meta,
        spec=st.builds(CSIDriverSpec, storage_capacity=st.booleans()),
    ),
    EventResource.CSI_STORAGE_CAPACITY: st.builds(
        CSIStorageCapacity, metadata=_meta, capacity=st.sampled_from(["1Gi", "2Gi"])
    ),
    EventResource.RESOURCE_CLAIM: st.builds(
        lambda name, namespace, allocation: ResourceClaim(
            metadata=ClaimMeta(name=name, namespace=namespace, uid=f"{namespace}-{name}"),
            status=ResourceClaimStatus(allocation=allocation),
        ),
        _name,
        _namespace,
        _sometimes(st.just(AllocationResult())),
    ),
}


def _registered() -> dict[str, tuple[str, EventHint]]:
    """Every registration of an in-tree plugin that has topics, by plugin and resource."""
    catalog = Catalog()
    for namespace in NAMESPACES:
        meta = ClaimMeta(name="a", namespace=namespace, uid=f"{namespace}-a")
        catalog[RESOURCE_CLAIMS].set(ResourceClaim(metadata=meta))
    found: dict[str, tuple[str, EventHint]] = {}
    for kind in IN_TREE:
        plugin = kind(None, Handle(profile=PROFILE, catalog=catalog))
        for entry in plugin.events() or ():
            if entry.topics is not None:
                name = f"{plugin.name} {entry.event.resource}"
                while name in found:
                    name += "'"
                found[name] = (plugin.name, entry)
    return found


REGISTERED = _registered()


def changes(entry: EventHint) -> st.SearchStrategy[Change]:
    """Old and new objects of the event; rarely, something that is of no known kind."""
    things = OBJECTS[entry.event.resource]
    junk = st.just("junk")
    kinds: list[st.SearchStrategy[Change]] = []
    if entry.event.action & ActionType.ADD:
        kinds += [st.tuples(st.none(), things)] * 4 + [st.tuples(st.none(), junk)]
    if entry.event.action & ActionType.UPDATE:
        kinds += [st.tuples(things, things)] * 8
        kinds += [st.tuples(junk, things), st.tuples(things, junk)]
    if entry.event.action & ActionType.DELETE:
        kinds += [st.tuples(things, st.none())] * 4 + [st.tuples(junk, st.none())]
    return st.one_of(kinds)


def _uses(pod: Pod, claim: Any, *, ephemeral: bool) -> bool:
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    return any(
        each.persistent_volume_claim.claim_name == claim.metadata.name
        if each.persistent_volume_claim is not None
        else ephemeral
        and each.ephemeral is not None
        and f"{pod.metadata.name}-{each.name}" == claim.metadata.name
        for each in pod.spec.volumes or ()
    )


def _own_pod(pod: Pod, _old: Any, new: Any) -> bool:
    return bool(pod.uid == new.uid)


def _named_claim(pod: Pod, _old: Any, new: Any) -> bool:
    return _uses(pod, new, ephemeral=False)


def _any_claim(pod: Pod, _old: Any, new: Any) -> bool:
    return _uses(pod, new, ephemeral=True)


def _own_driver(pod: Pod, old: Any, new: Any) -> bool:
    return (
        bool(old.spec.storage_capacity)
        and not new.spec.storage_capacity
        and any(
            each.csi and each.csi.driver == new.metadata.name for each in pod.spec.volumes or ()
        )
    )


#: Whether an event with objects of the right kind queues a pod.
RULES: dict[str, Callable[[Pod, Any, Any], bool]] = {
    "SchedulingGates Pod": _own_pod,
    "TaintToleration Pod": _own_pod,
    "VolumeRestrictions PersistentVolumeClaim": _named_claim,
    "VolumeZone PersistentVolumeClaim": _named_claim,
    "NodeVolumeLimits PersistentVolumeClaim": _any_claim,
    "VolumeBinding PersistentVolumeClaim": _any_claim,
    "VolumeBinding storage.k8s.io/CSIDriver": _own_driver,
}
#: Help every pod or none, so that their topics never tell pods apart.
ALL_OR_NONE = {
    *("NodeUnschedulable Node", "NodeDeclaredFeatures Node"),
    *("VolumeZone storage.k8s.io/StorageClass", "VolumeZone PersistentVolume"),
    *("NodeVolumeLimits storage.k8s.io/CSINode", "NodeVolumeLimits Pod"),
    *("VolumeBinding storage.k8s.io/StorageClass", "VolumeBinding storage.k8s.io/CSINode"),
    "VolumeBinding storage.k8s.io/CSIStorageCapacity",
}


def _meet(topics: Topics, pod: Pod, old: object, new: object) -> bool:
    wanted, about = topics.of_pod(pod), topics.of_event(old, new)
    if about is None or not about:
        return about is None
    return wanted is None or not set(about).isdisjoint(wanted)


def test_these_registrations_have_topics() -> None:
    assert REGISTERED.keys() == ALL_OR_NONE | RULES.keys() | {
        *("NodeUnschedulable Pod", "NodeDeclaredFeatures Pod", "NodeAffinity Node"),
        *("NodePorts Pod", "VolumeRestrictions Pod", "PodTopologySpread Pod"),
        *("DynamicResources resource.k8s.io/ResourceClaim", "DynamicResources Pod"),
        "StaticPlacement Node",
    }


@pytest.mark.parametrize("name", REGISTERED)
def test_a_pod_without_a_topic_of_the_event_would_have_been_skipped(name: str) -> None:
    _, entry = REGISTERED[name]
    topics, hint = entry.topics, entry.hint
    assert topics is not None
    assert hint is not None
    seen: Counter[str] = Counter()

    @examples(60)
    @given(waiting=st.lists(pods(), min_size=4, max_size=6), change=changes(entry))
    def check(waiting: list[Pod], change: Change) -> None:
        for each in waiting:
            meets, answer = _meet(topics, each, *change), hint(each, *change)
            assert meets or answer is Hint.SKIP
            seen["spared" if not meets else answer.value] += 1
            if name in RULES and "junk" not in change:
                assert (answer is Hint.QUEUE) is RULES[name](each, *change)

    check()
    if SHARE == 1:  # a few examples need not have both
        assert seen["spared"]
        assert seen["Queue"]


def _moved(
    plugin: str, entry: EventHint, waiting: list[Pod], gated: set[str], change: Change
) -> list[str]:
    """The pods that an event moves after the plugin rejected them.

    Those of the names in `gated` were rejected by another plugin, and gated by this one then.
    """
    bench = Bench(hints={plugin: [entry], "Other": [on(entry.event), on(_GATES)]})
    for each in waiting:
        bench.rejected(each, "Other" if each.metadata.name in gated else plugin)
    bench.gates = dict.fromkeys(gated, plugin)
    bench.queue.move_all(_GATES, None, None)
    assert set(bench.names("gated")) == {each.metadata.name for each in waiting} & gated
    bench.gates = {}
    bench.queue.move_all(_event(entry, *change), *change)
    return sorted(bench.names("backoff"))


def _event(entry: EventHint, old: object, new: object) -> ClusterEvent:
    """An event of the registration, as specific as those that happen."""
    action = ActionType.ADD if old is None else ActionType.DELETE
    if old is not None and new is not None:
        action = next(each for each in ActionType.UPDATE & entry.event.action)
    return ClusterEvent(entry.event.resource, action)


@examples(100)
@given(data=st.data(), name=st.sampled_from(sorted(REGISTERED)))
def test_a_queue_moves_the_same_pods_with_and_without_topics(
    data: st.DataObject, name: str
) -> None:
    plugin, entry = REGISTERED[name]
    waiting = data.draw(st.lists(pods(), max_size=5, unique_by=lambda each: each.key))
    change = data.draw(changes(entry))
    gated = data.draw(st.sets(_name))
    with_topics = _moved(plugin, entry, waiting, gated, change)
    without = EventHint(entry.event, entry.hint)
    assert with_topics == _moved(plugin, without, waiting, gated, change)
