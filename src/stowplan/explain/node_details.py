"""What one node itself lacks: resources, labels, tolerated taints, free host ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

import msgspec
import numpy as np

from stowplan.api.labels import Requirement, all_match
from stowplan.api.objects import Pod, Taint
from stowplan.api.quantity import format_quantity
from stowplan.api.selectors import (
    CompiledNodeSelectorTerm,
    compile_label_set,
    compile_node_selector,
)
from stowplan.api.tolerations import HARD_EFFECTS, Tolerations
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.ports import any_clash
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.cluster.table import NodeTable
from stowplan.explain.facts import Obstacle, PortConflict, Shortage, UnmetLabel
from stowplan.framework.cycle import Cycle

_PODS: Final = "pods"
#: Values of a label that are listed, and those that are compared with the wanted one.
_MOST_VALUES: Final = 3
_COMPARED: Final = 200
_NODE_NAME: Final = "metadata.name"


def amount_text(name: str, amount: int) -> str:
    """An amount as people write it: 2500m, 1536Mi, 3."""
    if name == CPU:
        return format_quantity(f"{amount}m")
    if name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith("hugepages-"):
        return _bytes_text(amount)
    return str(amount)


def _bytes_text(amount: int) -> str:
    for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            return f"{amount / size:.1f}".removesuffix(".0") + suffix
    return str(amount)


def resources(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    table = cycle.table
    said: list[str] = []
    short: list[Shortage] = []
    allowed, there = int(table.allowed_pods[row]), int(table.pod_count[row])
    if there + 1 > allowed:
        said.append(f"{_PODS}: {there} of {allowed} are there")
        short.append(Shortage(_PODS, "1", "0", str(allowed), "1"))
    for name, amount in cycle.info.request:
        offered, held = table.resources.offered_on(name, row), table.resources.held_on(name, row)
        free = max(offered - held, 0)
        if amount > free:
            amounts = (amount, free, offered, amount - free)
            asked, left, of, lacking = [amount_text(name, each) for each in amounts]
            said.append(f"{name}: asks for {asked}, {left} of {of} is free, {lacking} short")
            short.append(Shortage(name, asked, left, of, lacking))
    return msgspec.structs.replace(found, detail="; ".join(said), shortages=tuple(short))


def taints(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    named = [taint_text(taint) for taint in all_untolerated(cycle, row)]
    detail = f"taint{'s' if len(named) > 1 else ''} {', '.join(named)}" if named else ""
    return msgspec.structs.replace(found, detail=detail, taints=tuple(named))


def cordon(_cycle: Cycle, _row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    return msgspec.structs.replace(found, detail="the node is cordoned")


def untolerated(cycle: Cycle, row: int) -> Taint | None:
    """The first taint that keeps the pod off a node."""
    tolerations = Tolerations(cycle.pod.spec.tolerations)
    return tolerations.find_untolerated(cycle.table.node(row).spec.taints, HARD_EFFECTS)


def all_untolerated(cycle: Cycle, row: int) -> list[Taint]:
    """Every taint that keeps the pod off a node."""
    tolerations = Tolerations(cycle.pod.spec.tolerations)
    return [
        taint
        for taint in cycle.table.node(row).spec.taints or ()
        if taint.effect in HARD_EFFECTS and not tolerations.match(taint)
    ]


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it: key=value:effect."""
    return (
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
    )


def selector(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    labels = unmet_labels(cycle, row)
    return msgspec.structs.replace(
        found, detail="; ".join(map(_unmet_text, labels)), labels=tuple(labels)
    )


def unmet_labels(cycle: Cycle, row: int) -> list[UnmetLabel]:
    """What a node's labels and name lack for the pod's node selector and required affinity.

    Of several terms, the one that lacks least: one is enough.
    """
    spec, node = cycle.pod.spec, cycle.table.node(row)
    labels = node.metadata.labels or {}
    wanted = list(unmet(compile_label_set(spec.node_selector).requirements, labels))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        required = compile_node_selector(affinity.required)
        if not required.matches(labels, node.name):
            terms = [list(_unmet_of_term(each, labels, node.name)) for each in required.terms]
            wanted += sorted(terms, key=len)[0] if terms else ()
    return [_described(cycle.table, each, labels, node.name) for each in wanted]


def unmet(requirements: Iterable[Requirement], labels: dict[str, str]) -> Iterator[Requirement]:
    """The requirements that labels do not meet."""
    return (each for each in requirements if not all_match((each,), labels))


def _unmet_of_term(
    term: CompiledNodeSelectorTerm, labels: dict[str, str], name: str
) -> Iterator[Requirement]:
    yield from unmet(term.requirements, labels)
    yield from unmet(term.field_requirements, {_NODE_NAME: name})


def _described(
    table: NodeTable, wanted: Requirement, labels: dict[str, str], name: str
) -> UnmetLabel:
    if wanted.key == _NODE_NAME:
        return UnmetLabel(str(wanted), wanted.key, name)
    others = values_of(table, wanted.key, wanted.values)[: _MOST_VALUES + 1]
    return UnmetLabel(str(wanted), wanted.key, labels.get(wanted.key), tuple(others))


def values_of(table: NodeTable, key: str, like: Sequence[str]) -> list[str]:
    """The values that nodes have of a label, those most like the wanted ones first."""
    ids = np.unique(table.labels.column(key)[table.live_rows])
    known = table.labels.values(key).values
    values = [known[number] for number in ids[ids >= 0][:_COMPARED].tolist()]
    asked = like[:_MOST_VALUES]

    def distance(value: str) -> tuple[float, str]:
        ratios = (SequenceMatcher(None, value, each).ratio() for each in asked)
        return -max(ratios, default=0.0), value

    return sorted(values, key=distance)


def _unmet_text(lacking: UnmetLabel) -> str:
    if lacking.key == _NODE_NAME:
        return f"wants a node with {lacking.requirement}"
    has = "has no such label" if lacking.value is None else f"has {lacking.value or 'no value'}"
    others = [value for value in lacking.others if value != lacking.value]
    shown = ", ".join(value or '""' for value in others[:_MOST_VALUES])
    more = " and others" if len(others) > _MOST_VALUES else ""
    if others:
        return f"wants {lacking.requirement}, {has} (other nodes have {shown}{more})"
    return f"wants {lacking.requirement}, {has}"


def port_holders(cycle: Cycle, row: int) -> list[Pod]:
    """The pods of a node that use a host port which the pod asks for."""
    asked = cycle.info.host_ports
    standing = cycle.table.pods[row].values()
    return [info.pod for info in standing if any_clash(asked, info.host_ports)]


def ports(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    taken = tuple(
        PortConflict(asked.port, asked.protocol, info.pod.key)
        for asked in cycle.info.host_ports
        for info in cycle.table.pods[row].values()
        if any_clash((asked,), info.host_ports)
    )
    said = [f"host port {each.port}/{each.protocol} is used by {each.pod}" for each in taken[:4]]
    return msgspec.structs.replace(found, detail="; ".join(said), ports=taken)
