"""A pod's spread constraints, compiled: from its spec, or the defaults if it has none.

Hard constraints (DoNotSchedule) filter, soft ones (ScheduleAnyway) score. Each is compiled only
where it is used, so an invalid selector of a soft one does not keep a pod from being filtered.
Pods of one template spell the same constraints, so they are compiled once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import msgspec

from stowplan.api.labels import NOTHING, CompiledSelector, Requirement
from stowplan.api.objects import LabelSelector, Pod, TopologySpreadConstraint
from stowplan.api.selectors import compile_label_selector
from stowplan.cluster.counters import CounterKey
from stowplan.cluster.domains import Inclusion
from stowplan.cluster.node_masks import required_nodes

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
_HONOR: Final = "Honor"
_Pairs: TypeAlias = tuple[tuple[str, str], ...]

#: What applies to pods without constraints of their own, unless the profile lists others.
SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SOFT, max_skew=3),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SOFT, max_skew=5
    ),
)


class Constraint(NamedTuple):
    """How evenly the pods that `selector` finds are to be spread over the values of a label."""

    topology_key: str
    max_skew: int
    selector: CompiledSelector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def counted(self, namespace: str) -> CounterKey:
        """The pods that count. As upstream has it, an empty selector counts none of them,
        although it matches any pod that it is asked about."""
        selector = NOTHING if self.selector.is_empty else self.selector
        return CounterKey(frozenset((namespace,)), selector, live=True)

    def inclusion(self, pod: Pod, labels: tuple[str, ...]) -> Inclusion:
        """The nodes that count for this pod, of those that carry some labels."""
        required = None
        if self.honors_affinity:
            affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
            if pod.spec.node_selector or (affinity and affinity.required is not None):
                required = required_nodes(pod)
        tolerations = (pod.spec.tolerations or ()) if self.honors_taints else None
        return Inclusion(labels, required, tolerations)


Constraints: TypeAlias = tuple[Constraint, ...]


def own_constraints(pod: Pod, action: str) -> Constraints:
    """The hard or the soft constraints in a pod's spec. ValueError for an invalid selector."""
    spelled = pod.spec.topology_spread_constraints or ()
    compiled = _compiled(msgspec.msgpack.encode(spelled), action)
    labels = pod.metadata.labels or {}
    return tuple(
        constraint._replace(selector=_narrowed(constraint.selector, pairs))
        if keys and (pairs := tuple((key, labels[key]) for key in keys if key in labels))
        else constraint
        for constraint, keys in compiled
    )


def with_selector(
    constraints: Sequence[TopologySpreadConstraint], selector: CompiledSelector
) -> Constraints:
    """Default constraints: they have no selector of their own, and get the same one."""
    return tuple(_compile(each, selector) for each in constraints)


def topology_keys(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    """The labels that a node must carry to take part."""
    return tuple(sorted({constraint.topology_key for constraint in constraints}))


def label_selector(selector: LabelSelector | None) -> CompiledSelector:
    """A compiled selector, shared by all that spell it the same. ValueError for an invalid one."""
    return _label_selector(msgspec.msgpack.encode(selector))


@lru_cache(maxsize=4096)
def _label_selector(encoded: bytes) -> CompiledSelector:
    return compile_label_selector(msgspec.msgpack.decode(encoded, type=LabelSelector | None))


@lru_cache(maxsize=4096)
def _compiled(encoded: bytes, action: str) -> tuple[tuple[Constraint, tuple[str, ...]], ...]:
    """Constraints, and the keys of the pod's labels that narrow their selectors further."""
    spelled = msgspec.msgpack.decode(encoded, type=tuple[TopologySpreadConstraint, ...])
    return tuple(
        (_compile(each, compile_label_selector(each.label_selector)), each.match_label_keys or ())
        for each in spelled
        if each.when_unsatisfiable == action
    )


@lru_cache(maxsize=4096)
def _narrowed(selector: CompiledSelector, pairs: _Pairs) -> CompiledSelector:
    return selector.adding(Requirement(key, "In", (value,)) for key, value in pairs)


def _compile(constraint: TopologySpreadConstraint, selector: CompiledSelector) -> Constraint:
    affinity_policy = constraint.node_affinity_policy
    return Constraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=affinity_policy is None or affinity_policy == _HONOR,
        honors_taints=constraint.node_taints_policy == _HONOR,
    )
