"""Changes of a node: uncordon it, take a taint away, label it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np

from stowplan.api.labels import Requirement, all_match, parse_int64
from stowplan.api.objects import Node
from stowplan.api.selectors import compile_label_set, compile_node_selector
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.label_columns import ABSENT
from stowplan.explain.change import LABEL_NODE, OPEN_NODE, TELL_NODE, Change
from stowplan.explain.commands import kubectl
from stowplan.explain.node_details import all_untolerated, taint_text, unmet
from stowplan.explain.pod_changes import CONDITION_TAINTS
from stowplan.explain.pod_details import HOSTNAME, key_text
from stowplan.framework.cycle import Cycle
from stowplan.plugins.pod_topology_spread.filtering import HardSpread

_CORDON: Final = "node.kubernetes.io/unschedulable"
#: Values for a label of which only the key, or what it must not be, is known.
_ANY_VALUES: Final = ("true", "yes", "1")


def uncordon(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Let a cordoned node take pods."""
    node = cycle.table.node(row)
    if not node.spec.unschedulable:
        return None
    text, command = f"uncordon the node {node.name}", kubectl(["uncordon"], [node.name])
    return _changed("Uncordon", text, TELL_NODE, command, node, _uncordoned)


def _uncordoned(node: Node) -> Node:
    taints = tuple(taint for taint in node.spec.taints or () if taint.key != _CORDON)
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    return msgspec.structs.replace(node, spec=spec)


def remove_taints(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Take the taints away that the pod does not tolerate. Other pods may come then, too."""
    node, gone = cycle.table.node(row), all_untolerated(cycle, row)
    if not gone or any(taint.key.startswith(CONDITION_TAINTS) for taint in gone):
        return None
    named = [taint_text(taint) for taint in gone]
    text = f"remove the taint{'s' if len(named) > 1 else ''} {' and '.join(named)} from {node.name}"
    command = kubectl(["taint"], ["nodes", node.name, *(f"{each}-" for each in named)])

    def edit(node: Node) -> Node:
        left = tuple(taint for taint in node.spec.taints or () if taint not in gone)
        return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=left))

    return _changed("Taint", text, OPEN_NODE + len(gone) - 1, command, node, edit)


# Labels


def label_node(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Give a node the labels that the pod's node selector and required affinity want."""
    node = cycle.table.node(row)
    new = wanted_labels(cycle, node.metadata.labels or {}, node.name)
    if not new or any(is_well_known(key) for key in new):
        return None
    return _labelled(node, new, "", 0)


def wanted_labels(
    cycle: Cycle, labels: Mapping[str, str], name: str
) -> dict[str, str | None] | None:
    """Labels to set, or with None to remove, so that the pod's node selector and required
    affinity match; None if no labels do."""
    spec = cycle.pod.spec
    always = compile_label_set(spec.node_selector).requirements
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is None or affinity.required is None:
        return solved(always, labels)
    found = [
        answer
        for term in compile_node_selector(affinity.required).terms
        if all_match(term.field_requirements, {"metadata.name": name})
        and (answer := solved((*always, *term.requirements), labels)) is not None
    ]
    return min(found, key=len) if found else None


def solved(
    requirements: Sequence[Requirement], labels: Mapping[str, str]
) -> dict[str, str | None] | None:
    """The changes of labels that meet all requirements; None if nothing meets them."""
    changes: dict[str, str | None] = {}
    for key in dict.fromkeys(each.key for each in unmet(requirements, dict(labels))):
        own = [each for each in requirements if each.key == key]
        fitting = [value for value in _candidates(own) if all_match(own, {key: value})]
        if fitting:
            changes[key] = fitting[0]
        elif all_match(own, {}):
            changes[key] = None
        else:
            return None
    return changes


def _candidates(requirements: Sequence[Requirement]) -> list[str]:
    found: list[str] = []
    for _, operator, values in requirements:
        if operator == "In":
            found += values
        elif operator in ("Gt", "Lt") and (bound := parse_int64(values[0])) is not None:
            found.append(str(bound + (1 if operator == "Gt" else -1)))
    if any(each.operator == "Exists" for each in requirements):
        found += _ANY_VALUES
    return found


def is_well_known(key: str) -> bool:
    """Labels that say where or what a node is must stay true."""
    return key.rpartition("/")[0].endswith(("kubernetes.io", "k8s.io"))


def label_for_spread(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Give a node the labels that the pod is spread over: the values of the emptiest domains."""
    hard, table = cycle.get(HardSpread), cycle.table
    node = table.node(row)
    new: dict[str, str | None] = {}
    for skew in hard.skews if hard is not None else ():
        key = skew.constraint.topology_key
        if table.labels.column(key)[row] != ABSENT:
            continue
        values = table.labels.values(key).values
        domains = np.flatnonzero(skew.are_domains)
        if key == HOSTNAME:
            new[key] = node.name
        elif len(domains):
            new[key] = values[int(domains[np.argmin(skew.counts[domains])])]
        else:
            new[key] = "a"
    if not new:
        return None
    placed = [key_text(key) for key in new if is_well_known(key) and key != HOSTNAME]
    doubt = f", if that is its {' and '.join(placed)}" if placed else ""
    return _labelled(node, new, doubt, len(placed))


def _labelled(node: Node, new: dict[str, str | None], doubt: str, extra: int) -> Change:
    labels = node.metadata.labels or {}
    set_ = [f"{key}={value}" for key, value in new.items() if value is not None]
    gone = [key for key, value in new.items() if value is None]
    parts = [f"label the node {node.name} with {' '.join(set_)}"] if set_ else []
    if gone:
        parts.append(f"remove the label {' and '.join(gone)} from {node.name}")
    overwrites = any(key in labels for key, value in new.items() if value is not None)
    words = ["label", *(["--overwrite"] if overwrites else [])]
    command = kubectl(words, ["nodes", node.name, *set_, *(f"{key}-" for key in gone)])
    cost = LABEL_NODE + len(new) + 2 * overwrites + 2 * len(gone) + extra
    text = f"{' and '.join(parts)}{doubt}"
    return _changed("NodeLabel", text, cost, command, node, partial(with_labels, new))


def with_labels(new: Mapping[str, str | None], node: Node) -> Node:
    """A copy of a node with labels set, or removed where the value is None."""
    labels = {**(node.metadata.labels or {}), **new}
    kept = {key: value for key, value in labels.items() if value is not None}
    metadata = msgspec.structs.replace(node.metadata, labels=kept)
    return msgspec.structs.replace(node, metadata=metadata)


def _changed(
    kind: str, text: str, cost: float, command: str, node: Node, edit: Callable[[Node], Node]
) -> Change:
    return Change(kind, text, cost, command, node=edit(node), edit_node=edit)
