"""What other pods mean for one node: affinity, anti-affinity and topology spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from stowplan.api.objects import Pod
from stowplan.api.selectors import CompiledSelector
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.journal import Rows
from stowplan.cluster.label_columns import ABSENT
from stowplan.cluster.pod_affinity import AffinityTerm, pod_terms
from stowplan.cluster.pod_classes import Namespaces
from stowplan.cluster.row_counts import RowCounts
from stowplan.cluster.table import Int32Array, Int64Array, NodeTable
from stowplan.explain.facts import AffinityConflict, Obstacle, PodOnNode, SpreadConflict
from stowplan.framework.cycle import Cycle
from stowplan.plugins.inter_pod_affinity.filtering import FilterNotes
from stowplan.plugins.pod_topology_spread.filtering import HardSpread, Skew

HOSTNAME: Final = "kubernetes.io/hostname"
#: Labels that have a short name.
_SHORT: Final = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "failure-domain.beta.kubernetes.io/zone": "zone",
    "failure-domain.beta.kubernetes.io/region": "region",
}
#: Pods and domains that are named, and conflicts that are listed for one node.
_MOST_PODS: Final = 3
_MOST_DOMAINS: Final = 8
_MOST_CONFLICTS: Final = 4
NEAR, APART = "podAffinity", "podAntiAffinity"


def domain_text(key: str, value: str) -> str:
    """`on worker-1`, `in zone a`, `where rack=7`."""
    if key == HOSTNAME:
        return f"on {value}"
    return f"in {_SHORT[key]} {value}" if key in _SHORT else f"where {key}={value}"


def key_text(key: str) -> str:
    """`node`, `zone`, or the label itself."""
    return "node" if key == HOSTNAME else _SHORT.get(key, key)


# Affinity


def affinity(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    conflicts = tuple(affinity_conflicts(cycle, row))
    told = [each for each in conflicts if not _is_mutual(each, conflicts)]
    texts = [conflict_text(each) for each in told[:_MOST_CONFLICTS]]
    return msgspec.structs.replace(found, detail="; ".join(texts), affinity=conflicts)


def _is_mutual(conflict: AffinityConflict, others: Iterable[AffinityConflict]) -> bool:
    """Whether the pod itself has the same term about the same pods: replicas avoid each other."""
    same = msgspec.structs.replace(conflict, is_of_others=False)
    return conflict.is_of_others and same in others


def affinity_conflicts(cycle: Cycle, row: int) -> Iterator[AffinityConflict]:
    """Each term, of the pod or of others, that keeps the pod off a node."""
    notes = cycle.get(FilterNotes)
    for kind, key, selector, of_others, counts, is_one in _terms(cycle, notes):
        column = cycle.table.labels.column(key)
        value = int(column[row])
        domain = None if value == ABSENT else cycle.table.labels.values(key).values[value]
        by_row = counts.dense(cycle.table.capacity)
        inside = _rows_inside(column, row, by_row)
        if kind == NEAR:
            if len(inside) or (domain is not None and notes is not None and notes.is_first()):
                continue
            inside = np.flatnonzero((by_row > 0) & cycle.table.valid)
        elif not len(inside):
            continue
        pods = tuple(
            PodOnNode(pod.key, pod.spec.node_name)
            for pod in islice(_pods(cycle.table, inside, is_one), _MOST_PODS)
        )
        total = int(by_row[inside].sum())
        yield AffinityConflict(kind, selector, key, domain, of_others, pods, total)


def avoided_pods(cycle: Cycle, row: int, most: int) -> list[Pod]:
    """The pods in a node's domains that anti-affinity, theirs or the pod's, keeps it apart from."""
    found: dict[str, Pod] = {}
    for kind, key, _, _, counts, is_one in _terms(cycle, cycle.get(FilterNotes)):
        if kind == APART:
            column = cycle.table.labels.column(key)
            inside = _rows_inside(column, row, counts.dense(cycle.table.capacity))
            for pod in islice(_pods(cycle.table, inside, is_one), most):
                found[pod.uid] = pod
    return list(found.values())


def _rows_inside(column: Int32Array, row: int, by_row: Int64Array) -> Rows:
    """The rows with pods in the domain of a row."""
    if column[row] == ABSENT:
        return np.empty(0, np.intp)
    return np.flatnonzero((by_row > 0) & (column == column[row]))


def _terms(
    cycle: Cycle, notes: FilterNotes | None
) -> Iterator[tuple[str, str, str, bool, RowCounts, Callable[[Pod], bool]]]:
    """Kind, topology key, selector, whose it is, pods by row, and which pods those are."""
    if notes is None:
        return
    table, namespace = cycle.table, cycle.pod.metadata.namespace
    counted = notes.affinity_counted
    for key in notes.affinity_keys:
        text = selector_text(counted.selector, counted.namespaces, namespace)
        yield NEAR, key, text, False, table.counters.get(counted), counted.matches
    for key, avoided in notes.anti_counted:
        text = selector_text(avoided.selector, avoided.namespaces, namespace)
        yield APART, key, text, False, table.counters.get(avoided), avoided.matches
    for group in notes.existing_anti.groups:
        term = group.term
        text = selector_text(term.selector, term.namespaces or None, namespace)
        yield APART, term.topology_key, text, True, group, partial(_carries, term)


def _carries(term: AffinityTerm, pod: Pod) -> bool:
    return term in pod_terms(pod).required_anti


def selector_text(selector: CompiledSelector, namespaces: Namespaces, own: str) -> str:
    """A selector, with its namespaces where they are not the pod's own."""
    text = str(selector) or ("no pod" if selector.nothing else "any pod")
    if namespaces is None:
        return f"{text} in any namespace"
    others = sorted(namespaces)
    return text if others == [own] else f"{text} in namespace {', '.join(others[:3])}"


def _pods(table: NodeTable, rows: Rows, is_one: Callable[[Pod], bool]) -> Iterator[Pod]:
    return (
        info.pod for row in map(int, rows) for info in table.pods[row].values() if is_one(info.pod)
    )


def conflict_text(conflict: AffinityConflict) -> str:
    """One term, the pods that it is about, and where they are."""
    key, selector, domain = conflict.topology_key, conflict.selector, conflict.domain
    if domain is None:
        return f"the node has no label {key}, which its {conflict.kind} needs"
    where = domain_text(key, domain)
    if conflict.kind == NEAR:
        if not conflict.pods:
            return f"no pod matches its affinity to {selector}, {where} or elsewhere"
        return f"no pod matches its affinity to {selector} {where}; there is {_pods_text(conflict)}"
    within = "" if key == HOSTNAME else f" {where}"
    if conflict.is_of_others:
        return f"{_pods_text(conflict)} has anti-affinity to {selector}{within}"
    return f"its anti-affinity to {selector}{within}: there is {_pods_text(conflict)}"


def _pods_text(conflict: AffinityConflict) -> str:
    first = conflict.pods[0]
    more = conflict.pod_count - 1
    return f"{first.pod} on {first.node}" + (f" (and {more} more)" if more > 0 else "")


# Topology spread


def spread(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    conflicts = tuple(spread_conflicts(cycle, row))
    texts = [spread_text(each) for each in conflicts[:_MOST_CONFLICTS]]
    return msgspec.structs.replace(found, detail="; ".join(texts), spread=conflicts)


def spread_conflicts(cycle: Cycle, row: int) -> Iterator[SpreadConflict]:
    """Every hard constraint that a node would break, with the pods by domain."""
    hard = cycle.get(HardSpread)
    for skew in hard.skews if hard is not None else ():
        column = cycle.table.labels.column(skew.constraint.topology_key)
        if skew.by_value()[column[row]]:
            yield _spread_conflict(cycle.table, skew, int(column[row]))


def _spread_conflict(table: NodeTable, skew: Skew, own: int) -> SpreadConflict:
    constraint = skew.constraint
    values = table.labels.values(constraint.topology_key).values
    order = [
        number
        for number in np.argsort(skew.counts, kind="stable").tolist()
        if skew.are_domains[number]
    ][:_MOST_DOMAINS]
    if own != ABSENT and own not in order:
        order.append(own)
    count = 0 if own == ABSENT else int(skew.counts[own])
    return SpreadConflict(
        constraint.topology_key,
        str(constraint.selector) or "any pod",
        constraint.max_skew,
        None if own == ABSENT else values[own],
        {values[number]: int(skew.counts[number]) for number in order},
        skew.domain_count,
        0 if own == ABSENT else count - skew.limit + constraint.max_skew,
        constraint.min_domains,
    )


def spread_text(conflict: SpreadConflict) -> str:
    """`app=web per zone: c has 0, a 1; one more in a makes the skew 2 (maxSkew 1)`."""
    key = conflict.topology_key
    if conflict.domain is None:
        return f"the node has no label {key}, which its topology spread needs"
    shown = counts_text(conflict)
    few = ""
    if conflict.domain_count < conflict.min_domains:
        few = f", minDomains {conflict.min_domains}"
    return (
        f"{conflict.selector} per {key_text(key)}: {shown}; one more in {conflict.domain} makes the"
        f" skew {conflict.skew} (maxSkew {conflict.max_skew}{few})"
    )


def counts_text(conflict: SpreadConflict) -> str:
    """The emptiest domains and the node's own: `c has 0, a 1, b 1`."""
    ranked = sorted(conflict.counts, key=lambda each: (conflict.counts[each], each))
    shown = ranked[:4]
    if conflict.domain is not None and conflict.domain not in shown:
        shown = [*shown[:3], conflict.domain]
    first, *others = [(each, conflict.counts[each]) for each in shown]
    left = conflict.domain_count - len(shown)
    more = f" and {left} more" if left > 0 else ""
    rest = [f"{value} {count}" for value, count in others]
    return ", ".join([f"{first[0]} has {first[1]}", *rest]) + more
