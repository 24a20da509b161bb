"""Which fields of a pod, and which arguments, a plugin's decision may have come from.

`branches` counts a feature for a plugin whenever the plugin refused a node or told nodes apart for
a pod that has it: so a field that cases never set, or that never matters, shows up as missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.parity.generate.dice import Json

Features: TypeAlias = Callable[[Json, Json], Iterator[str]]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _tolerations(spec: Json, args: Json) -> Iterator[str]:
    for toleration in spec.get("tolerations") or ():
        yield f"operator {toleration.get('operator', '')!r}"
        yield "effect" if toleration.get("effect") else "no effect"
        if not toleration.get("key"):
            yield "no key"


def _node_affinity(spec: Json, args: Json) -> Iterator[str]:
    if spec.get("nodeSelector"):
        yield "nodeSelector"
    if args.get("addedAffinity"):
        yield "addedAffinity"
    wishes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = list((wishes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())
    if terms:
        yield "required terms"
    if preferred := wishes.get(_PREFERRED):
        yield "preferred terms"
        terms += [term["preference"] for term in preferred]
    for term in terms:
        if term.get("matchFields"):
            yield "matchFields"
        for requirement in term.get("matchExpressions") or ():
            yield f"operator {requirement['operator']}"


def _ports(spec: Json, args: Json) -> Iterator[str]:
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy")]
    for container in (*spec["containers"], *sidecars):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("protocol") or "no protocol"
                yield f"address {port.get('hostIP', '')!r}"
                if container in sidecars:
                    yield "sidecar"


def _resources(spec: Json, args: Json) -> Iterator[str]:
    strategy = args.get("scoringStrategy", {}).get("type", "LeastAllocated")
    yield f"strategy {strategy}"
    for field in ("ignoredResources", "ignoredResourceGroups"):
        if args.get(field):
            yield field
    for field in ("overhead", "resources"):
        if spec.get(field):
            yield field
    for container in spec.get("initContainers") or ():
        yield "sidecar" if container.get("restartPolicy") else "init container"


def _spread(spec: Json, args: Json) -> Iterator[str]:
    constraints = spec.get("topologySpreadConstraints") or ()
    if not constraints:
        yield f"default constraints, {args.get('defaultingType', 'System')}"
    for constraint in constraints:
        yield constraint["whenUnsatisfiable"]
        yield f"{constraint.get('nodeAffinityPolicy')} nodeAffinityPolicy"
        yield f"{constraint.get('nodeTaintsPolicy')} nodeTaintsPolicy"
        for field in ("minDomains", "matchLabelKeys"):
            if constraint.get(field):
                yield field
        if not constraint.get("labelSelector"):
            yield "no selector" if constraint.get("labelSelector") is None else "empty selector"


def _pod_affinity(spec: Json, args: Json) -> Iterator[str]:
    for field, usual in (("hardPodAffinityWeight", 1), ("ignorePreferredTermsOfExistingPods", 0)):
        if args.get(field, usual) != usual:
            yield field
    affinity = spec.get("affinity") or {}
    terms = []
    for kind in ("podAffinity", "podAntiAffinity"):
        wishes = affinity.get(kind) or {}
        if required := wishes.get(_REQUIRED):
            yield f"required {kind}"
            terms += required
        if preferred := wishes.get(_PREFERRED):
            yield f"preferred {kind}"
            terms += [term["podAffinityTerm"] for term in preferred]
    if not terms:
        yield "terms of standing pods alone"
    for term in terms:
        if term.get("namespaces"):
            yield "namespaces"
        if term.get("namespaceSelector") is not None:
            yield "namespaceSelector" if term["namespaceSelector"] else "empty namespaceSelector"


def _images(spec: Json, args: Json) -> Iterator[str]:
    if any(volume.get("image") for volume in spec.get("volumes") or ()):
        yield "image volume"
    if spec.get("initContainers"):
        yield "init container"


#: By plugin: given a pod's spec and the plugin's arguments.
FEATURES: dict[str, Features] = {
    "TaintToleration": _tolerations,
    "NodeAffinity": _node_affinity,
    "NodePorts": _ports,
    "NodeResourcesFit": _resources,
    "PodTopologySpread": _spread,
    "InterPodAffinity": _pod_affinity,
    "ImageLocality": _images,
}

_POLICIES = [
    f"{policy} {field}"
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")
    for policy in ("None", "Honor", "Ignore")
]
#: What must turn up, by plugin.
EXPECTED: dict[str, list[str]] = {
    "TaintToleration": [
        *(f"operator {operator!r}" for operator in ("", "Equal", "Exists")),
        "effect",
        "no effect",
        "no key",
    ],
    "NodeAffinity": [
        *("nodeSelector", "addedAffinity", "required terms", "preferred terms", "matchFields"),
        *(f"operator {name}" for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
    ],
    "NodePorts": [
        *("TCP", "UDP", "SCTP", "sidecar"),
        *(f"address {address!r}" for address in ("", "0.0.0.0", "127.0.0.1", "10.0.0.1")),
    ],
    "NodeResourcesFit": [
        *(
            f"strategy {name}"
            for name in ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
        ),
        *("ignoredResources", "ignoredResourceGroups", "overhead", "resources"),
        *("sidecar", "init container"),
    ],
    "PodTopologySpread": [
        *("DoNotSchedule", "ScheduleAnyway", *_POLICIES, "minDomains", "matchLabelKeys"),
        *("no selector", "empty selector"),
        *("default constraints, System", "default constraints, List"),
    ],
    "InterPodAffinity": [
        *("hardPodAffinityWeight", "ignorePreferredTermsOfExistingPods"),
        *(
            f"{strength} {kind}"
            for kind in ("podAffinity", "podAntiAffinity")
            for strength in ("required", "preferred")
        ),
        *("terms of standing pods alone", "namespaces"),
        *("namespaceSelector", "empty namespaceSelector"),
    ],
    "ImageLocality": ["image volume", "init container"],
}
