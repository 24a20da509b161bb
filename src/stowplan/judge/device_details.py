"""Which devices nodes lack for a pod's claims, in words, for an answer of `stowplan decide`."""

from __future__ import annotations

from typing import Final

from stowplan.framework.diagnosis import Diagnosis
from stowplan.plugins.dra.node_search import PodDevices

#: Nodes that an answer tells this of.
_MOST_NODES: Final = 20


def device_details(diagnosis: Diagnosis | None) -> dict[str, list[str]]:
    """By node, the first that DynamicResources refused: each request that it cannot meet."""
    wanted = diagnosis.cycle.get(PodDevices) if diagnosis is not None else None
    if diagnosis is None or wanted is None or not wanted.needs_devices:
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
        except AllocationError:
            continue  # the reason says what is wrong
    return said
