"""Selectors, tolerations and host ports, as the Kubernetes documentation describes them.

Written for the audit alone: it must not repeat an error of the scheduler that it checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from stowplan.api.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Taint,
    Toleration,
)

Labels: TypeAlias = Mapping[str, str]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_INT64: Final = range(-(2**63), 2**63)
_ANY_ADDRESS: Final = ("", "0.0.0.0")  # noqa: S104 - read, not listened on
HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")


class Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str]

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)
        return False

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        number, bound = _int64(value), _int64(next(iter(self.values)))
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


#: All of them must match. An empty selector matches everything, None nothing.
Selector: TypeAlias = tuple[Requirement, ...] | None


def read_selector(selector: LabelSelector | None, also: Labels | None = None) -> Selector:
    """A label selector, narrowed to pods that have the labels `also`."""
    if selector is None:
        return None
    wanted = [
        Requirement(key, "In", frozenset({value}))
        for key, value in [*(selector.match_labels or {}).items(), *(also or {}).items()]
    ]
    wanted += [_requirement(each) for each in selector.match_expressions or ()]
    return tuple(wanted)


def selects(selector: Selector, labels: Labels) -> bool:
    return selector is not None and all(each.matches(labels) for each in selector)


def node_matches(selector: NodeSelector, labels: Labels, name: str) -> bool:
    """True if one of the terms matches; an empty term matches nothing."""
    return any(_term_matches(term, labels, name) for term in selector.node_selector_terms or ())


def _term_matches(term: NodeSelectorTerm, labels: Labels, name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not all(_requirement(each).matches(labels) for each in term.match_expressions or ()):
        return False
    fields = {"metadata.name": name}
    return all(
        each.operator in ("In", "NotIn") and _requirement(each).matches(fields)
        for each in term.match_fields or ()
    )


def wants_node(spec: PodSpec, labels: Labels, name: str) -> bool:
    """True if a node matches a pod's nodeSelector and its required node affinity."""
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return not (affinity and affinity.required) or node_matches(affinity.required, labels, name)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration] | None) -> Taint | None:
    """The first taint that keeps a pod off a node."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(
            _tolerates(each, taint) for each in tolerations or ()
        ):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


class HostPort(NamedTuple):
    address: str
    protocol: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        either = self.address in _ANY_ADDRESS or other.address in _ANY_ADDRESS
        return either or self.address == other.address

    def __str__(self) -> str:
        at = "" if self.address in _ANY_ADDRESS else f"{self.address}:"
        return f"{at}{self.port}/{self.protocol}"


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Those of containers that run all the time; other init containers do not count."""
    running = list(spec.containers or ())
    running += [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return tuple(
        HostPort(port.host_ip, port.protocol or "TCP", port.host_port)
        for container in running
        for port in container.ports or ()
        if port.host_port > 0
    )


def _requirement(raw: LabelSelectorRequirement) -> Requirement:
    return Requirement(raw.key, raw.operator, frozenset(raw.values or ()))


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
