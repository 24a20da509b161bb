"""Pods and nodes by the sizes of their lists: what a search varies and a test doubles.

`sized_pod` makes a valid pod from numbers by name, `sized_node` a node. Sizes add up: a pod with
two of them is as large as both together, so work that grows with their product is a defect. The
selectors of a pod's terms are of one *wide* term with many keys, values and namespaces, and of
many narrow ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any, TypeAlias

from stowplan.lab.bench.hostile import (
    HOSTNAME,
    ZONE,
    Json,
    container,
    expression,
    keys,
    pod_manifest,
    selector,
    spread,
    term,
)

Sizes: TypeAlias = Mapping[str, int]

_WHEN = "DuringSchedulingIgnoredDuringExecution"

#: What a pod is made of, and what each number counts.
POD_SIZES = {
    "labels": "labels of the pod",
    "annotations": "annotations",
    "owners": "owner references",
    "conditions": "conditions of its status",
    "containers": "containers, each with an image and a request of its own",
    "init containers": "init containers",
    "sidecars": "init containers that keep running",
    "container statuses": "statuses of containers, with resources",
    "resources": "extended resources of the first container",
    "ports": "host ports of the first container",
    "addresses": "host ports of the first container, with one number and many addresses",
    "tolerations": "tolerations of many keys",
    "toleration values": "tolerations of one key, with many values",
    "node selector": "keys of the node selector",
    "node terms": "terms of required node affinity",
    "node expressions": "expressions of one term of required node affinity",
    "node values": "values of one expression of required node affinity",
    "preferred node terms": "terms of preferred node affinity",
    "affinity terms": "terms of required affinity that the pod itself matches",
    "anti-affinity terms": "terms of required anti-affinity",
    "preferred terms": "terms of preferred affinity, over all namespaces",
    "preferred anti-affinity terms": "terms of preferred anti-affinity",
    "topology keys": "terms of preferred affinity, each with a topology key of its own",
    "selector keys": "keys of the wide term's selector",
    "selector expressions": "expressions without values of the wide term's selector",
    "selector values": "values of one expression of the wide term's selector",
    "excluded values": "values of one NotIn of the wide term's selector",
    "namespaces": "namespaces of the wide term",
    "namespace selector": "expressions of a term's selector of namespaces",
    "match label keys": "matchLabelKeys of the wide spread constraint, and labels for them",
    "spread constraints": "spread constraints",
    "spread keys": "keys of the wide spread constraint's selector",
    "spread values": "values of one expression of that selector",
    "disks": "GCE disks",
    "shared disks": "GCE disks, read only",
    "monitors": "monitors of one RBD image",
    "claims": "claims that are bound to volumes",
    "empty volumes": "volumes that scheduling does not read",
    "image volumes": "image volumes",
}
#: Claims that get a volume when the pod gets a node. Each looks at every volume there is.
OPEN_CLAIMS = "open claims"
#: Of nodes.
NODE_SIZES = {
    "node labels": "labels of every node",
    "taints": "taints of every node that the pod need not tolerate",
    "hard taints": "taints of every node that the pod tolerates",
    "images": "images of every node",
    "image names": "names of one image of every node",
    "offers": "extended resources of every node",
    "features": "declared features of every node",
    "node conditions": "conditions of every node",
}


def sized_pod(sizes: Sizes, serial: int = 0) -> Json:
    """A pod with lists of these sizes; those that are not named are empty."""

    def made(size: str, letter: str) -> list[str]:
        return keys(sizes.get(size, 0), serial, letter)

    matched = made("match label keys", "ml")
    manifest = pod_manifest(
        serial,
        containers=_containers(made, serial),
        initContainers=[
            *(
                container(name, resources=_requests(f"example.com/{name}"))
                for name in made("init containers", "i")
            ),
            *(container(name, restartPolicy="Always") for name in made("sidecars", "s")),
        ],
        tolerations=_tolerations(made),
        nodeSelector=dict.fromkeys(made("node selector", "ns"), ""),
        affinity=_affinity(made),
        topologySpreadConstraints=_spreading(made, matched),
        volumes=_volumes(made),
    )
    meta = manifest["metadata"]
    meta["labels"] |= dict.fromkeys([*made("labels", "l"), *matched], "x")
    meta["annotations"] = dict.fromkeys(made("annotations", "a"), "x")
    meta["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": name, "uid": name, "apiVersion": "apps/v1"}
        for name in made("owners", "o")
    ]
    manifest["status"] |= {
        "conditions": [{"type": name, "status": "True"} for name in made("conditions", "c")],
        "containerStatuses": [
            {"name": name, "resources": _requests("cpu")}
            for name in made("container statuses", "c")
        ],
    }
    return manifest


def sized_node(name: str, zone: str, sizes: Sizes, serial: int = 0) -> Json:
    """A node with lists of these sizes, and the labels that `sized_pod`'s node selector wants."""

    def made(size: str, letter: str) -> list[str]:
        return keys(sizes.get(size, 0), serial, letter)

    own = {HOSTNAME: name, ZONE: zone, "kubernetes.io/os": "linux"}
    wanted = [*made("node selector", "ns"), *made("node labels", "nl")]
    offers = {"cpu": "32", "memory": "256Gi", "pods": "256", "ephemeral-storage": "100Gi"}
    offers |= dict.fromkeys((f"example.com/{key}" for key in made("offers", "r")), "1000")
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": own | dict.fromkeys(wanted, ""),
        },
        "spec": {
            "taints": [
                # Values of their own, so that no two nodes are of one class.
                *(
                    {"key": key, "value": name, "effect": "PreferNoSchedule"}
                    for key in made("taints", "tt")
                ),
                *({"key": key, "effect": "NoSchedule"} for key in made("hard taints", "t")),
            ]
        },
        "status": {
            "allocatable": offers,
            "capacity": offers,
            "conditions": [
                {"type": "Ready", "status": "True"},
                *({"type": key, "status": "False"} for key in made("node conditions", "c")),
            ],
            "images": [
                *({"names": [f"{key}:1"], "sizeBytes": 10**8} for key in made("images", "c")),
                {"names": [f"{key}:1" for key in made("image names", "in")], "sizeBytes": 10**8},
            ],
            "declaredFeatures": made("features", "f"),
        },
    }


def claim_names(sizes: Sizes, serial: int) -> tuple[list[str], list[str]]:
    """The bound and the open claims that a pod of these sizes names; the cluster must have them."""
    return (
        keys(sizes.get("claims", 0), serial, "claim"),
        keys(sizes.get(OPEN_CLAIMS, 0), serial, "open"),
    )


# Parts; `made` gives as many names as a size wants

_Made: TypeAlias = Any


def _requests(*names: str) -> Json:
    amounts = dict.fromkeys(names, "0")
    return {"requests": amounts, "limits": amounts}


def _containers(made: _Made, serial: int) -> list[Json]:
    names = [f"example.com/{key}" for key in made("resources", "r")]
    ports = [
        {"containerPort": 80, "hostPort": first + index // 3, "protocol": protocol}
        for first in (1_024 + serial % 15 * 4_000,)
        for index, protocol in zip(
            range(len(made("ports", "p"))), cycle(("TCP", "UDP", "SCTP")), strict=False
        )
    ]
    ports += [
        {"containerPort": 80, "hostPort": 80, "hostIP": f"{first}.{index >> 8}.{index & 255}.1"}
        for first in (10 + serial % 100,)
        for index in range(len(made("addresses", "p")))
    ]
    return [
        container("main", resources=_requests("cpu", *names), ports=ports),
        *(
            container(name, resources=_requests(f"example.com/{name}"))
            for name in made("containers", "c")
        ),
    ]


def _tolerations(made: _Made) -> list[Json]:
    return [
        # Those of the nodes' hard taints, and more that match nothing.
        *({"key": key, "operator": "Exists"} for key in made("hard taints", "t")),
        *({"key": key, "operator": "Exists"} for key in made("tolerations", "to")),
        *(
            {"key": "one", "operator": "Equal", "value": value}
            for value in made("toleration values", "to")
        ),
    ]


def _affinity(made: _Made) -> Json:
    wide = selector(
        *(expression(key, "In", [""]) for key in made("selector keys", "sk")),
        *(expression(key, "Exists") for key in made("selector expressions", "se")),
    )
    wide["matchExpressions"] += [
        expression(key, operator, made(size, "v"))
        for key, operator, size in (
            ("app", "In", "selector values"),
            ("app", "NotIn", "excluded values"),
        )
        if made(size, "v")
    ]
    wide_term = term(wide)
    if made("namespaces", "n"):
        wide_term["namespaces"] = made("namespaces", "n")
    by_namespace = [expression(key, "Exists") for key in made("namespace selector", "nk")]
    anti = [
        term(selector(expression(key, "Exists")), HOSTNAME, namespaceSelector={})
        for key in made("anti-affinity terms", "aa")
    ]
    if wide["matchExpressions"] or "namespaces" in wide_term:
        anti.append(wide_term)
    if by_namespace:
        anti.append(
            term(selector(expression("x", "Exists")), namespaceSelector=selector(*by_namespace))
        )
    everywhere: Json = {"namespaceSelector": {}}
    wanted = [
        *(
            term(selector(expression(key, "DoesNotExist")), **everywhere)
            for key in made("preferred terms", "pt")
        ),
        *(
            term(selector(expression("app", "Exists")), key, **everywhere)
            for key in made("topology keys", "tk")
        ),
    ]
    unwanted = [
        term(selector(expression(key, "DoesNotExist")), HOSTNAME)
        for key in made("preferred anti-affinity terms", "pa")
    ]
    near = [term(selector(expression(key, "DoesNotExist"))) for key in made("affinity terms", "at")]
    return _filled(
        {
            "nodeAffinity": _node_affinity(made),
            "podAffinity": _terms(near, wanted),
            "podAntiAffinity": _terms(anti, unwanted),
        }
    )


def _terms(required: list[Json], preferred: list[Json]) -> Json:
    weighted = [{"weight": 1, "podAffinityTerm": each} for each in preferred]
    return _filled({f"required{_WHEN}": required, f"preferred{_WHEN}": weighted})


def _filled(fields: Json) -> Json:
    """The mapping without empty values."""
    return {name: value for name, value in fields.items() if value}


def _node_affinity(made: _Made) -> Json:
    fits = [
        expression("kubernetes.io/os", "Exists"),
        *(expression(key, "DoesNotExist") for key in made("node expressions", "ne")),
    ]
    if made("node values", "nv"):
        fits.append(expression("kubernetes.io/os", "In", ["linux", *made("node values", "nv")]))
    terms = [selector(expression(key, "Exists")) for key in made("node terms", "nt")]
    preferences = [
        {"weight": 1, "preference": selector(expression(key, "DoesNotExist"))}
        for key in made("preferred node terms", "np")
    ]
    has_terms = terms or len(fits) > 1
    required = {"nodeSelectorTerms": [*terms, selector(*fits)]} if has_terms else {}
    return _filled({f"required{_WHEN}": required, f"preferred{_WHEN}": preferences})


def _spreading(made: _Made, matched: list[str]) -> list[Json]:
    wanted = [
        *(expression(key, "DoesNotExist") for key in made("spread keys", "sp")),
        expression("app", "Exists"),
    ]
    if made("spread values", "sv"):
        wanted.append(expression("app", "In", ["hostile", *made("spread values", "sv")]))
    wide = spread(ZONE, selector(*wanted), "DoNotSchedule", matchLabelKeys=matched)
    return [
        *([wide] if len(wanted) > 1 or matched else []),
        *(
            spread(key, selector(expression("app", "Exists")))
            for key in made("spread constraints", "sc")
        ),
    ]


def _volumes(made: _Made) -> list[Json]:
    volumes: list[Json] = [
        *({"gcePersistentDisk": {"pdName": name}} for name in made("disks", "d")),
        *(
            {"gcePersistentDisk": {"pdName": name, "readOnly": True}}
            for name in made("shared disks", "sd")
        ),
        *({"persistentVolumeClaim": {"claimName": name}} for name in made("claims", "claim")),
        *({"persistentVolumeClaim": {"claimName": name}} for name in made(OPEN_CLAIMS, "open")),
        *({"name": name, "emptyDir": {}} for name in made("empty volumes", "e")),
        *({"image": {"reference": f"{name}:1"}} for name in made("image volumes", "c")),
    ]
    if made("monitors", "m"):
        volumes.append(
            {"rbd": {"monitors": made("monitors", "m"), "image": "one", "readOnly": True}}
        )
    return [{"name": f"v{index}", **each} for index, each in enumerate(volumes)]
