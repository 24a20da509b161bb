"""Topology spread constraints, and the Services and owners that default ones are deduced from."""

from __future__ import annotations

from tests.parity.generate.dice import (
    BETA_ZONE,
    HOSTNAME,
    NAMESPACES,
    POD_LABELS,
    REGION,
    ZONE,
    Dice,
    Json,
)

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
_KEYS = [HOSTNAME, HOSTNAME, HOSTNAME, ZONE, ZONE, ZONE, REGION, BETA_ZONE, "disk", "unheard-of"]
_POLICIES = ["Honor", "Ignore"]
#: The largest that the API takes, besides everyday ones.
_SKEWS = [1, 1, 1, 1, 1, 2, 3, 5, 2**31 - 1]
_OWNERS = {
    "ReplicationController": "v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
_OWNER_NAMES = ["web", "db"]

#: Arguments of the plugin to try, besides none.
SPREAD_ARGUMENTS: list[Json] = [
    {"PodTopologySpread": {"defaultingType": "System"}},
    {"PodTopologySpread": {"defaultingType": "List"}},
    {
        "PodTopologySpread": {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": HARD},
                {"maxSkew": 2, "topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT},
            ],
        }
    },
    {
        "PodTopologySpread": {
            "defaultingType": "List",
            "defaultConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": HOSTNAME,
                    "whenUnsatisfiable": HARD,
                    "minDomains": 3,
                    "nodeTaintsPolicy": "Honor",
                },
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": SOFT,
                    "nodeAffinityPolicy": "Ignore",
                    "matchLabelKeys": ["app"],
                },
                {"maxSkew": 4, "topologyKey": "disk", "whenUnsatisfiable": SOFT},
            ],
        }
    },
    {
        "PodTopologySpread": {
            "defaultingType": "List",
            # Nobody checks minDomains here: without any domain, the smallest count is huge.
            "defaultConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": REGION,
                    "whenUnsatisfiable": HARD,
                    "minDomains": 0,
                    "nodeTaintsPolicy": "Honor",
                }
            ],
        }
    },
]


def domain_labels(dice: Dice, node: Json) -> None:
    """Let most nodes be in a zone, and hardly any share a hostname."""
    if not node["metadata"].get("labels") and dice.often(0.3):
        return
    labels: Json = {**(node["metadata"].get("labels") or {})}
    if dice.often(0.9):
        labels[ZONE] = dice.choice(["z1", "z2", "z3", ""])
    if dice.often(0.9):
        labels[HOSTNAME] = (
            dice.choice(["twin", ""]) if dice.often(0.1) else node["metadata"]["name"]
        )
    node["metadata"]["labels"] = labels


def alike(dice: Dice, pod: Json) -> None:
    """Make it one of many: of the same namespace and application."""
    metadata = pod["metadata"]
    metadata["namespace"] = NAMESPACES[0]
    metadata["labels"] = {**(metadata.get("labels") or {}), "app": POD_LABELS["app"][0]}


def spreading(dice: Dice, pod: Json) -> None:
    """Give a pod, incoming or standing, constraints that an API server would take."""
    taken: set[tuple[str, str]] = set()
    constraints = []
    for _ in range(dice.choice([1, 1, 1, 2, 2, 3])):
        key, action = dice.choice(_KEYS), dice.choice([HARD, SOFT])
        if (key, action) not in taken:
            taken.add((key, action))
            constraints.append(_constraint(dice, pod, key, action))
    pod["spec"]["topologySpreadConstraints"] = constraints


def _constraint(dice: Dice, pod: Json, key: str, action: str) -> Json:
    constraint: Json = {
        "maxSkew": dice.choice(_SKEWS),
        "topologyKey": key,
        "whenUnsatisfiable": action,
    }
    labels: Json = pod["metadata"].get("labels") or {}
    if labels and dice.often(0.6):
        # The usual way: the pod counts itself and its like.
        own = "app" if "app" in labels and dice.often(0.7) else dice.choice(sorted(labels))
        constraint["labelSelector"] = {"matchLabels": {own: labels[own]}}
    elif dice.often(0.9):
        constraint["labelSelector"] = dice.label_selector()
    elif dice.often(0.3):
        constraint["labelSelector"] = None
    if action == HARD and dice.often(0.3):
        constraint["minDomains"] = dice.choice([1, 2, 3, 4, 2**31 - 1])
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.often(0.4):
            constraint[field] = dice.choice(_POLICIES)
    if constraint.get("labelSelector") is not None and dice.often(0.3):
        _match_label_keys(dice, constraint, labels)
    return constraint


def _match_label_keys(dice: Dice, constraint: Json, labels: Json) -> None:
    """Keys that the selector does not speak of; servers write the pod's values into it."""
    selector: Json = constraint["labelSelector"]
    spoken_of = {*selector.get("matchLabels", {})}
    spoken_of |= {expression["key"] for expression in selector.get("matchExpressions", [])}
    free = [key for key in (*POD_LABELS, "pod-template-hash") if key not in spoken_of]
    keys = sorted(set(dice.some(free, 2))) if free else []
    constraint["matchLabelKeys"] = keys
    if dice.often(0.5):
        merged = [
            {"key": key, "operator": "In", "values": [labels[key]]} for key in keys if key in labels
        ]
        if merged:
            selector["matchExpressions"] = [*selector.get("matchExpressions", []), *merged]


def own(dice: Dice, pod: Json) -> None:
    """Say who made a pod: often one of `spread_objects`, else somebody unknown."""
    kind = dice.choice([*_OWNERS, *_OWNERS, "Job"])
    version = _OWNERS.get(kind, "batch/v1")
    if dice.often(0.1):
        version = dice.choice(["apps/v1beta1", "v2", "v1", "apps/v1"])
    owner: Json = {
        "apiVersion": version,
        "kind": kind,
        "name": dice.choice([*_OWNER_NAMES, *_OWNER_NAMES, "nobody"]),
        "uid": "uid-owner",
    }
    if dice.often(0.9):
        owner["controller"] = dice.often(0.9)
    others = []
    if dice.often(0.1):
        others = [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-other"}]
    pod["metadata"]["ownerReferences"] = [*others, owner]


def spread_objects(dice: Dice) -> list[Json]:
    """Services and owners of pods, whose selectors often find some."""
    services = [_service(dice, number) for number in range(dice.randint(0, 4))]
    owners = [
        _owner(dice, kind, name, namespace)
        for kind in _OWNERS
        for name in _OWNER_NAMES
        for namespace in NAMESPACES
        if dice.often(0.5)
    ]
    return [*services, *owners]


def _service(dice: Dice, number: int) -> Json:
    spec: Json = {}
    if dice.often(0.9):
        spec["selector"] = _some_labels(dice) if dice.often(0.9) else {}
    elif dice.often(0.5):
        spec["selector"] = None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"service-{number}", "namespace": dice.choice(NAMESPACES)},
        "spec": spec,
    }


def _owner(dice: Dice, kind: str, name: str, namespace: str) -> Json:
    selector: Json = _some_labels(dice)
    if kind != "ReplicationController":
        # An empty one is refused by servers.
        selector = dice.label_selector() or {"matchLabels": selector}
    return {
        "apiVersion": _OWNERS[kind],
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
    }


def _some_labels(dice: Dice) -> Json:
    keys = dice.sample(sorted(POD_LABELS), dice.choice([1, 1, 2]))
    return {key: dice.choice(POD_LABELS[key]) for key in keys}
