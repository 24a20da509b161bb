"""Which request of a claim a node has too few devices for, and which claim cannot be used there."""

from __future__ import annotations

import msgspec

from stowplan.api.device_objects import ResourceClaim
from stowplan.cluster.catalog import Catalog
from stowplan.explain.facts import DeviceShortage, Obstacle
from stowplan.framework.cycle import Cycle
from stowplan.plugins.dra.node_search import PodDevices


def _given(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation
    results = (allocation.devices.results if allocation is not None else None) or ()
    names = [f"{one.device} of the pool {one.pool}" for one in results[:2]]
    if len(results) > len(names):
        names.append(f"{len(results) - len(names)} more")
    return ", ".join(names) or "an allocation"


def devices(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    wanted = cycle.get(PodDevices)
    if wanted is None:
        return found
    # CEL is loaded with the first pod that needs a device.
    from stowplan.plugins.dra.requests import AllocationError
    from stowplan.plugins.dra.shortfall import shortfall_texts, shortfalls

    node = cycle.table.node(row)
    labels, name = node.metadata.labels or {}, node.metadata.name
    said = [
        f"the claim {claim.metadata.name} has {_given(claim)}, which this node cannot use"
        for claim, reach in zip(wanted.claims, wanted.reach, strict=True)
        if reach is not None and not reach.matches(labels, name)
    ]
    short = []
    if wanted.needs_devices and not said:
        try:
            said += shortfall_texts(wanted, node)
            short = shortfalls(wanted, node)
        except AllocationError as problem:
            said.append(str(problem))  # such as a selector that fails
    lacking = tuple(
        DeviceShortage(
            claim=each.claim,
            request=each.request,
            device_class=each.device_class,
            needed=each.needed,
            offered=each.offered,
            free=each.free,
            taken=each.taken,
            taken_by=tuple(each.taken_by),
            unmatched=dict(each.unmatched),
            tainted=each.tainted,
            taints=tuple(text for text, _ in each.taints.most_common()),
            full=each.full,
        )
        for each in short
    )
    return msgspec.structs.replace(found, detail="; ".join(said), devices=lacking)
