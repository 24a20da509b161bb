"""Devices in an answer of `stowplan decide`: which nodes lack which, and what a pod would get."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

from stowplan.clock import SystemClock
from stowplan.cluster.work import DecisionDeferred
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.handle import Handle
from stowplan.plugins.dra.node_search import PodDevices
from stowplan.scheduler.decision import Decision

#: Nodes that an answer tells this of.
_MOST_NODES: Final = 20
_MOST_GIVING: Final = 5
#: Work and seconds for each of the nodes that would give devices.
_MOST_WORK: Final = 100_000
_MOST_SECONDS: Final = 0.01


def device_details(decision: Decision) -> dict[str, Any]:
    """`devices`: what refused nodes lack; `allocations`: what the best nodes would give.

    Must be called before the table changes. Both are about few nodes, and absent if there are none.
    """
    diagnosis = decision.diagnosis
    wanted = diagnosis.cycle.get(PodDevices) if diagnosis is not None else None
    if diagnosis is None or wanted is None or not wanted.needs_devices:
        return {}
    said = {"devices": _lacking(diagnosis, wanted), "allocations": _allocations(decision, wanted)}
    return {name: by_node for name, by_node in said.items() if by_node}


def _lacking(diagnosis: Diagnosis, wanted: PodDevices) -> dict[str, list[str]]:
    """By node, the first that DynamicResources refused: each request that it cannot meet."""
    if diagnosis.candidates is None:
        return {}
    # CEL is loaded with the first pod that needs a device.
    from stowplan.plugins.dra.requests import AllocationError
    from stowplan.plugins.dra.shortfall import shortfall_texts

    table = diagnosis.cycle.table
    rows = [
        int(row)
        for status, rows in diagnosis.groups()
        if status.plugin == "DynamicResources"
        for row in rows
    ]
    said = {}
    for row in sorted(rows)[:_MOST_NODES]:
        try:
            said[table.names[row]] = shortfall_texts(wanted, table.node(row))
        except AllocationError as problem:
            said[table.names[row]] = [str(problem)]  # such as a selector that fails
    return said


def _allocations(decision: Decision, wanted: PodDevices) -> dict[str, list[dict[str, str]]]:
    """By node, the first of the best: each device that the pod would get there."""
    sheet = decision.scores
    if sheet is None:
        return {}
    table = sheet.table
    best = sheet.rows[np.flatnonzero(sheet.totals == sheet.totals.max())].tolist()
    handle = Handle(clock=SystemClock(), rng=Random(0))
    said = {}
    for row in sorted(best, key=lambda row: table.names[row])[:_MOST_GIVING]:
        node, left = table.node(row), [_MOST_WORK]

        def spend(amount: int, left: list[int] = left) -> None:
            left[0] -= amount
            if left[0] < 0:
                raise DecisionDeferred

        claims = wanted.to_allocate(node)
        try:
            found = wanted.answer(node, handle, _MOST_SECONDS, spend)
        except DecisionDeferred:
            continue  # too much work for an answer; the node's verdict stands
        if not isinstance(found, list) or not isinstance(claims, list):
            continue
        said[table.names[row]] = [
            {
                "claim": claim.metadata.name,
                "request": device.request,
                "driver": device.driver,
                "pool": device.pool,
                "device": device.device,
            }
            for (_, claim), allocation in zip(claims, found, strict=True)
            for device in allocation.devices.results or ()
        ]
    return said
