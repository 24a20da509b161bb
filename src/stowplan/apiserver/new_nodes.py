"""Manifests of the nodes that `stowplan apiserver --nodes` creates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stowplan.apiserver.history import Json
from stowplan.apiserver.node_lifecycle import DEFAULT_SIZE

ZONE_LABEL = "topology.kubernetes.io/zone"


def new_nodes(
    count: int,
    *,
    prefix: str = "node-",
    size: Mapping[str, str] | None = None,
    zones: Sequence[str] = (),
) -> list[Json]:
    """`count` equal nodes, numbered from 1, in turn in each zone.

    `size` replaces or adds amounts, such as `{"cpu": "8", "example.com/gpu": "1"}`.
    """
    amounts = {**DEFAULT_SIZE, **(size or {})}
    nodes = []
    for number in range(1, count + 1):
        name = f"{prefix}{number}"
        labels = {"kubernetes.io/hostname": name}
        if zones:
            labels[ZONE_LABEL] = zones[(number - 1) % len(zones)]
        nodes.append(
            {
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": amounts, "allocatable": amounts},
            }
        )
    return nodes
