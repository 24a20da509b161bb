"""Which claim or volume keeps a pod off one node, and where the volume can be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from stowplan.api.labels import Requirement, all_match
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.cluster.attachable import AttachableReader, AttachError
from stowplan.cluster.attached_volumes import AttachedVolumes
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_volumes import class_of_claim, named_claims
from stowplan.cluster.table import NodeTable
from stowplan.cluster.used_volumes import any_clash, disks_of
from stowplan.explain.facts import Obstacle, PodOnNode, VolumeConflict
from stowplan.explain.pod_details import domain_text
from stowplan.framework.cycle import Cycle
from stowplan.plugins.volume_binding.claims import selected_node
from stowplan.plugins.volume_binding.reach import reach_mask
from stowplan.plugins.volume_binding.search import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    VOLUME_MISSING,
    Search,
)
from stowplan.plugins.volume_binding.volume_index import affinity_of

_ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


# VolumeBinding


def binding(cycle: Cycle, row: int, found: Obstacle, _catalog: Catalog) -> Obstacle:
    search = cycle.get(Search)
    if search is None:
        return found
    said: list[str] = []
    conflicts: list[VolumeConflict] = []
    name, labels = cycle.table.names[row], cycle.table.node(row).metadata.labels or {}
    for claim, bit in search.refused_claims(name, labels):
        conflict, text = _bound(cycle.table, search, claim, bit)
        conflicts.append(conflict)
        said.append(text)
    return msgspec.structs.replace(found, detail="; ".join(said), volumes=tuple(conflicts))


def _bound(
    table: NodeTable, search: Search, claim: PersistentVolumeClaim, bit: int
) -> tuple[VolumeConflict, str]:
    name, volume_name = claim.metadata.name, claim.spec.volume_name
    class_name = class_of_claim(claim) or ""
    if bit == VOLUME_MISSING:
        text = f"the claim {name} is bound to the volume {volume_name}, which does not exist"
        return VolumeConflict(name, volume_name, class_name), text
    if bit == NODE_CONFLICT:
        volume = search.believed.volumes.get(volume_name)
        assert volume is not None
        where = affinity_text(volume)
        count = int(reach_mask(table, volume, table.live_rows, search.migrated).sum())
        conflict = VolumeConflict(name, volume_name, class_name, where, count)
        return conflict, reach_text(conflict)
    size = (claim.spec.resources.requests or {}).get("storage", "")
    what = f"the claim {name} ({f'{size}, ' if size else ''}class {class_name or 'none'})"
    conflict = VolumeConflict(name, "", class_name)
    selected = selected_node(claim)
    if bit == BIND_CONFLICT and selected is not None:
        return conflict, f"{what} is being given a volume on the node {selected}"
    if bit == BIND_CONFLICT:
        return conflict, f"no free volume fits {what}, and its class makes none here"
    return conflict, f"the storage of {what} has too little free space here"


def affinity_text(volume: PersistentVolume) -> str:
    """Where a volume can be used: `in zone c`, or its node affinity."""
    affinity = affinity_of(volume.spec.node_affinity)
    if affinity is None:
        return "everywhere"
    terms = []
    for term in affinity.terms[:2]:
        parts = [
            domain_text(each.key, " or ".join(each.values[:3]))
            if each.operator == "In"
            else f"where {each}"
            for each in term.requirements
        ]
        terms.append(" and ".join(parts))
    return ", or ".join(terms) or "nowhere"


def reach_text(conflict: VolumeConflict) -> str:
    """`the volume disk-1 (claim data) is only in zone c, where no node is`."""
    nodes = conflict.nodes
    there = "no node is" if not nodes else f"{nodes} node{' is' if nodes == 1 else 's are'}"
    only = conflict.only_where
    return f"the volume {conflict.volume} (claim {conflict.claim}) is only {only}, where {there}"


# VolumeZone


def zone(cycle: Cycle, row: int, found: Obstacle, catalog: Catalog) -> Obstacle:
    table, labels = cycle.table, cycle.table.node(row).metadata.labels or {}
    conflicts: list[VolumeConflict] = []
    for claim, volume in _bound_volumes(cycle, catalog):
        places = tuple(
            Requirement(key, "In", tuple(value.split("__")))
            for key, value in sorted((volume.metadata.labels or {}).items())
            if key in _ZONE_LABELS
        )
        if all_match(places, labels):
            continue
        where = " and ".join(domain_text(each.key, " or ".join(each.values)) for each in places)
        there = table.valid.copy()
        table.labels.narrow(there, places)
        conflicts.append(VolumeConflict(claim, volume.metadata.name, "", where, int(there.sum())))
    said = "; ".join(map(reach_text, conflicts))
    return msgspec.structs.replace(found, detail=said, volumes=tuple(conflicts))


def _bound_volumes(cycle: Cycle, catalog: Catalog) -> Iterator[tuple[str, PersistentVolume]]:
    namespace = cycle.pod.metadata.namespace
    for name in named_claims(cycle.pod):
        claim = catalog[PERSISTENT_VOLUME_CLAIMS].get(name, namespace)
        volume = (
            catalog[PERSISTENT_VOLUMES].get(claim.spec.volume_name) if claim is not None else None
        )
        if volume is not None:
            yield name, volume


# NodeVolumeLimits


def limits(cycle: Cycle, row: int, found: Obstacle, catalog: Catalog) -> Obstacle:
    attached = catalog.shared(AttachedVolumes)
    attached.follow(cycle.table)
    try:
        needed = AttachableReader(catalog).of_new(cycle.info, on_csi_node=True)
    except AttachError:
        return found
    new = Counter(
        driver for volume, driver in needed.items() if row not in attached.rows_with(volume)
    )
    conflicts: list[VolumeConflict] = []
    for name, count in sorted(new.items()):
        driver = attached.driver(name)
        if driver is None:
            continue
        there, most = int(driver.attached[row]), int(driver.limit[row])
        if there + count > most:
            conflicts.append(VolumeConflict(driver=name, attached=there, limit=most, needed=count))
    return msgspec.structs.replace(
        found, detail="; ".join(map(limit_text, conflicts)), volumes=tuple(conflicts)
    )


def limit_text(conflict: VolumeConflict) -> str:
    """`the driver disk.example has 2 of 2 volumes attached, and the pod needs 1 more`."""
    return (
        f"the driver {conflict.driver} has {conflict.attached} of {conflict.limit} volumes"
        f" attached, and the pod needs {conflict.needed} more"
    )


# VolumeRestrictions


def restrictions(cycle: Cycle, row: int, found: Obstacle, catalog: Catalog) -> Obstacle:
    table, pod = cycle.table, cycle.pod
    namespace = pod.metadata.namespace
    conflicts: list[VolumeConflict] = []
    said: list[str] = []
    for name in named_claims(pod):
        claim = catalog[PERSISTENT_VOLUME_CLAIMS].get(name, namespace)
        if claim is None or "ReadWriteOncePod" not in (claim.spec.access_modes or ()):
            continue
        for used in table.used_volumes.rows_using(namespace, name):
            user = next(
                info.pod
                for info in table.used_volumes.pods_on(used).values()
                if info.pod.metadata.namespace == namespace and name in named_claims(info.pod)
            )
            there = PodOnNode(user.key, table.names[used])
            conflicts.append(VolumeConflict(name, used_by=there))
            said.append(
                f"the claim {name} (ReadWriteOncePod) is used by {there.pod} on {there.node}"
            )
    own = disks_of(cycle.info.volumes)
    for info in table.used_volumes.pods_on(row).values():
        if any_clash(own, disks_of(info.volumes)):
            there = PodOnNode(info.pod.key, table.names[row])
            conflicts.append(VolumeConflict(used_by=there))
            said.append(f"a disk that it mounts is used by {there.pod} on {there.node}")
    return msgspec.structs.replace(found, detail="; ".join(said), volumes=tuple(conflicts))
