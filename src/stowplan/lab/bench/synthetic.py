"""Synthetic clusters for measurements without a control plane: nodes, standing pods, new pods.

Everything is decoded from JSON, as an informer does it, so that no two pods share a string or a
tuple by accident. `KINDS` names the pods that can be asked for; each is an endless supply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import msgspec

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import SERVICES, Resource
from stowplan.api.workload_objects import Service
from stowplan.loader.json_text import json_decoder

Json: TypeAlias = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
ZONES = 10
#: Standing pods belong to so many applications; one of them is that of the pods that spread.
APPLICATIONS = 50
_NAMESPACE = "default"

_decode_pod = json_decoder(Pod)
_decode_node = json_decoder(Node)

#: What admission adds to every pod.
_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    | {"tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def nodes(number: int) -> Iterator[Node]:
    """Nodes of 32 cores in zones of equal size."""
    offers = {"cpu": "32", "memory": "256Gi", "pods": "256", "ephemeral-storage": "100Gi"}
    for index in range(number):
        name = f"node-{index:05}"
        labels = {HOSTNAME: name, ZONE: f"zone-{index % ZONES}", "kubernetes.io/os": "linux"}
        yield _decode_node(
            json.dumps(
                {
                    "metadata": {"name": name, "uid": f"node-uid-{index}", "labels": labels},
                    "status": {
                        "allocatable": offers,
                        "capacity": offers,
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                }
            )
        )


def existing_pods(number: int, node_count: int, applications: int = APPLICATIONS) -> Iterator[Pod]:
    """Small pods, dealt out to the nodes one by one, with so many distinct sets of labels."""
    for index in range(number):
        made = _manifest(cpu="50m", memory="64Mi", app=f"app-{index % applications}")
        made["metadata"] |= {"name": f"standing-{index}", "uid": f"standing-uid-{index}"}
        made["spec"]["nodeName"] = f"node-{index % node_count:05}"
        made["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        yield _decode_pod(json.dumps(made))


def objects_for(kind: str) -> list[tuple[Resource[Any], Any]]:
    """What else must be in the cluster for pods of a kind."""
    if kind != "default spreading":
        return []
    service = {"metadata": _named("web"), "spec": {"selector": {"app": "web"}}}
    return [(SERVICES, msgspec.convert(service, Service))]


def _named(name: str) -> Json:
    return {"name": name, "namespace": _NAMESPACE}


def _manifest(*, cpu: str = "100m", memory: str = "500Mi", app: str = "web", **spec: Any) -> Json:
    amounts = {"cpu": cpu, "memory": memory}
    container = {"name": "pause", "image": "pause:3.10", "resources": {"requests": amounts}}
    return {
        "metadata": _named("") | {"labels": {"app": app}},
        "spec": {
            "containers": [container],
            "schedulerName": "default-scheduler",
            "tolerations": _TOLERATIONS,
            "priority": 0,
            **spec,
        },
        "status": {"phase": "Pending"},
    }


#: Numbers every pod of a process, whatever its kind.
_serial = count()


def _pods(make: Callable[[int], Json]) -> Iterator[Pod]:
    for index in count():
        number = next(_serial)
        made = make(index)
        made["metadata"] |= {"name": f"pod-{number}", "uid": f"pod-uid-{number}"}
        yield _decode_pod(json.dumps(made))


def _shape(index: int) -> Json:
    """Pods of different indices have different requests and labels."""
    cpu, memory = f"{100 + index % 97}m", f"{64 + index // 97}Mi"
    return _manifest(cpu=cpu, memory=memory, app=f"own-{index}")


def _matching(app: str) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}}


def _spread(key: str, action: str, app: str) -> Json:
    return {"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": action, **_matching(app)}


def _near(kind: str, key: str, app: str, *, required: bool) -> Json:
    term = {"topologyKey": key, **_matching(app)}
    when = "DuringSchedulingIgnoredDuringExecution"
    if required:
        return {kind: {f"required{when}": [term]}}
    return {kind: {f"preferred{when}": [{"weight": 1, "podAffinityTerm": term}]}}


def _affine(app: str, kind: str, key: str, *, required: bool) -> Json:
    return _manifest(app=app, affinity=_near(kind, key, app, required=required))


def _in_zones() -> Json:
    wanted = {"key": ZONE, "operator": "In", "values": ["zone-1", "zone-2", "zone-3"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return _manifest(affinity={"nodeAffinity": required})


#: The application of pods that spread has standing pods too.
_SPREADING = "app-0"

_MAKERS: dict[str, Callable[[int], Json]] = {
    "one shape": lambda _: _manifest(),
    "100 shapes": lambda index: _shape(index % 100),
    "all distinct": _shape,
    "node affinity": lambda _: _in_zones(),
    "hard spreading": lambda _: _manifest(
        app=_SPREADING, topologySpreadConstraints=[_spread(ZONE, "DoNotSchedule", _SPREADING)]
    ),
    "soft spreading": lambda _: _manifest(
        app=_SPREADING,
        topologySpreadConstraints=[
            _spread(ZONE, "ScheduleAnyway", _SPREADING),
            _spread(HOSTNAME, "ScheduleAnyway", _SPREADING),
        ],
    ),
    "default spreading": lambda _: _manifest(),
    "anti-affinity": lambda _: _affine("lone", "podAntiAffinity", HOSTNAME, required=True),
    "affinity": lambda _: _affine(_SPREADING, "podAffinity", ZONE, required=True),
    "preferred anti-affinity": lambda _: _affine(
        "shy", "podAntiAffinity", HOSTNAME, required=False
    ),
    "preferred affinity": lambda _: _affine("cosy", "podAffinity", ZONE, required=False),
    "too large": lambda _: _manifest(cpu="64"),
}
#: Kinds of pods that fit nowhere.
HOPELESS = ("too large",)

KINDS: dict[str, Callable[[], Iterator[Pod]]] = {
    kind: partial(_pods, make) for kind, make in _MAKERS.items()
}


def as_informed(pod: Pod) -> Pod:
    """The same pod as a watch would bring it: equal, and nothing in it the same object."""
    return _decode_pod(msgspec.json.encode(pod))
