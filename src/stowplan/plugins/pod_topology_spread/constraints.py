"""A pod's spread constraints, compiled: from its spec, or the defaults if it has none.

Hard constraints (DoNotSchedule) filter, soft ones (ScheduleAnyway) score. Each is compiled only
where it is used, so an invalid selector of a soft one does not keep a pod from being filtered.
Pods of one template spell the same constraints, so they are compiled once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from stowplan.api.labels import NOTHING, CompiledSelector, Requirement
from stowplan.api.objects import Pod, TopologySpreadConstraint
from stowplan.api.selectors import compile_label_selector
from stowplan.cluster.compiled import compile_once
from stowplan.cluster.domains import Inclusion
from stowplan.cluster.node_masks import required_nodes
from stowplan.cluster.pod_classes import CounterKey

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
_HONOR: Final = "Honor"

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


class Inclusions:
    """The nodes that count for each constraint of one pod, of those that carry some labels.

    Constraints with the same policies share one value, however many there are.
    """

    def __init__(self, pod: Pod, labels: tuple[str, ...]) -> None:
        self._pod = pod
        self._labels = labels
        self._made: dict[tuple[bool, bool], Inclusion] = {}

    def of(self, constraint: Constraint) -> Inclusion:
        policies = (constraint.honors_affinity, constraint.honors_taints)
        made = self._made.get(policies)
        if made is None:
            made = self._made[policies] = self._make(*policies)
        return made

    def _make(self, honors_affinity: bool, honors_taints: bool) -> Inclusion:
        spec = self._pod.spec
        required = None
        if honors_affinity:
            affinity = spec.affinity and spec.affinity.node_affinity
            if spec.node_selector or (affinity and affinity.required is not None):
                required = required_nodes(self._pod)
        return Inclusion(
            self._labels, required, (spec.tolerations or ()) if honors_taints else None
        )


Constraints: TypeAlias = tuple[Constraint, ...]


def own_constraints(pod: Pod, action: str) -> Constraints:
    """The hard or the soft constraints in a pod's spec. ValueError for an invalid selector."""
    spelled = pod.spec.topology_spread_constraints or ()
    labels = pod.metadata.labels or {}
    narrowing: dict[str, str] = {}
    for each in spelled:
        for key in each.match_label_keys or ():
            if key in labels:
                narrowing[key] = labels[key]
    return compile_once(
        action,
        (spelled, narrowing),
        lambda: _compile_own(spelled, action, narrowing),
        None if narrowing else pod.spec,
    )


def _compile_own(
    spelled: Iterable[TopologySpreadConstraint], action: str, narrowing: Mapping[str, str]
) -> Constraints:
    """`narrowing`: the pod's labels by which `matchLabelKeys` narrow the selectors further."""
    return tuple(
        _compile(
            each,
            compile_label_selector(each.label_selector).adding(
                Requirement(key, "In", (narrowing[key],))
                for key in each.match_label_keys or ()
                if key in narrowing
            ),
        )
        for each in spelled
        if each.when_unsatisfiable == action
    )


def with_selector(
    constraints: Sequence[TopologySpreadConstraint], selector: CompiledSelector
) -> Constraints:
    """Default constraints: they have no selector of their own, and get the same one."""
    return tuple(_compile(each, selector) for each in constraints)


def topology_keys(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    """The labels that a node must carry to take part."""
    return tuple(sorted({constraint.topology_key for constraint in constraints}))


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
