"""What the audit reads of a pod and of a node, worked out once when the object arrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from stowplan.api.objects import Node, Pod, PodAffinityTerm, Taint, TopologySpreadConstraint
from stowplan.audit.amounts import Amounts, held, offered, requested
from stowplan.audit.items import Item, bound_at, seconds
from stowplan.audit.matching import (
    HostPort,
    Labels,
    Selector,
    host_ports,
    read_selector,
    selects,
)
from stowplan.loader.json_text import load_json

_MIRROR: Final = "kubernetes.io/config.mirror"
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_encode = msgspec.json.Encoder(order="deterministic").encode


class Term(NamedTuple):
    """A required term of pod affinity or anti-affinity, or the selector of a spread constraint."""

    namespaces: frozenset[str]
    #: Namespaces are also chosen by label; None chooses none.
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        if namespace not in self.namespaces and not selects(
            self.namespace_selector, namespace_labels
        ):
            return False
        return selects(self.selector, labels)


class Admission(NamedTuple):
    """Which nodes count for a spread constraint; hashable, because many pods share one.

    `affinity` and `tolerations` are JSON of the pod's own fields, empty where a policy ignores
    them.
    """

    keys: tuple[str, ...]
    affinity: bytes
    tolerations: bytes | None


class Spread(NamedTuple):
    """A DoNotSchedule constraint."""

    term: Term
    admission: Admission
    max_skew: int
    min_domains: int


@dataclass(slots=True, eq=False)
class PodFacts:
    """A pod at one revision."""

    pod: Pod
    key: str
    namespace: str
    labels: Labels
    node: str
    scheduler: str
    requested: Amounts
    held: Amounts
    ports: tuple[HostPort, ...]
    anti: tuple[Term, ...]
    affinity: tuple[Term, ...]
    spread: tuple[Spread, ...]
    #: Names of claims, those of ephemeral volumes included.
    claims: tuple[str, ...]
    #: No scheduler chose its node: a mirror pod, or created with a nodeName.
    is_direct: bool
    #: When it came to its node, by the API server's clock.
    arrived_at: float
    #: When its labels or requests changed on its node, and what they were.
    changed_at: float = 0.0
    before: PodFacts | None = None
    revision: int = 0

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def occupies(self) -> bool:
        """True if it takes a place on its node. A terminating pod does, a finished one does not."""
        return bool(self.node) and not self.pod.is_finished

    @property
    def is_pending(self) -> bool:
        return not (self.node or self.pod.is_finished or self.pod.is_terminating)


def pod_facts(item: Item) -> PodFacts:
    pod: Pod = item.object
    meta, spec = pod.metadata, pod.spec
    labels = meta.labels or {}
    affinity = spec.affinity
    anti = affinity.pod_anti_affinity if affinity else None
    with_others = affinity.pod_affinity if affinity else None
    asked = requested(pod)
    return PodFacts(
        pod=pod,
        key=pod.key,
        namespace=meta.namespace,
        labels=labels,
        node=spec.node_name,
        scheduler=spec.scheduler_name or _DEFAULT_SCHEDULER,
        requested=asked,
        held=held(pod) if spec.node_name else asked,
        ports=host_ports(spec),
        anti=_terms(anti.required if anti else None, pod),
        affinity=_terms(with_others.required if with_others else None, pod),
        spread=_spread(pod, labels),
        claims=_claims(pod),
        is_direct=item.is_direct or _MIRROR in (meta.annotations or {}),
        arrived_at=bound_at(pod) or seconds(meta.creation_timestamp),
    )


def _terms(raw: tuple[PodAffinityTerm, ...] | None, pod: Pod) -> tuple[Term, ...]:
    return tuple(_term(each, pod.metadata.namespace) for each in raw or ())


def _term(raw: PodAffinityTerm, namespace: str) -> Term:
    """matchLabelKeys need no care: the API server has merged them into the selector."""
    named = frozenset(raw.namespaces or ())
    if not named and raw.namespace_selector is None:
        named = frozenset({namespace})
    return Term(
        named,
        read_selector(raw.namespace_selector),
        read_selector(raw.label_selector),
        raw.topology_key,
    )


def _spread(pod: Pod, labels: Labels) -> tuple[Spread, ...]:
    hard = [
        each
        for each in pod.spec.topology_spread_constraints or ()
        if each.when_unsatisfiable == "DoNotSchedule"
    ]
    keys = tuple(sorted({each.topology_key for each in hard}))
    return tuple(_constraint(each, keys, pod, labels) for each in hard)


def _constraint(
    raw: TopologySpreadConstraint, keys: tuple[str, ...], pod: Pod, labels: Labels
) -> Spread:
    also = {key: labels[key] for key in raw.match_label_keys or () if key in labels}
    honours_affinity = raw.node_affinity_policy != "Ignore"
    honours_taints = raw.node_taints_policy == "Honor"
    spec = pod.spec
    wishes = (spec.node_selector, spec.affinity.node_affinity if spec.affinity else None)
    return Spread(
        Term(
            frozenset({pod.metadata.namespace}),
            None,
            read_selector(raw.label_selector, also),
            raw.topology_key,
        ),
        Admission(
            keys,
            _encode(wishes) if honours_affinity and any(wishes) else b"",
            _encode(spec.tolerations or ()) if honours_taints else None,
        ),
        raw.max_skew,
        raw.min_domains or 1,
    )


def _claims(pod: Pod) -> tuple[str, ...]:
    names = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return tuple(names)


@dataclass(slots=True, eq=False)
class NodeFacts:
    """A node at one revision."""

    name: str
    labels: Labels
    taints: tuple[Taint, ...]
    is_unschedulable: bool
    allocatable: Amounts
    field_times: dict[str, float] = field(default_factory=dict)

    def is_same(self, other: NodeFacts) -> bool:
        """True if nothing changed that an audit reads; heartbeats change nothing of it."""
        return (
            self.labels == other.labels
            and self.taints == other.taints
            and self.is_unschedulable == other.is_unschedulable
            and self.allocatable == other.allocatable
        )


def node_facts(item: Item) -> NodeFacts:
    node: Node = item.object
    return NodeFacts(
        node.metadata.name,
        node.metadata.labels or {},
        node.spec.taints or (),
        node.spec.unschedulable,
        _offered(_encode(node.status.allocatable or {})),
        dict(item.field_times),
    )


@lru_cache(maxsize=1024)
def _offered(allocatable: bytes) -> Amounts:
    return offered(load_json(allocatable))
