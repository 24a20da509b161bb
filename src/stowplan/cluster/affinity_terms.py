"""The terms of affinity that standing pods carry, found by the pod that they speak of.

`NodeTable` keeps the index as pods come and go; pods without such terms cost nothing. Pods that
carry the same term form one `TermGroup`, which knows how many stand on which row. A group is filed
under a label that its term requires (the one with the fewest other groups), so that finding the
terms that speak of a pod looks up the pod's own labels. What was found is kept for pods that no
term can tell apart, and follows a log of changes (`TermsAbout`): the next such pod pays for the
changes alone, however many terms speak of it. What must stay true: the groups equal a recount over
`table.pods`, none is empty, and what is kept equals what would be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.bytes_lru import BytesLru
from stowplan.cluster.derived import Derived
from stowplan.cluster.journal import ChangeLog
from stowplan.cluster.pod_affinity import AffinityTerm, PodTerms, pod_terms
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.work import STEP

if TYPE_CHECKING:
    from stowplan.cluster.table import Int64Array, NodeTable

#: A label key and a value, or None for any value.
_Label: TypeAlias = tuple[str, str | None]
#: Where a group is filed: under a label, in a namespace or (None) in all of them.
_File: TypeAlias = tuple[_Label, str | None]
#: Where terms are filed that require no label.
_ANY: Final[_Label] = ("", None)
#: A group is filed under each of its namespaces and values only if there are few of both together.
_FEW_FILES: Final = 64
#: How many changes are logged; after more, cached values are rebuilt.
_MANY_CHANGES: Final = 256
#: Groups with more namespaces, requirements or values than this are large.
_LARGE: Final = 64
_NO_LABELS: Final[dict[str, str]] = {}


class TermGroup(RowCounts):
    """How often a term is carried by the pods of each row."""

    __slots__ = ("files", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        super().__init__()
        self.term = term
        #: Of a preferred term, below zero for anti-affinity; 1 of a required one.
        self.weight = weight
        self.files: tuple[_File, ...] = ()

    @property
    def is_large(self) -> bool:
        requirements = self.term.selector.requirements
        parts = len(self.files) + len(self.term.namespaces) + len(requirements)
        return parts > _LARGE or sum(len(each.values) for each in requirements) > _LARGE


#: A group, a row, and by how much its terms there became more or less.
TermLog: TypeAlias = ChangeLog[tuple[TermGroup, int, int]]


class TermsAbout(Derived[tuple[TermGroup, int, int]]):
    """The groups that speak of one kind of pod, and their weights added up by domain."""

    __slots__ = ("_labels", "_matches", "_namespace", "_namespace_labels", "_versions", "groups",
                 "weights")  # fmt: skip

    def __init__(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> None:
        super().__init__()
        self._namespace = namespace
        self._labels = labels
        self._namespace_labels = namespace_labels
        #: The groups, in the order of their coming.
        self.groups: dict[TermGroup, None] = {}
        #: Topology key -> the sum of weight times pods, by value id of the label. Read only. The
        #: last entry, where `ABSENT` (-1) looks, is 0. Keys without a pod in a domain are absent.
        self.weights: dict[str, Int64Array] = {}
        #: Topology key -> how many terms of pods are in the sums.
        self._matches: dict[str, int] = {}
        #: The versions of those topology keys that some node has a label for.
        self._versions: dict[str, int] = {}

    @property
    def nbytes(self) -> int:
        arrays = sum(weights.nbytes for weights in self.weights.values())
        return arrays + 100 * (5 + len(self.groups) + len(self._labels))

    def is_about(self, term: AffinityTerm) -> bool:
        return term.accepts(self._namespace, self._labels, self._namespace_labels)

    def build(self, table: NodeTable, groups: Iterable[TermGroup], log: TermLog) -> None:
        """Add up the groups that speak of the pod."""
        self.stamp(table.labels.keys_version, (log,))
        self.groups = dict.fromkeys(groups)
        by_key: dict[str, list[TermGroup]] = {}
        for group in self.groups:
            by_key.setdefault(group.term.topology_key, []).append(group)
        self.weights, self._matches, self._versions = {}, {}, {}
        for key, speaking in by_key.items():
            if table.labels.carriers(key):
                self._add_up(table, key, speaking)

    def _add_up(self, table: NodeTable, key: str, groups: list[TermGroup]) -> None:
        self._versions[key] = table.labels.version(key)
        arrays = [group.arrays() for group in groups]
        values = table.labels.column(key)[np.concatenate([rows for rows, _ in arrays])]
        amounts = np.concatenate([amounts for _, amounts in arrays])
        weights = np.repeat([group.weight for group in groups], [len(rows) for rows, _ in arrays])
        inside = values >= 0
        sums = np.zeros(len(table.labels.values(key)) + 1, np.int64)
        np.add.at(sums, values[inside], (amounts * weights)[inside])
        self._matches[key] = int(amounts[inside].sum())
        if self._matches[key]:
            self.weights[key] = sums

    def follow(self, table: NodeTable, log: TermLog) -> int | None:
        """Apply changes of pods and return their number; None: rebuild."""
        labels = table.labels
        for key, version in self._versions.items():
            if labels.version(key) != version:
                return None
        changes = self.changes(labels.keys_version, (log,))
        if changes is None or len(changes) > _MANY_CHANGES:
            return None
        for group, row, delta in changes:
            if group not in self.groups and not self.is_about(group.term):
                continue
            if group.total:
                self.groups[group] = None
            else:
                self.groups.pop(group, None)
            key = group.term.topology_key
            if key not in self._versions:
                if not labels.carriers(key):
                    continue
                self._versions[key] = labels.version(key)
            value = labels.column(key)[row]
            if value < 0:
                continue
            sums = self.weights.get(key)
            if sums is None:
                sums = self.weights[key] = np.zeros(len(labels.values(key)) + 1, np.int64)
            sums[value] += group.weight * delta
            self._matches[key] = self._matches.get(key, 0) + delta
            if not self._matches[key]:
                del self.weights[key]
        self.confirm(labels.keys_version)
        return len(changes)


class TermFamily:
    """Terms of one kind."""

    def __init__(self, table: NodeTable, *, limit_bytes: int = 4 << 20) -> None:
        self._table = table
        self._groups: dict[tuple[AffinityTerm, int], TermGroup] = {}
        #: Groups in the order of their coming.
        self._files: dict[_File, dict[TermGroup, None]] = {}
        #: Label key -> the number of requirements of all groups that read it.
        self._keys: dict[str, int] = {}
        #: How many groups select namespaces by their labels.
        self._by_namespace_labels = 0
        self._log: TermLog = ChangeLog(limit=_MANY_CHANGES)
        self._about: BytesLru[tuple[object, ...], TermsAbout] = BytesLru(limit_bytes)

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[TermGroup]:
        return iter(self._groups.values())

    @property
    def nbytes(self) -> int:
        """The memory used besides the groups."""
        return self._about.nbytes

    def about(self, pod: Pod, namespace_labels: Mapping[str, str] | None) -> TermsAbout:
        """The groups whose term matches a pod, given the labels of its namespace.

        Read only, and good for one decision.
        """
        keys = self._keys
        namespace = pod.metadata.namespace
        # Only labels that some term reads can make a difference.
        labels = {k: v for k, v in (pod.metadata.labels or _NO_LABELS).items() if k in keys}
        spaces = (namespace_labels or _NO_LABELS) if self._by_namespace_labels else _NO_LABELS
        kind = (namespace, frozenset(labels.items()), frozenset(spaces.items()) if spaces else None)
        found = self._about.get(kind)
        changes = None if found is None else found.follow(self._table, self._log)
        if found is None or changes is None:
            found = TermsAbout(namespace, labels, spaces)
            asked, groups = self._find(found, namespace, labels)
            found.build(self._table, groups, self._log)
            self._about.put(kind, found, found.nbytes)
            self._table.work.spend(STEP * (20 + asked + 2 * len(groups)))
        elif changes:
            self._about.resize(kind, found.nbytes)
            self._table.work.spend(STEP * changes)
        return found

    def _find(
        self, about: TermsAbout, namespace: str, labels: Mapping[str, str]
    ) -> tuple[int, list[TermGroup]]:
        """How many groups were looked at, and those that match."""
        asked = 0
        found: list[TermGroup] = []
        for key, value in labels.items():
            for label in ((key, value), (key, None)):
                for scope in (namespace, None):
                    groups = self._files.get((label, scope), ())
                    asked += len(groups)
                    found += [group for group in groups if about.is_about(group.term)]
        for scope in (namespace, None):
            groups = self._files.get((_ANY, scope), ())
            asked += len(groups)
            found += [group for group in groups if about.is_about(group.term)]
        return asked, found

    def change(self, row: int, terms: Iterable[tuple[int, AffinityTerm]], delta: int) -> None:
        for weight, term in terms:
            group = self._groups.get((term, weight))
            if group is None:
                group = self._groups[term, weight] = TermGroup(term, weight)
                self._file(group)
            group.change(row, delta)
            self._log.append((group, row, delta))
            if not group.total:
                del self._groups[term, weight]
                self._unfile(group)
                if group.is_large:
                    # The log must not keep it alive. Readers notice, and rebuild.
                    self._log.keep_newest(0)

    def advance(self, ticks: int) -> None:
        """Let time pass, so that what is no longer asked for is evicted."""
        self._about.advance(ticks)

    def _file(self, group: TermGroup) -> None:
        group.files = min(self._choices(group.term), key=self._crowd)
        for file in group.files:
            self._files.setdefault(file, {})[group] = None
        self._count_keys(group.term, 1)

    def _unfile(self, group: TermGroup) -> None:
        for file in group.files:
            groups = self._files[file]
            del groups[group]
            if not groups:
                del self._files[file]
        self._count_keys(group.term, -1)

    def _choices(self, term: AffinityTerm) -> Iterator[tuple[_File, ...]]:
        """Where a group may be filed so that every pod that its term matches finds it."""
        if term.selector.nothing:
            yield ()
            return
        scopes: tuple[str | None, ...] = (None,)
        if term.namespace_selector.nothing and len(term.namespaces) <= _FEW_FILES:
            scopes = tuple(term.namespaces)
        is_filed = False
        for key, operator, values in term.selector.requirements:
            labels: tuple[_Label, ...]
            if operator == "In":
                labels = tuple((key, value) for value in values)
            elif operator == "Exists":
                labels = ((key, None),)
            else:
                continue
            is_filed = True
            few = len(labels) * len(scopes) <= _FEW_FILES
            yield tuple(product(labels, scopes if few else (None,)))
        if not is_filed:
            yield tuple(product((_ANY,), scopes))

    def _crowd(self, files: tuple[_File, ...]) -> int:
        return sum(len(self._files.get(file, ())) for file in files)

    def _count_keys(self, term: AffinityTerm, delta: int) -> None:
        self._by_namespace_labels += 0 if term.namespace_selector.nothing else delta
        for requirement in term.selector.requirements:
            left = self._keys.get(requirement.key, 0) + delta
            if left:
                self._keys[requirement.key] = left
            else:
                del self._keys[requirement.key]


class AffinityTermIndex:
    """All terms of the pods of one table."""

    def __init__(self, table: NodeTable) -> None:
        self.required = TermFamily(table)
        self.required_anti = TermFamily(table)
        self.preferred = TermFamily(table)

    @property
    def nbytes(self) -> int:
        return self.required.nbytes + self.required_anti.nbytes + self.preferred.nbytes

    # What the table says, after it has changed itself

    def change(self, row: int, pod: Pod, delta: int) -> None:
        """A pod with affinity came (+1) or went (-1)."""
        self._change(row, pod_terms(pod), delta)

    def replace(self, row: int, old: Pod, new: Pod) -> None:
        """A pod changed in place."""
        before, after = pod_terms(old), pod_terms(new)
        if before != after:
            self._change(row, before, -1)
            self._change(row, after, 1)

    def advance(self, ticks: int) -> None:
        """Let time pass, so that what is no longer asked for is evicted."""
        for family in (self.required, self.required_anti, self.preferred):
            family.advance(ticks)

    def _change(self, row: int, terms: PodTerms, delta: int) -> None:
        self.required.change(row, ((1, term) for term in terms.required), delta)
        self.required_anti.change(row, ((1, term) for term in terms.required_anti), delta)
        self.preferred.change(row, terms.preferred, delta)
