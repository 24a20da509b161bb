"""Required terms: where a pod must not go, or may go at all.

Three maps say how many pods of interest stand around a node, by topology key and by the value that
the node's label has: pods that match all of the incoming pod's affinity terms, pods that match one
of its anti-affinity terms, and pods whose own anti-affinity terms match it. They are upstream's
maps, with an array over value ids for each key; PreFilter makes them, and a row is then judged by
looking up its label values. Nominated pods and victims change the counts around their own row only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from stowplan.api.objects import Pod
from stowplan.cluster.affinity_terms import TermsAbout
from stowplan.cluster.class_weights import add_term_weights
from stowplan.cluster.domain_sums import add_domain_sums
from stowplan.cluster.label_columns import ABSENT
from stowplan.cluster.pod_affinity import PodTerms, pod_terms
from stowplan.cluster.pod_classes import CounterKey
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.table import Int32Array, Int64Array, NodeTable
from stowplan.cluster.views import NodeView
from stowplan.framework.forms import RowSet
from stowplan.framework.plugin import NOT_KEPT
from stowplan.framework.status import unresolvable, unschedulable
from stowplan.plugins.inter_pod_affinity.terms import KnownNamespaces

FITS, AFFINITY, ANTI, EXISTING_ANTI = 0, 1, 2, 3
VERDICTS = (
    unresolvable("node(s) didn't match pod affinity rules"),
    unschedulable("node(s) didn't match pod anti-affinity rules"),
    unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
)

#: With more of them than that, what a pod meets is not likely to be met again.
_FEW_DOMAINS, _FEW_TERMS = 64, 16

#: Topology key -> pods by value id of that label; keys without any pod are absent.
Around: TypeAlias = dict[str, Int64Array]
#: Verdict and topology key -> how many more or fewer pods there are around one node.
Changes: TypeAlias = Counter[tuple[int, str]]


@dataclass(slots=True)
class FilterNotes:
    """What PreFilter found out for one pod; nothing changes it but `counted_for`."""

    pod: Pod
    namespace_labels: Mapping[str, str]
    #: The topology keys of the pod's affinity, and the pods that match all of it.
    affinity_keys: tuple[str, ...]
    affinity_counted: CounterKey
    #: Topology key and pods of each of its anti-affinity terms.
    anti_counted: tuple[tuple[str, CounterKey], ...]
    #: Terms of standing pods that keep the pod away.
    existing_anti: TermsAbout
    #: The maps, by verdict. Read only.
    around: dict[int, Around]
    #: The affinity's count over all nodes and keys.
    affinity_total: int = 0
    #: What each pod counts for that comes or goes in what-if questions. Preemption asks about the
    #: same victims again and again.
    counted_for: dict[PodInfo, list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def is_needed(self) -> bool:
        """Whether any node can fail."""
        return bool(self.affinity_keys or self.anti_counted or self.around[EXISTING_ANTI])

    def is_first(self, change: int = 0) -> bool:
        """Whether the pod's affinity is to pods like itself, and there are none yet."""
        return self.affinity_total + change == 0 and self.affinity_counted.matches(self.pod)


def prepare(
    table: NodeTable, pod: Pod, terms: PodTerms, namespaces: KnownNamespaces
) -> FilterNotes:
    """Look up the counts that a pod's required terms, and others' terms about it, lead to."""
    counted = CounterKey.all_of((namespaces.scope(term), term.selector) for term in terms.required)
    affinity: Around = {}
    anti: Around = {}
    namespace_labels = namespaces.labels_of(pod.metadata.namespace)
    existing_anti = table.affinity_terms.required_anti.about(pod, namespace_labels)
    notes = FilterNotes(
        pod=pod,
        namespace_labels=namespace_labels,
        affinity_keys=tuple(dict.fromkeys(term.topology_key for term in terms.required)),
        affinity_counted=counted,
        anti_counted=tuple(
            (term.topology_key, namespaces.counted_by(term)) for term in terms.required_anti
        ),
        existing_anti=existing_anti,
        around={AFFINITY: affinity, ANTI: anti, EXISTING_ANTI: existing_anti.weights},
    )
    for key in notes.affinity_keys:
        add_domain_sums(table, table.counters.get(counted), key, affinity)
    add_term_weights(
        table,
        tuple((1, term) for term in terms.required_anti),
        namespaces.counted_by,
        anti,
        lambda: ("anti", terms, namespaces.version),
    )
    notes.affinity_total = sum(int(counts.sum()) for counts in affinity.values())
    return notes


def surroundings(table: NodeTable, notes: FilterNotes) -> Hashable:
    """What the verdicts depend on besides the pods that stand on the row itself.

    Where no two nodes share a domain that is only whose pods are counted. Of a few domains it is
    what is said of each of them, and of many of them too much for it to come again.
    """
    met: list[Hashable] = []
    by_domain: set[tuple[int, str]] = {(AFFINITY, key) for key in notes.affinity_keys}
    counted = [(ANTI, key, unwanted) for key, unwanted in notes.anti_counted]
    if len(notes.existing_anti.groups) > _FEW_TERMS:
        return NOT_KEPT
    terms = [group.term for group in notes.existing_anti.groups]
    carried = [(EXISTING_ANTI, term.topology_key, term) for term in terms]
    for verdict, key, of_whom in (*counted, *carried):
        if table.labels.tells_apart(key):
            met.append((verdict, key, of_whom))
        else:
            by_domain.add((verdict, key))
    for verdict, key in sorted(by_domain):
        counts = notes.around[verdict].get(key)
        if counts is None:
            met.append((verdict, key, verdict == AFFINITY and notes.is_first()))
        elif len(counts) > _FEW_DOMAINS:
            return NOT_KEPT
        else:
            met.append((verdict, key, table.labels.version(key), (counts > 0).tobytes()))
    return tuple(met)


def judge_rows(table: NodeTable, notes: FilterNotes, rows: RowSet) -> Int32Array:
    """Verdict ids of many rows as they stand. What upstream asks first is written last."""
    size = len(range(table.capacity)[rows]) if isinstance(rows, slice) else len(rows)
    verdicts = np.zeros(size, np.int32)
    for verdict in (EXISTING_ANTI, ANTI):
        for key, counts in notes.around[verdict].items():
            verdicts[(counts > 0)[table.labels.column(key)[rows]]] = verdict
    affinity = notes.around[AFFINITY]
    for key in notes.affinity_keys:
        if key in affinity:
            # The last entry is 0, so that rows without the label fail too.
            verdicts[(affinity[key] == 0)[table.labels.column(key)[rows]]] = AFFINITY
        elif notes.is_first():
            verdicts[table.labels.column(key)[rows] == ABSENT] = AFFINITY
        else:
            verdicts[:] = AFFINITY
    return verdicts


def judge(table: NodeTable, notes: FilterNotes, node: NodeView) -> int:
    """The verdict id of one node, which may be hypothetical."""
    labels = node.labels
    changes = _changes(notes, node)

    def count(verdict: int, key: str) -> int:
        counts = notes.around[verdict].get(key)
        change = changes[verdict, key]
        if counts is None:
            return change
        value = table.labels.values(key).get(labels[key])
        assert value is not None, "a node's label values are known"
        return int(counts[value]) + change

    if any(key not in labels for key in notes.affinity_keys):
        return AFFINITY
    if any(count(AFFINITY, key) <= 0 for key in notes.affinity_keys):
        change = sum(changes[AFFINITY, key] for key in notes.affinity_keys)
        if not notes.is_first(change):
            return AFFINITY
    for verdict in (ANTI, EXISTING_ANTI):
        keys = {*notes.around[verdict], *(key for changing, key in changes if changing == verdict)}
        if any(key in labels and count(verdict, key) > 0 for key in keys):
            return verdict
    return FITS


def _changes(notes: FilterNotes, node: NodeView) -> Changes:
    """What pods that have come to, or gone from, a hypothetical node change around it."""
    changes: Changes = Counter()
    labels = node.labels
    for info, sign in node.changes:
        places = notes.counted_for.get(info)
        if places is None:
            places = notes.counted_for[info] = _counted_for(notes, info.pod)
        for place in places:
            if place[1] in labels:
                changes[place] += sign
    return changes


def _counted_for(notes: FilterNotes, pod: Pod) -> list[tuple[int, str]]:
    """The verdicts and topology keys for which another pod counts, once for each time."""
    places: list[tuple[int, str]] = []
    if notes.affinity_keys and notes.affinity_counted.matches(pod):
        places += [(AFFINITY, key) for key in notes.affinity_keys]
    places += [(ANTI, key) for key, counted in notes.anti_counted if counted.matches(pod)]
    places += [
        (EXISTING_ANTI, term.topology_key)
        for term in pod_terms(pod).required_anti
        if term.matches(notes.pod, notes.namespace_labels)
    ]
    return places
