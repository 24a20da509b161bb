"""What is to be measured: a file's workloads, or one of the sets that come with the benchmark.

Read by the command. A set names upstream's files, workloads and by how much their measured pods are
scaled; `targets.yaml` has them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeGuard

from stowplan.errors import ConfigError
from stowplan.lab.bench.results import Setup
from stowplan.lab.bench.run import can_wait_in_a_backlog
from stowplan.lab.bench.targets import BACKLOG, SETS, WorkloadEntry
from stowplan.workloads.load import find_performance_config, read_workloads, select
from stowplan.workloads.model import CreateAny, CreatePods, Operation, Workload

#: Operations under which every pod has a place from the start, so that `raw` may bind it blindly.
_STEADY: Final = frozenset(
    (
        "createNodes",
        "createNamespaces",
        "createAny",
        "createResourceDriver",
        "allocResourceClaims",
        "createPods",
        "barrier",
        "sleep",
    )
)


@dataclass(frozen=True)
class Item:
    """One workload, ready to be played, with its description."""

    setup: Setup
    workload: Workload


def plan(
    file: str, pattern: str = "*", *, mode: str | None = None, scale: float | None = None
) -> list[Item]:
    """The workloads of a file (or set) that match the pattern; ConfigError if none can be played.

    `mode` and `scale` replace those of a set, so that what it has in both modes is there once.
    """
    entries = SETS.get(file, (WorkloadEntry(file, pattern),))
    if mode is not None:
        entries = tuple(replace(entry, mode=mode) for entry in entries)
    if scale is not None:
        entries = tuple(replace(entry, scale=scale) for entry in entries)
    items = [item for entry in dict.fromkeys(entries) for item in _items(entry)]
    if file not in SETS:
        return items
    chosen = {one.title for one in select([item.workload for item in items], pattern)}
    return [item for item in items if item.setup.title in chosen]


def listed(file: str, pattern: str = "*") -> list[Workload]:
    """Every workload that matches, including those that cannot be played."""
    if file in SETS:
        by_title = {item.setup.title: item.workload for item in plan(file, pattern)}
        return list(by_title.values())
    return select(read_workloads(_find(file)), pattern)


def _find(file: str) -> Path:
    try:
        return find_performance_config(file)
    except ConfigError as problem:
        raise ConfigError(f"{problem}; nor is it a set, which are {', '.join(SETS)}") from None


def _items(entry: WorkloadEntry) -> list[Item]:
    path = _find(entry.file)
    chosen = select(read_workloads(path), entry.workload)
    playable = [one for one in chosen if not one.cannot_play]
    if not playable:
        raise ConfigError(chosen[0].cannot_play, where=f"{path}, {chosen[0].title}")
    if entry.mode == BACKLOG:
        for one in playable:
            if not can_wait_in_a_backlog(one):
                raise ConfigError(
                    f"{one.title} cannot be run as a backlog: only workloads that prepare a "
                    "cluster and then create pods once can; leave out --mode"
                )
    return [_item(entry, scaled(one, entry.scale)) for one in playable]


def _item(entry: WorkloadEntry, workload: Workload) -> Item:
    setup = Setup(
        file=entry.file,
        test=workload.test,
        name=workload.name,
        nodes=workload.nodes,
        pods=workload.pods,
        measured=workload.measured,
        mode=entry.mode,
        scale=entry.scale if any(map(_can_be_scaled, workload.operations)) else 1.0,
        without_raw=why_not_raw(workload),
        feature_gates=dict(workload.feature_gates),
    )
    return Item(setup, workload)


def scaled(workload: Workload, scale: float) -> Workload:
    """With fewer measured pods; nodes, and the pods that prepare the cluster, stay.

    So do pods that a workload measures between two operations: their number has to suit its nodes.
    """
    return replace(workload, operations=tuple(_scaled(each, scale) for each in workload.operations))


def _scaled(operation: Operation, scale: float) -> Operation:
    if _can_be_scaled(operation):
        return replace(operation, count=max(round(operation.count * scale), 1))
    return operation


def _can_be_scaled(operation: Operation) -> TypeGuard[CreatePods]:
    return isinstance(operation, CreatePods) and operation.collect_metrics


def why_not_raw(workload: Workload) -> str:
    """ "" where binding every pod to the next best node does what the workload is about."""
    for each in workload.operations:
        if each.opcode not in _STEADY:
            return f"its pods have to wait or to come and go ({each.opcode})"
        if isinstance(each, CreatePods) and each.template is not None:
            spec: dict[str, Any] = each.template.build(0, 1).get("spec", {})
            if "priority" in spec:
                return "its pods have to be preempted"
            if "schedulingGates" in spec:
                return "its pods are gated"
            if any("resourceClaimName" in claim for claim in spec.get("resourceClaims", ())):
                return "its pods share claims"
        if isinstance(each, CreateAny) and not _gets_any_device(each):
            return "its claims ask for particular devices"
    return ""


def _gets_any_device(operation: CreateAny) -> bool:
    """False for a template whose claims ask for more than one device of a class."""
    if operation.template.kind != "ResourceClaimTemplate":
        return True
    devices = operation.template.build(0, 1)["spec"]["spec"]["devices"]
    (first, *others) = devices["requests"]
    is_one = first.get("exactly", {}).keys() == {"deviceClassName"}
    return is_one and not others and devices.keys() == {"requests"}
