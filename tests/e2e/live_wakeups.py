"""Pods that are refused, stay, and find a node once the one thing happens that they wait for.

An epilogue to the live comparison, on two further nodes. Each act changes something that another
plugin has registered for, most of them objects that come after the scheduler has started. For
both schedulers the pod must be refused with the same words and then end on the same node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.e2e.live_storage import LIMITED, Request
from tests.parity.generate.dice import HOSTNAME, ZONE

Json = dict[str, Any]

_CORE = "/api/v1"
_HERE = "/api/v1/namespaces/default"
_STORAGE = "/apis/storage.k8s.io/v1"
#: Both nodes, or one of them.
_ANY, _FIRST, _SECOND = {"wake": "yes"}, {HOSTNAME: "wake-1"}, {HOSTNAME: "wake-2"}


@dataclass(frozen=True)
class Act:
    """`helpers` are placed first; `plugin` refuses `pod`; `change` makes room for it."""

    plugin: str
    pod: Json
    change: Request
    helpers: tuple[Json, ...] = ()


@dataclass
class Epilogue:
    """What must be there before the scheduler starts, then the nodes, then the acts."""

    preparations: list[Request] = field(default_factory=list)
    phases: dict[str, str] = field(default_factory=dict)
    nodes: list[Json] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)


def epilogue() -> Epilogue:
    made = Epilogue()
    made.nodes += [_node("wake-1", "w1"), _node("wake-2", "w2")]
    _of_volumes(made)
    _of_other_pods(made)
    _of_nodes(made)
    return made


def _of_volumes(made: Epilogue) -> None:
    def claim(name: str, class_name: str, size: str, phase: str, volume: str = "") -> Request:
        modes = ["ReadWriteOncePod"] if name == "w-once" else ["ReadWriteOnce"]
        spec = {
            "accessModes": modes,
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
        }
        made.phases[f"default/{name}"] = phase
        body = {
            "metadata": {"name": name},
            "spec": spec | ({"volumeName": volume} if volume else {}),
        }
        return Request(f"{_HERE}/persistentvolumeclaims", body)

    def disk(name: str, class_name: str, size: str, claim: str = "", **more: Any) -> Request:
        modes = ["ReadWriteOncePod"] if claim == "w-once" else ["ReadWriteOnce"]
        spec: Json = {
            "capacity": {"storage": size},
            "accessModes": modes,
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            **(more or {"csi": {"driver": LIMITED, "volumeHandle": name}}),
        }
        if claim:
            spec["claimRef"] = {"namespace": "default", "name": claim}
        return Request(f"{_CORE}/persistentvolumes", {"metadata": {"name": name}, "spec": spec})

    # A claim that comes late, for a disk that has waited for it.
    made.preparations.append(disk("w-disk-late", "manual", "700Gi", "w-late"))
    late = claim("w-late", "manual", "700Gi", "Bound", "w-disk-late")
    made.acts.append(Act("VolumeBinding", _pod("w-claim", _ANY, claim="w-late"), late))

    # A disk that comes late, for a claim that is bound at once.
    made.preparations.append(claim("w-unbound", "manual", "800Gi", "Pending"))
    found = disk("w-disk-found", "manual", "800Gi", "w-unbound")
    made.acts.append(Act("VolumeBinding", _pod("w-immediate", _ANY, claim="w-unbound"), found))

    # A disk that comes late, for a claim that waits for its pod.
    made.preparations.append(claim("w-patient", "local", "900Gi", "Pending"))
    terms = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["wake-2"]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    there = disk("w-disk-there", "local", "900Gi", local={"path": "/x"}, nodeAffinity=affinity)
    made.acts.append(Act("VolumeBinding", _pod("w-delayed", _ANY, claim="w-patient"), there))

    # A claim for one pod at a time.
    made.preparations.append(disk("w-disk-once", "manual", "1100Gi", "w-once"))
    made.preparations.append(claim("w-once", "manual", "1100Gi", "Bound", "w-disk-once"))
    holder = _pod("w-holder", _ANY, claim="w-once")
    gone = Request(f"{_HERE}/pods/w-holder", {"gracePeriodSeconds": 0}, "DELETE")
    made.acts.append(
        Act("VolumeRestrictions", _pod("w-exclusive", _ANY, claim="w-once"), gone, (holder,))
    )

    # A driver that has no room until something is detached.
    made.preparations.append(disk("w-disk-more", "manual", "1200Gi", "w-more"))
    made.preparations.append(claim("w-more", "manual", "1200Gi", "Bound", "w-disk-more"))
    made.preparations.append(disk("w-disk-left", "manual", "1300Gi", "w-nobody"))
    driver = {"name": LIMITED, "nodeID": "wake-2", "allocatable": {"count": 1}}
    body: Json = {"metadata": {"name": "wake-2"}, "spec": {"drivers": [driver]}}
    made.preparations.append(Request(f"{_STORAGE}/csinodes", body))
    source = {"persistentVolumeName": "w-disk-left"}
    spec = {"attacher": LIMITED, "nodeName": "wake-2", "source": source}
    body = {"metadata": {"name": "w-attached"}, "spec": spec}
    made.preparations.append(Request(f"{_STORAGE}/volumeattachments", body))
    detach = Request(f"{_STORAGE}/volumeattachments/w-attached", {}, "DELETE")
    made.acts.append(Act("NodeVolumeLimits", _pod("w-limited", _SECOND, claim="w-more"), detach))


def _of_other_pods(made: Epilogue) -> None:
    def term(**labels: str) -> list[Json]:
        return [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}]

    required = "requiredDuringSchedulingIgnoredDuringExecution"
    # A friend comes.
    near: Json = {"affinity": {"podAffinity": {required: term(wake="friend")}}}
    friend = _pod("w-friend", _SECOND, labels={"wake": "friend"})
    made.acts.append(Act("InterPodAffinity", _pod("w-near", _ANY, **near), _created(friend)))

    # One of those whom it avoids goes by another name now; another avoids it, and leaves.
    apart: Json = {"affinity": {"podAntiAffinity": {required: term(wake="rival")}}}
    rivals = tuple(
        _pod(name, where, labels={"wake": "rival"})
        for name, where in (("w-rival-1", _FIRST), ("w-rival-2", _SECOND))
    )
    renamed = _patch(f"{_HERE}/pods/w-rival-2", {"metadata": {"labels": {"wake": "friend"}}})
    made.acts.append(Act("InterPodAffinity", _pod("w-apart", _ANY, **apart), renamed, rivals))
    shy = _pod("w-shy", _FIRST, affinity={"podAntiAffinity": {required: term(wake="loud")}})
    left = Request(f"{_HERE}/pods/w-shy", {"gracePeriodSeconds": 0}, "DELETE")
    made.acts.append(
        Act("InterPodAffinity", _pod("w-loud", _FIRST, labels={"wake": "loud"}), left, (shy,))
    )

    # The other zone catches up.
    even: Json = {
        "topologySpreadConstraints": [
            {
                "topologyKey": ZONE,
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"wake": "even"}},
            }
        ],
    }
    first = _pod("w-even-1", _FIRST, labels={"wake": "even"})
    # Both zones count by the selector, only the first has a port that is free.
    port = {"ports": [{"containerPort": 9, "hostPort": 9}]}
    taken = _pod("w-port", _SECOND, container=port)
    waiting = _pod("w-even-2", _ANY, labels={"wake": "even"}, container=port, **even)
    second = _pod("w-even-3", _SECOND, labels={"wake": "even"})
    made.acts.append(Act("PodTopologySpread", waiting, _created(second), (first, taken)))


def _of_nodes(made: Epilogue) -> None:
    """Changes of a node that only plugins of topology care about."""
    even = {
        "topologyKey": "wake-rack",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"wake": "racked"}},
    }
    racked = _patch(f"{_CORE}/nodes/wake-1", {"metadata": {"labels": {"wake-rack": "r1"}}})
    pod = _pod("w-racked", _ANY, labels={"wake": "racked"}, topologySpreadConstraints=[even])
    made.acts.append(Act("PodTopologySpread", pod, racked))


def _node(name: str, zone: str) -> Json:
    offers = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    labels = {HOSTNAME: name, ZONE: zone, "wake": "yes"}
    status = {"capacity": offers, "allocatable": offers}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def _pod(
    name: str,
    selector: Json,
    *,
    claim: str = "",
    labels: Json | None = None,
    container: Json | None = None,
    **spec: Any,
) -> Json:
    main = {"name": "main", "image": "main", **(container or {})}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    needed = {"terminationGracePeriodSeconds": 0, "nodeSelector": selector, "containers": [main]}
    return {"metadata": metadata, "spec": needed | spec}


def _created(pod: Json) -> Request:
    return Request(f"{_HERE}/pods", pod)


def _patch(path: str, body: Json) -> Request:
    return Request(path, body, "PATCH")
