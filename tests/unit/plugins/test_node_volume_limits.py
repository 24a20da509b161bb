"""NodeVolumeLimits: kube-scheduler's cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.api.objects import AzureDisk, DiskWithId, GcePersistentDisk, Pod, VsphereVolume
from stowplan.api.resources import (
    VOLUME_ATTACHMENTS,
)
from stowplan.api.storage_objects import CSINode, CSIVolumeSource, PersistentVolume
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import compile_pod
from stowplan.cluster.views import Overlay
from stowplan.errors import PluginError
from stowplan.framework.cycle import Cycle
from stowplan.framework.forms import FilterStep
from stowplan.framework.status import SKIP, SUCCESS, unresolvable, unschedulable
from stowplan.plugins.node_volume_limits import NodeVolumeLimits
from stowplan.testing import node, pod
from tests.unit.plugins.plugin_kit import in_place
from tests.unit.plugins.volume_kit import (
    attachment,
    claim,
    csi_node,
    fits,
    judged,
    made_for,
    put,
    storage_class,
    using,
    volume,
)

FULL = unschedulable("node(s) exceed max volume count").by("NodeVolumeLimits")
DISKS = "disks.example.com"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
SHARED_DISK = {"azureDisk": {"diskName": "d", "diskURI": "/d", "kind": "Shared"}}


def csi(name: str, driver: str = DISKS, handle: str = "") -> PersistentVolume:
    return volume(name, csi=CSIVolumeSource(driver=driver, volume_handle=handle or name))


def limited(count: int | None = 1) -> CSINode:
    return csi_node("n", disks_example_com=count)


def one_node(*standing: Pod, objects: tuple[Any, ...] = ()) -> ClusterCache:
    cache = in_place([node("n"), node("free")], standing)
    return put(cache, *objects)


def room(cache: ClusterCache, mine: Pod) -> bool:
    """Whether node `n` has room; node `free` says nothing of drivers and always has."""
    answers = fits(made_for(NodeVolumeLimits, cache), mine, cache)
    assert answers["free"]
    return answers["n"]


# What counts


BOUND = (claim("a", "pv-a"), claim("b", "pv-b"), csi("pv-a"), csi("pv-b"))


@pytest.mark.parametrize(
    ("limit", "standing", "wanted", "is_room"),
    [
        pytest.param(1, [], ["a"], True, id="up-to-the-limit"),
        pytest.param(0, [], ["a"], False, id="limit-of-none"),
        pytest.param(1, ["a"], ["b"], False, id="one-too-many"),
        pytest.param(2, ["a"], ["b"], True, id="room-for-two"),
        pytest.param(1, ["a"], ["a"], True, id="the-same-is-there-already"),
        pytest.param(0, ["a"], ["a"], True, id="over-the-limit-already-but-nothing-new"),
        pytest.param(1, [], ["a", "a"], True, id="the-same-twice"),
        pytest.param(1, [], ["a", "b"], False, id="two-at-once"),
        pytest.param(None, ["a"], ["b"], True, id="driver-without-limit"),
    ],
)
def test_claims(limit: int | None, standing: list[str], wanted: list[str], is_room: bool) -> None:
    others = [using(*standing, node="n")] if standing else []
    cache = one_node(*others, objects=(*BOUND, limited(limit)))
    assert room(cache, using(*wanted)) is is_room


def test_the_reason() -> None:
    cache = one_node(objects=(*BOUND, limited(0)))
    answers = judged(made_for(NodeVolumeLimits, cache), using("a"), cache)
    assert answers == {"n": FULL, "free": SUCCESS}


def test_each_driver_has_a_limit_of_its_own() -> None:
    full = csi_node("n", disks_example_com=5, other_example_com=0)
    others = (claim("c", "pv-c"), csi("pv-c", "other.example.com"))
    cache = one_node(objects=(*BOUND, *others, full))
    assert room(cache, using("a", "b"))
    assert not room(cache, using("a", "c"))


def test_claims_without_a_volume_count_by_their_provisioner() -> None:
    later = [claim(name, storage_class="late") for name in ("a", "b")]
    gone = claim("gone", "nowhere", storage_class="late")
    late = storage_class("late", DISKS)
    cache = one_node(using("a", node="n"), objects=(*later, gone, late, limited(1)))
    assert room(cache, using("a"))
    assert not room(cache, using("b"))
    assert not room(cache, using("gone"))


@pytest.mark.parametrize("name", [None, "unheard-of"])
def test_claims_without_a_class_do_not_count(name: str | None) -> None:
    cache = one_node(objects=(claim("a", storage_class=name), limited(0)))
    assert room(cache, using("a"))


@pytest.mark.parametrize(
    ("provisioner", "driver", "counts"),
    [
        ("kubernetes.io/aws-ebs", "ebs_csi_aws_com", True),
        ("kubernetes.io/vsphere-volume", "csi_vsphere_vmware_com", False),
        ("kubernetes.io/azure-file", "file_csi_azure_com", False),
    ],
)
def test_in_tree_provisioners(provisioner: str, driver: str, counts: bool) -> None:
    late = storage_class("late", provisioner)
    none = csi_node("n", **{driver: 0})
    cache = one_node(objects=(claim("a", storage_class="late"), late, none))
    assert room(cache, using("a")) is not counts


@pytest.mark.parametrize(
    ("source", "driver", "counts"),
    [
        ({"aws_elastic_block_store": DiskWithId(volume_id="vol-1")}, "ebs_csi_aws_com", True),
        ({"gce_persistent_disk": GcePersistentDisk(pd_name="d")}, "pd_csi_storage_gke_io", True),
        ({"azure_disk": AzureDisk(disk_uri="/d")}, "disk_csi_azure_com", True),
        ({"azure_disk": AzureDisk(disk_uri="/d", kind="Shared")}, "disk_csi_azure_com", False),
        ({"cinder": DiskWithId(volume_id="d")}, "cinder_csi_openstack_org", True),
        ({"portworx_volume": DiskWithId(volume_id="d")}, "pxd_portworx_com", True),
        ({"vsphere_volume": VsphereVolume(volume_path="d")}, "csi_vsphere_vmware_com", False),
        ({}, "disks_example_com", False),
        ({"csi": CSIVolumeSource(driver=DISKS)}, "disks_example_com", False),
    ],
)
def test_volumes_of_all_kinds(source: dict[str, Any], driver: str, counts: bool) -> None:
    objects = (claim("a", "pv"), volume("pv", **source), csi_node("n", **{driver: 0}))
    assert room(one_node(objects=objects), using("a")) is not counts


def test_disks_that_pods_name_count_as_their_drivers() -> None:
    none = csi_node("n", ebs_csi_aws_com=1)
    cache = one_node(using(EBS, node="n"), objects=(none, claim("a", "pv")))
    put(cache, csi("pv", "ebs.csi.aws.com", "vol-1"))
    other = {"awsElasticBlockStore": {"volumeID": "aws://z1/vol-2"}}
    assert room(cache, using("a"))
    assert room(cache, using({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}))
    assert not room(cache, using(other))
    vsphere = {"vsphereVolume": {"volumePath": "x"}}
    assert room(cache, using(vsphere))


def test_ephemeral_volumes_count_by_their_claims() -> None:
    mine = using({"ephemeral": {}}, name="p")
    standing = using({"ephemeral": {}}, name="q", node="n")
    cache = one_node(standing, objects=(claim("q-v0", "pv-a", owner=standing), *BOUND, limited(1)))
    put(cache, claim("p-v0", "pv-b", owner=mine))
    assert not room(cache, mine)
    put(cache, claim("p-v0", "pv-a", owner=mine))
    assert room(cache, mine)


def test_attachments() -> None:
    """What is still attached counts, but a volume that pods use not twice."""
    cache = one_node(using("a", node="n"), objects=(*BOUND, csi("old"), limited(2)))
    put(cache, attachment("va", "n", DISKS, "pv-a"))
    assert room(cache, using("b"))
    put(cache, attachment("vb", "n", DISKS, "old"))
    assert not room(cache, using("b"))
    cache.catalog[VOLUME_ATTACHMENTS].remove("vb")
    assert room(cache, using("b"))
    # Attached already, but no pod uses it: upstream counts it once more.
    put(cache, attachment("vb", "n", DISKS, "pv-b"))
    assert not room(cache, using("b"))


@pytest.mark.parametrize(
    "stray",
    [
        attachment("v", "elsewhere", DISKS, "old"),
        attachment("v", "n", "", "old"),
        attachment("v", "n", DISKS, None),
        attachment("v", "n", DISKS, "nowhere"),
        attachment("v", "n", DISKS, "in-tree"),
        attachment("v", "n", "other.example.com", "old"),
    ],
)
def test_attachments_that_do_not_count(stray: Any) -> None:
    in_tree = volume("in-tree", cinder=DiskWithId(volume_id="d"))
    cache = one_node(objects=(*BOUND, csi("old"), in_tree, limited(1), stray))
    assert room(cache, using("a"))


# What is skipped, what is missing, what is wrong


def test_without_volumes_it_is_skipped() -> None:
    cache = one_node(objects=(limited(0),))
    plugin = made_for(NodeVolumeLimits, cache)
    for mine in (pod(), using({"emptyDir": {}}), using({"iscsi": {"iqn": "a"}}, {"rbd": {}})):
        assert judged(plugin, mine, cache) == SKIP


def test_a_missing_claim() -> None:
    cache = one_node(objects=(limited(5),))
    answers = judged(made_for(NodeVolumeLimits, cache), using("a"), cache)
    missing = 'looking up PVC default/a: persistentvolumeclaim "a" not found'
    status = unresolvable(missing).by("NodeVolumeLimits")
    assert answers == {"n": status, "free": status}


def test_claims_of_standing_pods_may_be_missing() -> None:
    cache = one_node(using("nowhere", node="n"), objects=(*BOUND, limited(1)))
    assert room(cache, using("a"))


@pytest.mark.parametrize(
    ("mine", "message"),
    [
        (using(""), "PersistentVolumeClaim had no name"),
        (
            using({"ephemeral": {}}, name="p"),
            "PVC default/p-v0 was not created for pod default/p (pod is not owner)",
        ),
        (
            using(SHARED_DISK, "nowhere"),
            "converting volume(v0) from inline to csi: kind(Shared) is not supported in csi "
            "migration",
        ),
        (
            using({"awsElasticBlockStore": {"volumeID": "aws://z/x"}}),
            "converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS "
            "Volume ID Invalid format for AWS volume (aws://z/x)",
        ),
    ],
)
def test_what_is_wrong_with_the_pod_ends_the_attempt(mine: Pod, message: str) -> None:
    cache = one_node(objects=(claim("p-v0"), csi_node("n")))
    step = FilterStep(made_for(NodeVolumeLimits, cache))
    cycle = Cycle(cache.table, compile_pod(mine))
    with pytest.raises(PluginError) as by_columns:
        step.fill(cycle, slice(None), np.zeros(cache.table.capacity, np.int32))
    with pytest.raises(PluginError) as by_node:
        step.status_of_row(cycle, cache.table.row_of["n"])
    assert message in str(by_columns.value)
    assert str(by_columns.value) == str(by_node.value)


def test_in_tree_disks_are_only_looked_at_on_nodes_with_a_csi_node() -> None:
    """So the same pod is missing a claim on one node, and cannot be judged on the other."""
    cache = one_node(objects=(csi_node("n"),))
    plugin, mine = made_for(NodeVolumeLimits, cache), using(SHARED_DISK, "nowhere")
    cycle, step = Cycle(cache.table, compile_pod(mine)), FilterStep(plugin)
    free = np.array([cache.table.row_of["free"]], np.intp)
    column = np.zeros(cache.table.capacity, np.int32)
    step.fill(cycle, free, column)
    missing = 'looking up PVC default/nowhere: persistentvolumeclaim "nowhere" not found'
    status = step.status(cycle, int(column[free[0]]))
    assert status == unresolvable(missing).by("NodeVolumeLimits")
    assert step.status_of_row(cycle, int(free[0])) == status


def test_what_is_wrong_with_a_standing_pod_matters_only_where_there_are_limits() -> None:
    cache = one_node(using(SHARED_DISK, node="n"), objects=(*BOUND, csi_node("n")))
    plugin = made_for(NodeVolumeLimits, cache)
    assert room(cache, using("a"))
    put(cache, limited(5))
    step, cycle = FilterStep(plugin), Cycle(cache.table, compile_pod(using("a")))
    with pytest.raises(PluginError, match="not supported in csi migration"):
        step.fill(cycle, slice(None), np.zeros(cache.table.capacity, np.int32))
    with pytest.raises(PluginError, match="not supported in csi migration"):
        step.status_of_row(cycle, cache.table.row_of["n"])
    # Not for rows that nobody asks about.
    free = np.array([cache.table.row_of["free"]], np.intp)
    step.fill(cycle, free, np.zeros(cache.table.capacity, np.int32))


def test_what_if() -> None:
    victim = using("a", node="n")
    cache = put(in_place([node("n"), node("m")], [victim]), *BOUND, limited(1))
    put(cache, csi_node("m", disks_example_com=1))
    table = cache.table
    n, m = table.row_of["n"], table.row_of["m"]
    overlay = Overlay(table, {m: [compile_pod(using("a"))]}, {n: [table.pods[n][victim.uid]]})
    step = FilterStep(made_for(NodeVolumeLimits, cache))
    cycle = Cycle(table, compile_pod(using("b")))
    for over, expected in ((None, [1, 0]), (overlay, [0, 1])):
        column = np.zeros(table.capacity, np.int32)
        step.fill(cycle, table.live_rows, column, over)
        assert column[[n, m]].tolist() == expected
        per_node = [step.status_of_row(cycle, row, over).is_success for row in (n, m)]
        assert per_node == [not number for number in expected]
