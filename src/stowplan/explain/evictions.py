"""Pods whose eviction would let another pod onto a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stowplan.api.objects import Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS
from stowplan.cluster.attachable import AttachableReader, AttachError
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_info import PodInfo
from stowplan.cluster.pod_volumes import named_claims
from stowplan.explain.change import EVICT, Change
from stowplan.explain.commands import delete_pods
from stowplan.explain.node_details import port_holders
from stowplan.explain.pod_details import avoided_pods
from stowplan.framework.cycle import Cycle

#: Pods of these owners come back to their node.
_BOUND_OWNERS: Final = ("DaemonSet", "Node")
#: Pods above this priority are the cluster's own.
_SYSTEM_PRIORITY: Final = 2_000_000_000
#: Evicting more than this is no small change.
_MOST_VICTIMS: Final = 10


def make_room(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Evict the fewest pods that free enough: those of lowest priority, the largest first."""
    table, request = cycle.table, dict(cycle.info.request)
    short: dict[str, int] = {}
    for name, amount in request.items():
        offered = table.resources.offered_on(name, row)
        if amount > offered:
            return None
        free = offered - table.resources.held_on(name, row)
        if amount > free:
            short[name] = amount - free
    too_many = int(table.pod_count[row]) + 1 - int(table.allowed_pods[row])

    def rank(info: PodInfo) -> tuple[int, int]:
        held = dict(info.held)
        return info.priority, -max((held.get(name, 0) for name in short), default=0)

    victims: list[Pod] = []
    for info in sorted(table.pods[row].values(), key=rank):
        if info.priority > cycle.pod.priority or len(victims) == _MOST_VICTIMS:
            break
        held = dict(info.held)
        if not may_be_evicted(info.pod) or (short and not any(held.get(name) for name in short)):
            continue
        victims.append(info.pod)
        short = {name: left - held.get(name, 0) for name, left in short.items()}
        short = {name: left for name, left in short.items() if left > 0}
        if not short and len(victims) >= too_many:
            return eviction(cycle, victims)
    return None


def may_be_evicted(pod: Pod) -> bool:
    """Whether evicting a pod can make room: it neither comes back at once nor runs the cluster."""
    owners = {owner.kind for owner in pod.metadata.owner_references or ()}
    return not owners & set(_BOUND_OWNERS) and pod.priority < _SYSTEM_PRIORITY


def free_ports(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Evict the pods that use the host ports which the pod asks for."""
    return eviction(cycle, port_holders(cycle, row))


def part_pods(cycle: Cycle, row: int, _catalog: Catalog) -> Change | None:
    """Evict the pods that anti-affinity, of the pod or of theirs, keeps apart from it."""
    return eviction(cycle, avoided_pods(cycle, row, _MOST_VICTIMS + 1))


def free_claims(cycle: Cycle, _row: int, catalog: Catalog) -> Change | None:
    """Evict the pods that have the pod's ReadWriteOncePod claims for themselves."""
    table, namespace = cycle.table, cycle.pod.metadata.namespace
    wanted = {
        name
        for name in named_claims(cycle.pod)
        if (claim := catalog[PERSISTENT_VOLUME_CLAIMS].get(name, namespace)) is not None
        and "ReadWriteOncePod" in (claim.spec.access_modes or ())
    }
    rows = {row for name in wanted for row in table.used_volumes.rows_using(namespace, name)}
    users = [
        info.pod
        for row in sorted(rows)
        for info in table.used_volumes.pods_on(row).values()
        if info.pod.metadata.namespace == namespace
        and not wanted.isdisjoint(named_claims(info.pod))
    ]
    return eviction(cycle, users)


def detach_volumes(cycle: Cycle, row: int, catalog: Catalog) -> Change | None:
    """Evict a pod of lowest priority with a volume of a driver that the pod needs, too."""
    reader = AttachableReader(catalog)
    try:
        drivers = set(reader.of_new(cycle.info, on_csi_node=True).values())
        users = [
            info
            for info in cycle.table.used_volumes.pods_on(row).values()
            if may_be_evicted(info.pod)
            and not drivers.isdisjoint(reader.of_standing(info).values())
        ]
    except AttachError:
        return None
    return eviction(cycle, [min(users, key=lambda info: info.priority).pod] if users else [])


def eviction(cycle: Cycle, victims: Sequence[Pod]) -> Change | None:
    """None if there are none, or too many, or one must stay."""
    if not 0 < len(victims) <= _MOST_VICTIMS or not all(
        may_be_evicted(pod) and pod.priority <= cycle.pod.priority for pod in victims
    ):
        return None
    keys = [victim.key for victim in victims]
    some = ", ".join(keys[:4]) + (f" and {len(keys) - 4} more" if len(keys) > 4 else "")
    what = "pod" if len(victims) == 1 else f"{len(victims)} pods"
    owners = {owner.kind for victim in victims for owner in victim.metadata.owner_references or ()}
    again = f" (its {min(owners)} creates another)" if owners else ""
    nodes = list(dict.fromkeys(victim.spec.node_name for victim in victims))
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    text = f"evict the {what} {some} from {where}{again}"
    cost = EVICT + 2 * len(victims)
    return Change(
        "Eviction",
        text,
        cost,
        delete_pods(victims),
        victims=tuple(victims),
        steps=frozenset(f"evict {key}" for key in keys),
    )
