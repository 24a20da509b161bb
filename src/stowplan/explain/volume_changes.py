"""A volume in another zone: the pod's bound volumes, as if their data were on a node's side."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.api.objects import LabelSelectorRequirement, NodeSelector, NodeSelectorTerm
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from stowplan.api.storage_objects import PersistentVolume, VolumeNodeAffinity
from stowplan.cluster.catalog import Catalog
from stowplan.cluster.pod_volumes import named_claims
from stowplan.explain.change import MOVE_DATA, Change
from stowplan.explain.pod_details import domain_text
from stowplan.framework.cycle import Cycle
from stowplan.plugins.volume_binding.volume_index import affinity_of

_ZONES = ("topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/")


def move_volumes(cycle: Cycle, row: int, catalog: Catalog) -> Change | None:
    """Have the pod's bound volumes where a node can use them."""
    labels = cycle.table.node(row).metadata.labels or {}
    moved: list[tuple[Resource[Any], Any]] = []
    said: list[str] = []
    for name in named_claims(cycle.pod):
        claim = catalog[PERSISTENT_VOLUME_CLAIMS].get(name, cycle.pod.metadata.namespace)
        volume = catalog[PERSISTENT_VOLUMES].get(claim.spec.volume_name) if claim else None
        places = _places(volume) if volume is not None else {}
        if volume is None or all(labels.get(key) in values for key, values in places.items()):
            continue
        if not places.keys() <= labels.keys():
            return None
        there = {key: labels[key] for key in places}
        moved.append((PERSISTENT_VOLUMES, _moved(volume, there)))
        where = " and ".join(domain_text(*each) for each in there.items())
        said.append(
            f"have the data of the volume {volume.metadata.name} (claim {name}) {where}, such as by"
            " restoring a snapshot"
        )
    if not moved:
        return None
    cost = MOVE_DATA * len(moved)
    return Change("VolumeZone", " and ".join(said), cost, objects=tuple(moved))


def _places(volume: PersistentVolume) -> dict[str, frozenset[str]]:
    """The values of node labels that a volume wants; of several terms, those of the first."""
    found = {
        key: frozenset(value.split("__"))
        for key, value in (volume.metadata.labels or {}).items()
        if key.startswith(_ZONES)
    }
    affinity = affinity_of(volume.spec.node_affinity)
    for term in affinity.terms[:1] if affinity is not None else ():
        for each in term.requirements:
            if each.operator == "In":
                found[each.key] = frozenset(each.values)
    return found


def _moved(volume: PersistentVolume, there: dict[str, str]) -> PersistentVolume:
    labels = {key: there.get(key, value) for key, value in (volume.metadata.labels or {}).items()}
    expressions = tuple(
        LabelSelectorRequirement(key, "In", (value,)) for key, value in there.items()
    )
    required = NodeSelector((NodeSelectorTerm(expressions),))
    spec = msgspec.structs.replace(volume.spec, node_affinity=VolumeNodeAffinity(required))
    metadata = msgspec.structs.replace(volume.metadata, labels=labels)
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)
