"""How many pods of a kind stand on each row, kept up to date as pods come and go.

Affinity and spreading ask for a `PodCounter` by namespaces and selector; it is built once, from the
shortest list of pods that could match, and from then on changed by `NodeTable` with every pod.
Nothing is kept before the first counter is asked for. What must stay true: a counter equals a
recount over `table.pods`, and a pod's coming costs the same whatever the number of nodes: it looks
up its own labels and touches only counters that require one of them.

Counters know rows, not nodes: ghost rows count too, and readers that add rows up into domains leave
them out (a ghost has no label values). Namespace selectors are expanded to names by the reader, and
so is the rule that spreading counts nobody for an empty selector.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stowplan.api.labels import (
    EVERYTHING,
    NOTHING,
    CompiledSelector,
    Requirement,
    all_match,
)
from stowplan.api.objects import Pod
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.row_counts import RowCounts

if TYPE_CHECKING:
    from stowplan.cluster.table import NodeTable

#: Names of namespaces; None stands for all of them.
Namespaces: TypeAlias = frozenset[str] | None

#: Pods by UID, and the row that each stands on.
_Posting: TypeAlias = dict[str, int]

_Label: TypeAlias = tuple[str, str]
# What every pod has: under this label, namespaces are indexed like any label value.
_ANY_POD: _Label = ("", "")


class CounterKey(NamedTuple):
    """Which pods are counted."""

    namespaces: Namespaces
    selector: CompiledSelector
    #: Leaves out pods that are being deleted, as spreading does and affinity does not.
    live: bool = False

    @classmethod
    def all_of(
        cls, terms: Iterable[tuple[Namespaces, CompiledSelector]], *, live: bool = False
    ) -> CounterKey:
        """Pods that match every one of some terms."""
        namespaces: Namespaces = None
        selector = EVERYTHING
        for names, wanted in terms:
            if names is not None:
                namespaces = names if namespaces is None else namespaces & names
            selector = NOTHING if wanted.nothing else selector.adding(wanted.requirements)
        return cls(namespaces, selector, live)

    def matches(self, pod: Pod) -> bool:
        return (
            (self.namespaces is None or pod.metadata.namespace in self.namespaces)
            and not (self.live and pod.is_terminating)
            and self.selector.matches(pod.metadata.labels)
        )


class PodCounter(RowCounts):
    """Matching pods by row, and a log of what changed since.

    A reader that keeps sums of its own remembers `position` and the counter itself: a counter that
    was dropped is replaced by another, which has another history.
    """

    __slots__ = ("_rest", "key", "watched")

    def __init__(self, key: CounterKey) -> None:
        super().__init__()
        self.key = key
        #: The label (or none) and its values under which pods are announced to this counter.
        self.watched: tuple[str, Sequence[str]] = ("", ())
        #: What is left to be asked of a pod that was announced.
        self._rest: tuple[Requirement, ...] = ()

    # The rest is for `PodCounters` alone

    def watch(self, label: str, values: Sequence[str]) -> None:
        """Rely on being told only of pods that have one of these values, in these namespaces."""
        self.watched = (label, values)
        self._rest = tuple(
            requirement
            for requirement in self.key.selector.requirements
            if requirement != Requirement(label, "In", tuple(values))
        )

    def accepts(self, pod: Pod) -> bool:
        """Whether a pod that was announced is to be counted."""
        if self.key.live and pod.metadata.deletion_timestamp is not None:
            return False
        return not self._rest or all_match(self._rest, pod.metadata.labels or {})


class PodCounters:
    """All counters of one table, the least recently asked for dropped when there are too many."""

    def __init__(self, table: NodeTable, *, limit: int = 4096) -> None:
        self._table = table
        self._limit = limit
        self._counters: OrderedDict[CounterKey, PodCounter] = OrderedDict()
        #: Label key -> value -> namespace -> pods, for the keys that some selector requires.
        self._postings: dict[str, dict[str, dict[str, _Posting]]] = {}
        #: Label key and value -> namespace, or None for all -> the counters that require them.
        self._watchers: dict[tuple[str, str], dict[str | None, dict[PodCounter, None]]] = {}
        #: Whether anything is kept; while it is not, pods need not be announced.
        self.is_active = False

    def __len__(self) -> int:
        return len(self._counters)

    def __iter__(self) -> Iterator[PodCounter]:
        return iter(self._counters.values())

    def get(self, key: CounterKey) -> PodCounter:
        """The counter of a key, made when first asked for."""
        counter = self._counters.get(key)
        if counter is not None:
            self._counters.move_to_end(key)
            return counter
        if not self.is_active:
            self.is_active = True
            self._index(_ANY_POD[0])
        counter = self._build(key)
        self._counters[key] = counter
        if len(self._counters) > self._limit:
            _, oldest = self._counters.popitem(last=False)
            self._unwatch(oldest)
        return counter

    # What the table says, after it has changed itself

    def add(self, row: int, info: PodInfo) -> None:
        pod = info.pod
        namespace = pod.metadata.namespace
        labels = self._indexed_labels(pod)
        for label, value in labels:
            _posting_of(self._postings[label], value, namespace)[info.uid] = row
        self._announce(row, pod, labels, 1)

    def remove(self, row: int, info: PodInfo) -> None:
        pod = info.pod
        namespace = pod.metadata.namespace
        labels = self._indexed_labels(pod)
        for label, value in labels:
            by_value = self._postings[label]
            posting = by_value[value][namespace]
            del posting[info.uid]
            if not posting:
                del by_value[value][namespace]
                if not by_value[value]:
                    del by_value[value]
        self._announce(row, pod, labels, -1)

    def replace(self, row: int, old: PodInfo, new: PodInfo) -> None:
        """A pod changed in place; only its labels and its deletion matter here."""
        if (
            old.pod.metadata.labels != new.pod.metadata.labels
            or old.pod.is_terminating != new.pod.is_terminating
        ):
            self.remove(row, old)
            self.add(row, new)

    # Inside

    def _announce(self, row: int, pod: Pod, labels: Sequence[_Label], delta: int) -> None:
        for label in labels:
            by_namespace = self._watchers.get(label)
            if by_namespace is None:
                continue
            for scope in (pod.metadata.namespace, None):
                for counter in by_namespace.get(scope, ()):
                    if counter.accepts(pod):
                        counter.change(row, delta)

    def _indexed_labels(self, pod: Pod) -> list[_Label]:
        """The pod's labels that some selector has asked for."""
        found = [_ANY_POD]
        labels = pod.metadata.labels
        if labels:
            postings = self._postings
            found += [item for item in labels.items() if item[0] in postings]
        return found

    def _index(self, label: str) -> None:
        """Start keeping lists of the pods that carry a label; the only scan of all pods."""
        by_value: dict[str, dict[str, _Posting]] = {}
        self._postings[label] = by_value
        for row, pods in enumerate(self._table.pods):
            for uid, info in pods.items():
                meta = info.pod.metadata
                value = "" if not label else (meta.labels or {}).get(label)
                if value is not None:
                    _posting_of(by_value, value, meta.namespace)[uid] = row

    def _build(self, key: CounterKey) -> PodCounter:
        counter = PodCounter(key)
        if key.selector.nothing or key.namespaces == frozenset():
            return counter
        choices: list[tuple[str, Sequence[str]]] = [("", ("",))]
        for requirement in key.selector.requirements:
            if requirement.operator == "In":
                if requirement.key not in self._postings:
                    self._index(requirement.key)
                choices.append((requirement.key, requirement.values))
        postings: list[_Posting] = []
        fewest = -1
        # Labels before "any pod" when the lists are equally long: they stay short.
        for label, values in reversed(choices):
            lists = self._lists(label, values, key.namespaces)
            size = sum(map(len, lists))
            if fewest < 0 or size < fewest:
                fewest, postings = size, lists
                counter.watch(label, values)
        pods = self._table.pods
        for posting in postings:
            for uid, row in posting.items():
                if counter.accepts(pods[row][uid].pod):
                    counter.count(row, 1)
        for watched, scope in _watches(counter):
            self._watchers.setdefault(watched, {}).setdefault(scope, {})[counter] = None
        return counter

    def _lists(self, label: str, values: Sequence[str], namespaces: Namespaces) -> list[_Posting]:
        lists: list[_Posting] = []
        for value in values:
            by_namespace = self._postings[label].get(value, {})
            if namespaces is None:
                lists += by_namespace.values()
            else:
                lists += [by_namespace[name] for name in namespaces if name in by_namespace]
        return lists

    def _unwatch(self, counter: PodCounter) -> None:
        for watched, scope in _watches(counter):
            by_namespace = self._watchers[watched]
            del by_namespace[scope][counter]
            if not by_namespace[scope]:
                del by_namespace[scope]
                if not by_namespace:
                    del self._watchers[watched]


def _posting_of(by_value: dict[str, dict[str, _Posting]], value: str, namespace: str) -> _Posting:
    by_namespace = by_value.get(value)
    if by_namespace is None:
        by_namespace = by_value[value] = {}
    posting = by_namespace.get(namespace)
    if posting is None:
        posting = by_namespace[namespace] = {}
    return posting


def _watches(counter: PodCounter) -> Iterator[tuple[_Label, str | None]]:
    label, values = counter.watched
    scopes: Iterable[str | None] = (None,)
    if counter.key.namespaces is not None:
        scopes = counter.key.namespaces
    return (((label, value), scope) for value in values for scope in scopes)
