"""What Reserve assumes is believed at once, by every profile, and taken back cleanly."""

from __future__ import annotations

import numpy as np

from stowplan.framework.handle import Handle
from stowplan.framework.status import SKIP, error, unresolvable
from stowplan.plugins.volume_binding import VolumeBinding
from stowplan.plugins.volume_binding.assumed import BelievedVolumes
from stowplan.plugins.volume_binding.search import NodeVolumes
from stowplan.testing import node
from stowplan.testing import pod as make_pod
from tests.unit.plugins.volume_binding_kit import (
    SELECTED_NODE,
    STATIC,
    Scene,
    claim,
    storage_class,
    using,
    volume,
)

NODES = [node("a"), node("b")]
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def local_disks() -> Scene:
    """Two claims, and one disk on each node."""
    return Scene(
        NODES,
        STATIC,
        claim("one", storage_class="static"),
        claim("two", storage_class="static"),
        volume("disk-a", storage_class="static", hosts=["a"]),
        volume("disk-b", storage_class="static", hosts=["b"]),
    )


def test_a_volume_is_given_away_once() -> None:
    scene = local_disks()
    first = using("one")
    cycle = scene.reserve(first, "a")
    assert scene.filter(using("two")) == {"a": [NO_VOLUME], "b": []}
    # The claim itself is promised the disk, and so may go nowhere else.
    assert scene.filter(using("one")) == {"a": [], "b": [NO_VOLUME]}
    scene.plugin.unreserve(cycle, first, "a")
    assert scene.filter(using("two")) == {"a": [], "b": []}
    assert scene.filter(using("one")) == {"a": [], "b": []}


def test_all_profiles_believe_the_same() -> None:
    scene = local_disks()
    cycle = scene.reserve(using("one"), "a")
    other = VolumeBinding(None, Handle(table=scene.cache.table, catalog=scene.cache.catalog))
    scene.plugin = other
    assert scene.filter(using("two")) == {"a": [NO_VOLUME], "b": []}
    assert cycle.get(NodeVolumes) is not None


def test_the_smallest_volume_is_promised_and_equal_ones_go_by_name() -> None:
    disks = [
        volume(name, storage_class="static", size=size)
        for name, size in (("z", "2Gi"), ("large", "9Gi"), ("y", "2Gi"), ("tiny", "1Mi"))
    ]
    scene = Scene(NODES, STATIC, claim(storage_class="static"), *disks)
    volumes = scene.reserve(using("data"), "a").get(NodeVolumes)
    assert volumes is not None
    ((promised, wanted),) = volumes.bindings
    assert promised.metadata.name == "y"
    assert promised.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    ref = promised.spec.claim_ref
    assert ref is not None
    assert (ref.kind, ref.api_version) == ("PersistentVolumeClaim", "v1")
    assert (ref.namespace, ref.name, ref.uid) == ("default", "data", "uid-data")
    assert ref.resource_version == wanted.metadata.resource_version == "1"
    assert volumes.provisions == []


def test_what_a_user_promised_stays_the_users() -> None:
    mine = {"namespace": "default", "name": "data", "uid": "uid-data"}
    disk = volume("pv", storage_class="static", claim_ref=mine)
    scene = Scene(NODES, STATIC, claim(storage_class="static"), disk)
    volumes = scene.reserve(using("data"), "a").get(NodeVolumes)
    assert volumes is not None
    assert volumes.bindings[0][0] == disk, "there is nothing to add"
    halfway = volume("pv", storage_class="static", claim_ref={**mine, "uid": ""}, version="2")
    scene.put(halfway)
    volumes = scene.reserve(using("data"), "a").get(NodeVolumes)
    assert volumes is not None
    promised = volumes.bindings[0][0]
    assert promised.spec.claim_ref is not None
    assert promised.spec.claim_ref.uid == "uid-data"
    assert promised.metadata.annotations is None, "the PV controller may not undo this promise"


def test_a_claim_that_gets_a_new_volume_is_tied_to_the_node() -> None:
    scene = Scene(NODES, storage_class(), claim(annotations={"keep": "me"}))
    first = using("data")
    cycle = scene.reserve(first, "b")
    volumes = cycle.get(NodeVolumes)
    assert volumes is not None
    (selected,) = volumes.provisions
    assert selected.metadata.annotations == {"keep": "me", SELECTED_NODE: "b"}
    assert scene.filter(using("data", name="second")) == {"a": [NO_VOLUME], "b": []}
    scene.plugin.unreserve(cycle, first, "b")
    assert scene.filter(using("data", name="second")) == {"a": [], "b": []}


def test_the_api_servers_next_version_ends_an_assumption() -> None:
    scene = local_disks()
    scene.reserve(using("one"), "a")
    # The same version once more (a list after a broken watch) changes nothing.
    scene.put(volume("disk-a", storage_class="static", hosts=["a"]))
    assert scene.filter(using("two")) == {"a": [NO_VOLUME], "b": []}
    scene.put(volume("disk-a", storage_class="static", hosts=["a"], version="2"))
    assert scene.filter(using("two")) == {"a": [], "b": []}


def test_a_volume_that_is_deleted_is_not_believed_in() -> None:
    scene = local_disks()
    cycle = scene.reserve(using("one"), "a")
    scene.remove(volume("disk-a", storage_class="static"))
    assert scene.filter(using("one")) == {"a": [NO_VOLUME], "b": []}
    scene.plugin.unreserve(cycle, using("one"), "a")
    assert scene.filter(using("one")) == {"a": [NO_VOLUME], "b": []}


def test_taking_back_does_not_touch_what_is_assumed_of_a_newer_version() -> None:
    scene = local_disks()
    early, late = using("one"), using("two")
    cycle = scene.reserve(early, "a")
    scene.put(volume("disk-a", storage_class="static", hosts=["a"], version="2"))
    scene.reserve(late, "a")
    scene.plugin.unreserve(cycle, early, "a")
    assert scene.filter(using("one")) == {"a": [NO_VOLUME], "b": []}


def test_a_pod_with_nothing_to_bind_reserves_nothing() -> None:
    scene = Scene(NODES, claim(bound_to="pv"), volume("pv"))
    assert scene.reserve(using("data"), "a").get(NodeVolumes) is None
    plain = make_pod()
    cycle = scene.cycle(plain)
    scene.plugin.pre_filter(cycle)
    assert scene.plugin.reserve(cycle, plain, "a") is None
    scene.plugin.unreserve(cycle, plain, "a")


def test_a_node_that_will_not_do_any_more_is_refused() -> None:
    """An extender takes time, in which another may take the volume."""
    scene = local_disks()
    slow = using("two")
    cycle = scene.cycle(slow)
    assert scene.plugin.pre_filter(cycle) is None
    scene.plugin.filter_columns(cycle, slice(None), np.zeros(64, np.int32), None)
    scene.reserve(using("one"), "a")
    assert scene.plugin.reserve(cycle, slow, "a") == unresolvable(NO_VOLUME)
    scene.remove(claim("two"))
    status = scene.plugin.reserve(cycle, slow, "b")
    assert status == unresolvable('persistentvolumeclaim "two" not found')


def test_volumes_are_found_again_when_their_class_or_size_changes() -> None:
    scene = local_disks()
    believed = scene.cache.catalog.shared(BelievedVolumes)
    scene.put(volume("disk-a", storage_class="late", version="2"))
    scene.put(volume("disk-b", storage_class="static", size="1Mi", version="2"))
    free = believed.index.free
    assert [free(name)[0].name for name in ("static", "late")] == ["disk-b", "disk-a"]
    assert [len(free(name)) for name in ("static", "late")] == [1, 1]
    assert scene.filter(using("one")) == {"a": [NO_VOLUME], "b": [NO_VOLUME]}


async def test_a_pod_with_claims_is_not_bound_where_reserve_is_disabled() -> None:
    scene = local_disks()
    wanted = using("one")
    cycle = scene.cycle(wanted)
    assert scene.plugin.pre_filter(cycle) is None
    assert scene.plugin.pre_bind_pre_flight(cycle, wanted, "a") is None
    said = await scene.plugin.pre_bind(cycle, wanted, "a")
    assert said == error('failed to get cached bindings for pod "default/p"')
    plain = make_pod("plain")
    assert scene.plugin.pre_bind_pre_flight(scene.cycle(plain), plain, "a") is SKIP
