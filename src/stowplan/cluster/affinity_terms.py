"""The terms of affinity that standing pods carry, found by the pod that they speak of.

`NodeTable` keeps the index as pods come and go; pods without such terms cost nothing. Pods that
carry the same term form one `TermGroup`, which knows how many stand on which row. A group is filed
under a label that its term requires (the one with the fewest other groups) and the namespaces that
it names, so that finding the terms that speak of a pod looks up the pod's own labels, whatever the
number of pods and terms. What must stay true: the groups equal a recount over `table.pods`, and
none is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from stowplan.api.objects import Pod
from stowplan.cluster.pod_affinity import AffinityTerm, PodTerms, pod_terms
from stowplan.cluster.row_counts import RowCounts

_Label: TypeAlias = tuple[str, str]
#: Where terms are filed that require no label to have a certain value.
_ANY: tuple[_Label, ...] = (("", ""),)


class TermGroup(RowCounts):
    """How often a term is carried by the pods of each row."""

    __slots__ = ("filed_under", "term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        super().__init__()
        self.term = term
        #: Of a preferred term; below zero for anti-affinity.
        self.weight = weight
        self.filed_under: tuple[_Label, ...] = ()


class TermFamily:
    """Terms of one kind."""

    def __init__(self) -> None:
        self._groups: dict[tuple[AffinityTerm, int], TermGroup] = {}
        #: Label -> namespace, or None for any -> groups, in the order of their coming.
        self._files: dict[_Label, dict[str | None, dict[TermGroup, None]]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[TermGroup]:
        return iter(self._groups.values())

    def speaking_of(self, pod: Pod, namespace_labels: Mapping[str, str] | None) -> list[TermGroup]:
        """The groups whose term matches a pod, given the labels of its namespace."""
        files = self._files
        namespace = pod.metadata.namespace
        found: list[TermGroup] = []
        for label in (*_ANY, *(pod.metadata.labels or {}).items()):
            by_namespace = files.get(label)
            if by_namespace is not None:
                for scope in (namespace, None):
                    found += [
                        group
                        for group in by_namespace.get(scope, ())
                        if group.term.matches(pod, namespace_labels)
                    ]
        return found

    def change(self, row: int, terms: Iterable[tuple[int, AffinityTerm]], delta: int) -> None:
        for weight, term in terms:
            group = self._groups.get((term, weight))
            if group is None:
                group = self._groups[term, weight] = TermGroup(term, weight)
                self._file(group)
            group.change(row, delta)
            if not group.counts:
                del self._groups[term, weight]
                self._unfile(group)

    def _file(self, group: TermGroup) -> None:
        choices = [
            tuple((requirement.key, value) for value in requirement.values)
            for requirement in group.term.selector.requirements
            if requirement.operator == "In"
        ]
        group.filed_under = min(choices, key=self._crowd, default=_ANY)
        for label in group.filed_under:
            by_namespace = self._files.setdefault(label, {})
            for scope in _scopes(group.term):
                by_namespace.setdefault(scope, {})[group] = None

    def _unfile(self, group: TermGroup) -> None:
        for label in group.filed_under:
            by_namespace = self._files[label]
            for scope in _scopes(group.term):
                del by_namespace[scope][group]
                if not by_namespace[scope]:
                    del by_namespace[scope]
            if not by_namespace:
                del self._files[label]

    def _crowd(self, labels: tuple[_Label, ...]) -> int:
        return sum(
            len(groups) for label in labels for groups in self._files.get(label, {}).values()
        )


class AffinityTermIndex:
    """All terms of the pods of one table."""

    def __init__(self) -> None:
        self.required = TermFamily()
        self.required_anti = TermFamily()
        self.preferred = TermFamily()

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

    def _change(self, row: int, terms: PodTerms, delta: int) -> None:
        self.required.change(row, ((0, term) for term in terms.required), delta)
        self.required_anti.change(row, ((0, term) for term in terms.required_anti), delta)
        self.preferred.change(row, terms.preferred, delta)


def _scopes(term: AffinityTerm) -> Iterable[str | None]:
    """A term with a selector of namespaces may speak of any; one without, of those it names."""
    return term.namespaces if term.namespace_selector.nothing else (None,)
