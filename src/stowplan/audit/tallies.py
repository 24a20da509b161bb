"""How many pods match a term in each topology domain, kept up to date as pods come and go.

A `Tally` belongs to a term, or to terms that a pod must match together, and is shared by all pods
that have them. An arriving pod meets only the tallies that ask for one of its labels, and a new
tally only the pods that have a label it asks for: nothing costs terms times pods.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Set
from functools import lru_cache
from typing import Final, TypeAlias

from stowplan.api.objects import Affinity, NodeAffinity, PodSpec, Toleration
from stowplan.audit.facts import Admission, NodeFacts, PodFacts, Spread, Term
from stowplan.audit.matching import Labels, untolerated, wants_node
from stowplan.loader.json_text import load_json

Domain: TypeAlias = tuple[str, str]
"""A topology key and a value of it."""

_Pods: TypeAlias = dict[str, PodFacts]
_NONE: Final[Mapping[str, PodFacts]] = {}


class DomainCounts:
    """How many pods each domain of a spread constraint has, with the least at hand."""

    def __init__(self, values: Iterable[str]) -> None:
        self._counts = dict.fromkeys(values, 0)
        #: How many domains have a number of pods.
        self._domains: Counter[int] = Counter({0: len(self._counts)} if self._counts else {})

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def least(self) -> int:
        return min(self._domains, default=0)

    def items(self) -> ItemsView[str, int]:
        return self._counts.items()

    def come(self, value: str) -> None:
        self._counts[value] = 0
        self._domains[0] += 1

    def go(self, value: str) -> None:
        self._leave(self._counts.pop(value))

    def change(self, value: str, by: int) -> None:
        count = self._counts[value]
        self._leave(count)
        self._counts[value] = count + by
        self._domains[count + by] += 1

    def _leave(self, count: int) -> None:
        self._domains[count] -= 1
        if not self._domains[count]:
            del self._domains[count]


class AdmittedNodes:
    """The nodes that count for spread constraints of one `Admission`, by domain."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._nodes: dict[str, Labels] = {}
        #: How many admitted nodes a domain has.
        self._sizes: Counter[Domain] = Counter()
        #: By topology key: those that follow which domains there are.
        self.followers: defaultdict[str, list[DomainCounts]] = defaultdict(list)

    def put(self, name: str, node: NodeFacts | None) -> None:
        """Add, change or remove a node, while no pod of it counts."""
        old = self._nodes.pop(name, None)
        for key in self._admission.keys if old is not None else ():
            domain = (key, old[key]) if old is not None else (key, "")
            self._sizes[domain] -= 1
            if not self._sizes[domain]:
                del self._sizes[domain]
                for each in self.followers[key]:
                    each.go(domain[1])
        if node is None or not admits(self._admission, node):
            return
        self._nodes[name] = node.labels
        for key in self._admission.keys:
            domain = (key, node.labels[key])
            self._sizes[domain] += 1
            if self._sizes[domain] == 1:
                for each in self.followers[key]:
                    each.come(domain[1])

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def values(self, key: str) -> Iterator[str]:
        return (value for name, value in self._sizes if name == key)

    def values_without(self, names: Set[str], key: str) -> set[str]:
        """The domains that exist without some nodes."""
        return {labels[key] for name, labels in self._nodes.items() if name not in names}


def admits(admission: Admission, node: NodeFacts) -> bool:
    """True if a node has all topology keys and passes the policies of a constraint."""
    if any(key not in node.labels for key in admission.keys):
        return False
    if admission.affinity and not wants_node(_wishes(admission.affinity), node.labels, node.name):
        return False
    return admission.tolerations is None or not untolerated(
        node.taints, _tolerations(admission.tolerations)
    )


@lru_cache(maxsize=1024)
def _wishes(encoded: bytes) -> PodSpec:
    selector, affinity = load_json(encoded, tuple[dict[str, str] | None, NodeAffinity | None])
    return PodSpec(node_selector=selector, affinity=Affinity(node_affinity=affinity))


@lru_cache(maxsize=1024)
def _tolerations(encoded: bytes) -> tuple[Toleration, ...]:
    return load_json(encoded, tuple[Toleration, ...])


class Tally:
    """The pods on nodes that match all of some terms, by domain."""

    def __init__(self, terms: tuple[Term, ...], admitted: AdmittedNodes | None = None) -> None:
        self.terms = terms
        #: Of a spread constraint. Only there terminating pods do not count.
        self.admitted = admitted
        self.domains: DomainCounts | None = None
        if admitted is not None:
            key = terms[0].topology_key
            self.domains = DomainCounts(admitted.values(key))
            admitted.followers[key].append(self.domains)
        self.users = 0
        self._keys = tuple({term.topology_key for term in terms})
        self._matching: defaultdict[Domain, _Pods] = defaultdict(dict)
        self._holding: defaultdict[Domain, _Pods] = defaultdict(dict)

    def label(self) -> tuple[str, frozenset[str]] | None:
        """A label that every matching pod has, and its possible values."""
        choices = [
            (len(each.values), each.key, each.values)
            for term in self.terms
            for each in term.selector or ()
            if each.operator == "In"
        ]
        if not choices:
            return None
        _, key, values = min(choices, key=lambda choice: choice[:2])
        return key, values

    def matches(self, pod: PodFacts, namespace_labels: Labels) -> bool:
        return all(term.matches(pod.namespace, namespace_labels, pod.labels) for term in self.terms)

    def counts(self, pod: PodFacts, namespace_labels: Labels) -> bool:
        """True if a pod counts where it stands."""
        if self.admitted is not None and (
            pod.pod.is_terminating
            or pod.node not in self.admitted
            or not self.terms[0].selector  # one that selects everything counts nothing
        ):
            return False
        return self.matches(pod, namespace_labels)

    def close(self) -> bool:
        """Follow the nodes no longer; returns whether others still do."""
        if self.admitted is None or self.domains is None:
            return True
        followers = self.admitted.followers
        followers[self.terms[0].topology_key].remove(self.domains)
        return any(followers.values())

    def add(self, pod: PodFacts, node: NodeFacts) -> None:
        for domain in self._domains(node):
            if self.domains is not None and pod.key not in self._matching[domain]:
                self.domains.change(domain[1], 1)
            self._matching[domain][pod.key] = pod

    def hold(self, pod: PodFacts, node: NodeFacts) -> None:
        """Count a pod that has the term itself, for anti-affinity of those that stand already."""
        for domain in self._domains(node):
            self._holding[domain][pod.key] = pod

    def remove(self, pod: PodFacts, node: NodeFacts) -> None:
        for domain in self._domains(node):
            if self.domains is not None and pod.key in self.matching(domain):
                self.domains.change(domain[1], -1)
            for found in (self._matching, self._holding):
                if domain in found:
                    found[domain].pop(pod.key, None)
                    if not found[domain]:
                        del found[domain]

    def clear_matching(self) -> None:
        self._matching.clear()

    def matching(self, domain: Domain) -> Mapping[str, PodFacts]:
        return self._matching.get(domain, _NONE)

    def holding(self, domain: Domain) -> Mapping[str, PodFacts]:
        return self._holding.get(domain, _NONE)

    def all_matching(self) -> Iterator[Mapping[str, PodFacts]]:
        return iter(self._matching.values())

    def _domains(self, node: NodeFacts) -> list[Domain]:
        return [(key, node.labels[key]) for key in self._keys if key in node.labels]


_TallyKey: TypeAlias = tuple[tuple[Term, ...], Admission | None]


class Tallies:
    """All tallies that some pod of the cluster needs."""

    def __init__(
        self, node: Callable[[str], NodeFacts | None], namespace: Callable[[str], Labels]
    ) -> None:
        self._node = node
        self._namespace = namespace
        self._tallies: dict[_TallyKey, Tally] = {}
        #: By a label that they ask for; under None are those that ask for none.
        self._by_label: defaultdict[Domain | None, list[Tally]] = defaultdict(list)
        self._admitted: dict[Admission, AdmittedNodes] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._pods: defaultdict[tuple[str, str] | None, _Pods] = defaultdict(dict)

    # What pods need

    def acquire(self, pod: PodFacts) -> None:
        for key in _needs(pod):
            tally = self._tallies.get(key) or self._make(key)
            tally.users += 1

    def release(self, pod: PodFacts) -> None:
        for key in _needs(pod):
            tally = self._tallies[key]
            tally.users -= 1
            if not tally.users:
                self._drop(key, tally)

    def _drop(self, key: _TallyKey, tally: Tally) -> None:
        del self._tallies[key]
        for label in self._labels(tally):
            self._by_label[label].remove(tally)
            if not self._by_label[label]:
                del self._by_label[label]
        _, admission = key
        if not tally.close() and admission is not None:
            del self._admitted[admission]

    def of(self, *terms: Term) -> Tally:
        return self._tallies[terms, None]

    def of_spread(self, spread: Spread) -> Tally:
        return self._tallies[(spread.term,), spread.admission]

    def asking_for(self, pod: PodFacts) -> Iterator[Tally]:
        """The tallies that a pod matches, whether or not it stands anywhere."""
        labels = self._namespace(pod.namespace)
        for tally in self._candidates(pod):
            if tally.admitted is None and tally.matches(pod, labels):
                yield tally

    # Changes of the cluster

    def place(self, pod: PodFacts) -> None:
        self._pods[None][pod.key] = pod
        for label in pod.labels.items():
            self._pods[label][pod.key] = pod
        node = self._node(pod.node)
        if node is None:
            return
        labels = self._namespace(pod.namespace)
        for tally in self._candidates(pod):
            if tally.counts(pod, labels):
                tally.add(pod, node)
        for term in pod.anti:
            self.of(term).hold(pod, node)

    def unplace(self, pod: PodFacts) -> None:
        for label in (None, *pod.labels.items()):
            self._pods[label].pop(pod.key, None)
            if not self._pods[label]:
                del self._pods[label]
        node = self._node(pod.node)
        if node is None:
            return
        for tally in self._candidates(pod):
            tally.remove(pod, node)
        for term in pod.anti:
            self.of(term).remove(pod, node)

    def set_node(self, name: str, node: NodeFacts | None) -> None:
        """Called while no pod of the node is placed."""
        if node is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node
        for admitted in self._admitted.values():
            admitted.put(name, node)

    def _make(self, key: _TallyKey) -> Tally:
        terms, admission = key
        tally = Tally(terms, self._admitted_nodes(admission) if admission else None)
        self._tallies[key] = tally
        for label in self._labels(tally):
            self._by_label[label].append(tally)
        self._fill(tally)
        return tally

    def _fill(self, tally: Tally) -> None:
        for label in self._labels(tally):
            for pod in self._pods.get(label, _NONE).values():
                node = self._node(pod.node)
                if node is not None and tally.counts(pod, self._namespace(pod.namespace)):
                    tally.add(pod, node)

    def refill(self) -> None:
        """Count again where a term chooses namespaces by label: those labels have changed."""
        for tally in self._tallies.values():
            if any(term.namespace_selector is not None for term in tally.terms):
                tally.clear_matching()
                self._fill(tally)

    def _admitted_nodes(self, admission: Admission) -> AdmittedNodes:
        found = self._admitted.get(admission)
        if found is None:
            found = self._admitted[admission] = AdmittedNodes(admission)
            for name, node in self._nodes.items():
                found.put(name, node)
        return found

    @staticmethod
    def _labels(tally: Tally) -> list[Domain | None]:
        label = tally.label()
        return [None] if label is None else [(label[0], value) for value in label[1]]

    def _candidates(self, pod: PodFacts) -> Iterator[Tally]:
        for label in (None, *pod.labels.items()):
            yield from self._by_label.get(label, ())


def _needs(pod: PodFacts) -> Iterator[_TallyKey]:
    for term in pod.anti:
        yield (term,), None
    if pod.affinity:
        yield pod.affinity, None
    for each in pod.spread:
        yield (each.term,), each.admission
