"""Pods that are as expensive as the API server allows, for `bench.attack` and `tests/perf`.

Each maker takes a size and a serial number. Pods with different serial numbers share no key, name
or value, so that nothing kept for one serves another. `check_valid` refuses what a real API server
would: requests over 3 MiB, or objects that etcd cannot store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from stowplan.api.objects import Pod
from stowplan.loader.json_text import json_decoder

Json: TypeAlias = dict[str, Any]

#: etcd's default limit for one request; pods are stored as protobuf.
ETCD_LIMIT = 1_572_864
#: kube-apiserver's limit for the body of a request.
BODY_LIMIT = 3 * 1024 * 1024

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
_WHEN = "DuringSchedulingIgnoredDuringExecution"

_decode_pod = json_decoder(Pod)


def keys(count: int, serial: int, letter: str = "k") -> list[str]:
    """Short label keys (or namespaces, or values) that no other serial number uses."""
    return [f"{letter}{serial}-{index}" for index in range(count)]


def pod_manifest(serial: int, **spec: Any) -> Json:
    """A small pod in a namespace of its own kind, with these fields of the spec besides."""
    amounts = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "main", "image": "pause:3.10", "resources": {"requests": amounts}}
    return {
        "metadata": {
            "name": f"hostile-{serial}",
            "namespace": "hostile",
            "uid": f"hostile-uid-{serial}",
            "labels": {"app": "hostile"},
        },
        "spec": {
            "containers": [container],
            "schedulerName": "default-scheduler",
            "priority": 0,
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def decoded(manifest: Json, *, node: str = "") -> Pod:
    """The pod as an informer delivers it; with `node`, as one that was created there."""
    check_valid(manifest)
    if node:
        manifest = manifest | {"spec": manifest["spec"] | {"nodeName": node}}
    return _decode_pod(json.dumps(manifest))


def check_valid(manifest: Json) -> None:
    """Raise ValueError for a pod that is too large to be created."""
    body, stored = len(json.dumps(manifest)), stored_size(manifest)
    if body > BODY_LIMIT:
        raise ValueError(f"the pod has {body} bytes of JSON, the API server takes {BODY_LIMIT}")
    if stored > ETCD_LIMIT:
        raise ValueError(f"the pod has about {stored} bytes stored, etcd takes {ETCD_LIMIT}")


#: Fields whose keys are data, and so are stored.
_MAPS = frozenset(
    {
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "requests",
        "limits",
        "overhead",
        "allocatedResources",
    }
)


def stored_size(value: Any, *, is_map: bool = False) -> int:
    """About how many bytes of protobuf a manifest takes; field names are not stored."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        # A tag and a length for each field; an entry of a map is a message of two fields.
        return sum(
            (len(name) + 6 if is_map else 0) + _field(name, each) for name, each in value.items()
        )
    return 4


def _field(name: str, value: Any) -> int:
    if isinstance(value, list):
        return sum(3 + stored_size(each) for each in value)
    return 3 + stored_size(value, is_map=name in _MAPS)


# The parts of a hostile pod


def expression(key: str, operator: str, values: Iterable[str] = ()) -> Json:
    made: Json = {"key": key, "operator": operator}
    return made | {"values": list(values)} if operator in ("In", "NotIn") else made


def selector(*expressions: Json) -> Json:
    return {"matchExpressions": list(expressions)}


def term(label_selector: Json, key: str = ZONE, **more: Any) -> Json:
    """A term of pod affinity or anti-affinity."""
    return {"labelSelector": label_selector, "topologyKey": key, **more}


def required(kind: str, terms: Iterable[Json]) -> Json:
    return {"affinity": {kind: {f"required{_WHEN}": list(terms)}}}


def preferred(kind: str, terms: Iterable[Json]) -> Json:
    weighted = [{"weight": 1, "podAffinityTerm": each} for each in terms]
    return {"affinity": {kind: {f"preferred{_WHEN}": weighted}}}


def spread(key: str, label_selector: Json, action: str = "ScheduleAnyway", **more: Any) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": action,
        "labelSelector": label_selector,
        **more,
    }


def container(name: str, **fields: Any) -> Json:
    return {"name": name, "image": f"{name}:1", **fields}


# The table of hostile pods


@dataclass(frozen=True)
class Attack:
    """One kind of hostile pod."""

    name: str
    #: The size that is asked for at factor 1.
    size: int
    make: Callable[[int, int], Json]

    def manifest(self, factor: float = 1, serial: int = 0) -> Json:
        return pod_manifest(serial, **self.make(int(self.size * factor), serial))


def _zero_resources(size: int, serial: int) -> Json:
    amounts = {f"example.com/{key}": "0" for key in keys(size, serial, "r")}
    resources = {"requests": amounts, "limits": amounts}
    return {"containers": [container("main", resources=resources)]}


def _preferred_everywhere(size: int, serial: int) -> Json:
    """Every term matches every pod of every namespace."""
    return preferred(
        "podAffinity",
        (
            term(selector(expression(key, "DoesNotExist")), namespaceSelector={})
            for key in keys(size, serial)
        ),
    )


def _anti_exists(size: int, serial: int) -> Json:
    return required(
        "podAntiAffinity",
        (
            term(selector(expression(key, "Exists")), HOSTNAME, namespaceSelector={})
            for key in keys(size, serial)
        ),
    )


def _selector_keys(size: int, serial: int) -> Json:
    labels = {"matchLabels": dict.fromkeys(keys(size, serial), "")}
    return required("podAntiAffinity", [term(labels, namespaceSelector={})])


def _namespaces_by_values(size: int, serial: int) -> Json:
    """`size` namespaces and one and a half times as many values."""
    values = keys(size * 3 // 2, serial, "v")
    namespaces = ["default", *keys(size - 1, serial, "n")]
    return required(
        "podAntiAffinity",
        [term(selector(expression("app", "In", values)), namespaces=namespaces)],
    )


def _spread_keys(size: int, serial: int) -> Json:
    labels = {"matchLabels": dict.fromkeys(keys(size, serial), "")}
    return {"topologySpreadConstraints": [spread(ZONE, labels)]}


def _affinity_terms(size: int, serial: int) -> Json:
    """The pod matches its own terms, so that the first of its kind finds a place."""
    return required(
        "podAffinity",
        (term(selector(expression(key, "DoesNotExist"))) for key in keys(size, serial)),
    )


def _topology_keys(size: int, serial: int) -> Json:
    wanted = selector(expression("app", "Exists"))
    return preferred(
        "podAffinity", (term(wanted, key, namespaceSelector={}) for key in keys(size, serial))
    )


def _spread_constraints(size: int, serial: int) -> Json:
    wanted = selector(expression("app", "Exists"))
    constraints = [spread(key, wanted) for key in keys(size, serial)]
    return {"topologySpreadConstraints": constraints}


def _node_selector(size: int, serial: int) -> Json:
    return {"nodeSelector": dict.fromkeys(keys(size, serial), "")}


ATTACKS = (
    Attack("extended resources of 0", 2_000, _zero_resources),
    Attack("preferred terms, all namespaces", 2_000, _preferred_everywhere),
    Attack("anti-affinity terms, Exists", 2_000, _anti_exists),
    Attack("one selector, many keys", 2_000, _selector_keys),
    Attack("namespaces x values", 2_000, _namespaces_by_values),
    Attack("spread constraint, many keys", 2_000, _spread_keys),
    Attack("affinity terms", 4_000, _affinity_terms),
    Attack("topology keys", 2_000, _topology_keys),
    Attack("spread constraints", 2_000, _spread_constraints),
    Attack("node selector keys", 2_000, _node_selector),
)
