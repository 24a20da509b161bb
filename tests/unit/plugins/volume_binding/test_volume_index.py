"""Free volumes in columns: kept through changes, and translated to the table's value ids."""

from __future__ import annotations

import pytest

from stowplan.api.objects import (
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
)
from stowplan.api.storage_objects import (
    PersistentVolume,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from stowplan.cluster.cache import ClusterCache
from stowplan.plugins.volume_binding.volume_index import FreeVolumes, Kind, known
from stowplan.testing import node

ZONE = "topology.kubernetes.io/zone"
WANTED = Kind("Filesystem", "", frozenset())


def volume(name: str, size: str, zone: str = "") -> PersistentVolume:
    affinity = None
    if zone:
        term = NodeSelectorTerm(
            match_expressions=(LabelSelectorRequirement(key=ZONE, operator="In", values=(zone,)),)
        )
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(capacity={"storage": size}, node_affinity=affinity),
        status=PersistentVolumeStatus(phase="Available"),
    )


def suiting(free: FreeVolumes, size: int = 0) -> list[str]:
    return [free[int(place)].name for place in free.suiting(WANTED, size)]


@pytest.mark.parametrize("asked_between", [False, True])
def test_volumes_that_come_and_go_leave_the_others_in_order(asked_between: bool) -> None:
    free = FreeVolumes()
    for name, size in (("b", "2Gi"), ("a", "1Gi"), ("c", "3Gi")):
        free.add(known(volume(name, size)))
        if asked_between:
            suiting(free)
    assert suiting(free) == ["a", "b", "c"]
    free.remove(known(volume("b", "2Gi")))
    assert suiting(free) == ["a", "c"]


def test_many_changes_between_two_questions_rebuild() -> None:
    free = FreeVolumes()
    suiting(free)
    for number in range(200):
        free.add(known(volume(f"v{number:03}", "1Gi")))
    assert suiting(free) == [f"v{number:03}" for number in range(200)]


def test_value_ids_follow_the_nodes_labels_and_the_volumes() -> None:
    cache, free = ClusterCache(), FreeVolumes()
    cache.set_node(node("n1", zone="z1"))
    free.add(known(volume("v1", "1Gi", "z1")))
    assert suiting(free) == ["v1"]
    labels = cache.table.labels

    def ours(zone: str) -> int:
        return int(free.value_ids(ZONE, cache.table)[labels.values(ZONE).get(zone)])

    assert ours("z1") == free.value_id(ZONE, "z1") == 0
    cache.set_node(node("n2", zone="z2"))
    assert ours("z2") == -1, "no volume asks for it"
    free.add(known(volume("v2", "1Gi", "z2")))
    suiting(free)
    assert ours("z2") == free.value_id(ZONE, "z2") == 1


def test_value_ids_are_translated_again_when_the_column_was_evicted() -> None:
    cache, free = ClusterCache(), FreeVolumes()
    for name, zone in (("n1", "z1"), ("n2", "z2")):
        cache.set_node(node(name, zone=zone))
        free.add(known(volume(name, "1Gi", zone)))
    suiting(free)
    free.value_ids(ZONE, cache.table)
    cache.set_node(node("n1", zone="z2"))
    cache.set_node(node("n2", zone="z1"))
    cache.table.labels.advance(1 << 20)
    numbers = free.value_ids(ZONE, cache.table)
    for zone in ("z1", "z2"):
        assert numbers[cache.table.labels.values(ZONE).get(zone)] == free.value_id(ZONE, zone)
