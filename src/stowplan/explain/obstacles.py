"""What exactly keeps a pod away from one node: every plugin's objection, with its numbers.

A scheduling attempt stops at the first filter that refuses a node. Here all filters are asked, so
that removing one obstacle does not only reveal the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import numpy as np

from stowplan.api.labels import Requirement, all_match
from stowplan.api.objects import Pod, Taint
from stowplan.api.quantity import format_quantity
from stowplan.api.selectors import compile_label_set, compile_node_selector
from stowplan.api.tolerations import HARD_EFFECTS, Tolerations
from stowplan.cluster.journal import Rows
from stowplan.cluster.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from stowplan.errors import StowplanError
from stowplan.explain.explanation import NodeAnswer, Obstacle
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.profile import Profile

#: How many of a pod's objections to list for one node.
_MOST: Final = 8
_PODS: Final = "pods"
#: How many objections one of these plugins counts for.
_DISTANCE: Final = {"NodeAffinity": 10, "NodeName": 100}
_Detail: TypeAlias = Callable[[Cycle, int], str]


def nearest_rows(profile: Profile, diagnosis: Diagnosis, count: int) -> list[int]:
    """The rows that lack least: fewest objections first, then the smallest share that is short.

    A node that the pod's selector does not mean is further away than any that it means.
    """
    cycle = diagnosis.cycle
    table = cycle.table
    rows = table.live_rows
    objections = np.zeros(table.capacity, np.int32)
    if diagnosis.candidates is not None:
        objections[rows] += ~diagnosis.candidates[rows]
    for step in profile.filters:
        if step.name in cycle.skip_filter:
            continue
        verdicts = np.zeros(table.capacity, np.int32)
        try:
            step.fill(cycle, rows, verdicts)
        except StowplanError:
            continue  # the reason is in the decision
        objections[rows] += (verdicts[rows] != 0) * _DISTANCE.get(step.name, 1)
    order = np.lexsort((rows, _shortage(cycle, rows), objections[rows]))
    return [int(row) for row in rows[order[:count]]]


def _shortage(cycle: Cycle, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How much of the pod's largest shortfall is missing on each row, as a share of its request."""
    table = cycle.table
    worst = np.zeros(len(rows), np.float64)
    for name, amount in cycle.info.request:
        if amount > 0:
            free = table.resources.offered(name)[rows] - table.resources.held(name)[rows]
            np.maximum(worst, (amount - free) / amount, out=worst)
    return worst


def obstacles_of(profile: Profile, diagnosis: Diagnosis, row: int) -> NodeAnswer:
    """A node with everything that speaks against it."""
    cycle = diagnosis.cycle
    found: list[Obstacle] = []
    if diagnosis.candidates is not None and not diagnosis.candidates[row]:
        status = diagnosis.absent
        found.append(Obstacle(status.plugin, status.message or "excluded by PreFilter"))
    for step in profile.filters:
        if step.name in cycle.skip_filter:
            continue
        try:
            status = step.status_of_row(cycle, row)
        except StowplanError as problem:
            found.append(Obstacle(step.name, str(problem)))
            continue
        if not status.is_success:
            detail = _DETAILS.get(step.name)
            reason = ", ".join(list(status.reasons)[:_MOST])
            found.append(Obstacle(step.name, reason, detail(cycle, row) if detail else ""))
    if not found and row in diagnosis.overrides:
        status = diagnosis.overrides[row]
        found.append(Obstacle(status.plugin, status.message))
    return NodeAnswer(cycle.table.names[row], tuple(found))


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


def _resources(cycle: Cycle, row: int) -> str:
    table = cycle.table
    said: list[str] = []
    allowed, there = int(table.allowed_pods[row]), int(table.pod_count[row])
    if there + 1 > allowed:
        said.append(f"{_PODS}: {there} of {allowed} are there")
    for name, amount in cycle.info.request:
        offered, held = table.resources.offered_on(name, row), table.resources.held_on(name, row)
        free = max(offered - held, 0)
        if amount > free:
            asked, left = amount_text(name, amount), amount_text(name, free)
            of = amount_text(name, offered)
            short = amount_text(name, amount - free)
            said.append(f"{name}: asks for {asked}, {left} of {of} is free, {short} short")
    return "; ".join(said)


def _taints(cycle: Cycle, row: int) -> str:
    taint = untolerated(cycle, row)
    return f"taint {taint_text(taint)}" if taint is not None else ""


def untolerated(cycle: Cycle, row: int) -> Taint | None:
    """The first taint that keeps the pod off a node."""
    tolerations = Tolerations(cycle.pod.spec.tolerations)
    return tolerations.find_untolerated(cycle.table.node(row).spec.taints, HARD_EFFECTS)


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it: key=value:effect."""
    return (
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
    )


def _selector(cycle: Cycle, row: int) -> str:
    spec, node = cycle.pod.spec, cycle.table.node(row)
    labels = node.metadata.labels or {}
    said = list(_unmet(compile_label_set(spec.node_selector).requirements, labels))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required is not None:
        required = compile_node_selector(affinity.required)
        if not required.matches(labels, node.name):
            unmet = [", ".join(_unmet(term.requirements, labels)) for term in required.terms]
            said += [text for text in unmet if text][:1]
    return "; ".join(said)


def _unmet(requirements: Iterable[Requirement], labels: dict[str, str]) -> Iterable[str]:
    for requirement in requirements:
        if all_match((requirement,), labels):
            continue
        has = f"has {labels[requirement.key]}" if requirement.key in labels else "has no such label"
        yield f"wants {requirement}, {has}"


def port_holders(cycle: Cycle, row: int) -> list[Pod]:
    """The pods of a node that use a host port which the pod asks for."""
    asked = {(each.protocol, each.port) for each in cycle.info.host_ports}
    return [
        info.pod
        for info in cycle.table.pods[row].values()
        if asked & {(each.protocol, each.port) for each in info.host_ports}
    ]


def _ports(cycle: Cycle, row: int) -> str:
    ports = ", ".join(f"{each.port}/{each.protocol}" for each in cycle.info.host_ports)
    holders = ", ".join(pod.key for pod in port_holders(cycle, row)[:3])
    return f"host port {ports} is used by {holders}" if holders else f"host port {ports} is in use"


_DETAILS: Final[dict[str, _Detail]] = {
    "NodeResourcesFit": _resources,
    "TaintToleration": _taints,
    "NodeAffinity": _selector,
    "NodePorts": _ports,
}
