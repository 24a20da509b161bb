"""Hard constraints: no domain may hold many more of the pods than the emptiest one.

`HardSpread` is what PreFilter leaves for Filter. It reads the table's kept sums by domain; for
what-if questions it is cloned, and a clone that changes copies the sums first. Invariant: the
table's own sums are never written to.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.domains import DomainCounts, lowest_of
from stowplan.cluster.table import BoolArray, Int32Array, Int64Array, NodeTable
from stowplan.cluster.work import STEP
from stowplan.framework.forms import RowSet
from stowplan.plugins.pod_topology_spread.constraints import (
    Constraint,
    Constraints,
    Inclusions,
    topology_keys,
)

#: Verdict ids.
LABEL_MISSING: Final = 1
TOO_SKEWED: Final = 2

#: Upstream's "smallest count" where there is no domain to count in.
_NO_DOMAIN: Final = 2**31 - 1
#: The zones of a region; of more, too many subsets can be too full for any of them to come again.
_FEW_DOMAINS: Final = 6


class Skew:
    """One hard constraint, and the pods in every domain, as they are or as they would be."""

    __slots__ = ("_domains", "_limit", "_self_match", "constraint", "counts")

    def __init__(self, constraint: Constraint, domains: DomainCounts, *, self_match: bool) -> None:
        self.constraint = constraint
        self._domains = domains
        #: Pods by value id of the topology key.
        self.counts: Int64Array = domains.counts
        self._self_match = self_match
        self._limit: int | None = None

    @property
    def domain_count(self) -> int:
        return self._domains.domain_count

    @property
    def are_domains(self) -> BoolArray:
        """By value id: whether it is the value of a node that takes part."""
        return self._domains.are_domains

    @property
    def label_version(self) -> int:
        """Value ids mean the same while it is the same."""
        return self._domains.label_version

    @property
    def limit(self) -> int:
        """How many pods a domain may hold to take this one as well."""
        if self._limit is None:
            lowest: int | None = 0
            if self._domains.domain_count >= self.constraint.min_domains:
                lowest = lowest_of(self.counts, self._domains.are_domains)
            smallest = _NO_DOMAIN if lowest is None else lowest
            self._limit = self.constraint.max_skew + smallest - self._self_match
        return self._limit

    def change(self, table: NodeTable, row: int, delta: int) -> None:
        """A matching pod comes to a row, or goes."""
        if not self._domains.participants.mask[row]:
            return
        if self.counts is self._domains.counts:
            self.counts = self.counts.copy()
        self.counts[table.labels.column(self.constraint.topology_key)[row]] += delta
        self._limit = None

    def by_value(self) -> Int32Array:
        """Verdict ids by value id of the topology key."""
        verdicts = (self.counts > self.limit) * np.int32(TOO_SKEWED)
        verdicts[-1] = LABEL_MISSING
        return verdicts

    def verdicts(self, table: NodeTable, rows: RowSet) -> Int32Array:
        return self.by_value().take(table.labels.column(self.constraint.topology_key)[rows])

    def clone(self) -> Skew:
        twin = Skew(self.constraint, self._domains, self_match=self._self_match)
        if self.counts is not self._domains.counts:
            twin.counts = self.counts.copy()
        twin._limit = self._limit
        return twin


class HardSpread:
    """A pod's hard constraints, in the order in which they are judged."""

    def __init__(self, skews: list[Skew]) -> None:
        self._skews = skews

    @classmethod
    def of(cls, pod: Pod, table: NodeTable, constraints: Constraints) -> HardSpread:
        inclusions = Inclusions(pod, topology_keys(constraints))
        return cls(
            [
                Skew(
                    constraint,
                    table.domains.counts(
                        constraint.counted(pod.metadata.namespace),
                        constraint.topology_key,
                        inclusions.of(constraint),
                    ),
                    self_match=constraint.selector.matches(pod.metadata.labels),
                )
                for constraint in constraints
            ]
        )

    @property
    def skews(self) -> Sequence[Skew]:
        """Each constraint with the pods in its domains. Read only."""
        return self._skews

    @property
    def has_many_domains(self) -> bool:
        """Whether the same verdicts on all domains are not likely to come again."""
        return any(skew.domain_count > _FEW_DOMAINS for skew in self._skews)

    def by_domain(self) -> Hashable:
        """A key that is equal for pods with the same verdict on every domain."""
        return tuple(
            [
                (skew.constraint.topology_key, skew.label_version, skew.by_value().tobytes())
                for skew in self._skews
            ]
        )

    def clone(self) -> HardSpread:
        return HardSpread([skew.clone() for skew in self._skews])

    def what_if(self, table: NodeTable, other: Pod, row: int, delta: int) -> None:
        """Another pod of the namespace comes to a row, or goes.

        As upstream has it, pods count here that were not counted before: terminating ones, and
        all of them where the selector is empty. A count may sink below zero.
        """
        for skew in self._skews:
            if skew.constraint.selector.matches(other.metadata.labels):
                skew.change(table, row, delta)

    def fill(self, table: NodeTable, rows: RowSet, out: Int32Array) -> None:
        """Judge every domain once, and look the rows up; the first broken constraint counts."""
        first, *others = self._skews
        verdicts = first.verdicts(table, rows)
        for skew in others:
            if verdicts.all():
                break
            verdicts = np.where(verdicts == 0, skew.verdicts(table, rows), verdicts)
            table.work.spend(10 * STEP + 4 * len(verdicts))
        out[rows] = verdicts

    def judge(self, table: NodeTable, labels: Mapping[str, str]) -> int:
        """The verdict id of a node with these labels."""
        for skew in self._skews:
            key = skew.constraint.topology_key
            if key not in labels:
                return LABEL_MISSING
            value = table.labels.values(key).get(labels[key])
            if value is not None and skew.counts[value] > skew.limit:
                return TOO_SKEWED
        return 0
