"""VolumeBinding's PreFilter and Filter: which pods are refused, which nodes do, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.api.storage_objects import PersistentVolume, PersistentVolumeClaim
from stowplan.errors import PluginError
from stowplan.framework.status import SKIP, error, unresolvable
from stowplan.testing import node
from stowplan.testing import pod as make_pod
from tests.unit.plugins.volume_binding_kit import (
    SELECTED_NODE,
    STATIC,
    ZONE,
    Scene,
    claim,
    csi_node,
    driver,
    ephemeral,
    pool,
    storage_class,
    using,
    volume,
)

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_PV = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NODES = [node("a", zone="z1"), node("b", zone="z2"), node("c")]


def everywhere(*reasons: str) -> dict[str, list[str]]:
    return {"a": list(reasons), "b": list(reasons), "c": list(reasons)}


# PreFilter


def test_pods_without_claims_skip() -> None:
    scene = Scene(NODES)
    assert scene.pre_filter(make_pod()) is SKIP
    assert scene.pre_filter(make_pod(volumes=[{"name": "tmp", "emptyDir": {}}])) is SKIP


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (
            claim(bound_to="pv", phase="Lost"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        (claim(deleted=True), 'persistentvolumeclaim "data" is being deleted'),
        (claim(), "pod has unbound immediate PersistentVolumeClaims"),
        (claim(storage_class=""), "pod has unbound immediate PersistentVolumeClaims"),
        (claim(storage_class="now"), "pod has unbound immediate PersistentVolumeClaims"),
        (
            claim(storage_class="static", volumeName="pv"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_claims_that_no_node_can_serve(thing: PersistentVolumeClaim | None, reason: str) -> None:
    scene = Scene(NODES, storage_class("now", mode="Immediate"), STATIC)
    if thing is not None:
        scene.put(thing)
    assert scene.pre_filter(using("data")) == unresolvable(reason)


def test_an_ephemeral_claim_must_exist_and_be_the_pods_own() -> None:
    scene = Scene(NODES, storage_class())
    mine = ephemeral()
    assert scene.pre_filter(mine) == unresolvable(
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    )
    scene.put(claim("p-scratch"))
    assert scene.pre_filter(mine) == unresolvable(
        "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    )
    scene.put(claim("p-scratch", owner=mine))
    assert scene.pre_filter(mine) is None


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    scene = Scene(NODES, storage_class(mode=None), claim())
    assert scene.pre_filter(using("data")) == error(
        'VolumeBindingMode not set for StorageClass "late"'
    )


def test_the_old_annotation_names_the_class_first() -> None:
    old = {"volume.beta.kubernetes.io/storage-class": "late"}
    scene = Scene(NODES, storage_class(), claim(storage_class="gone", annotations=old))
    assert scene.filter(using("data")) == everywhere()


# Bound claims


def test_a_bound_volume_goes_by_its_node_affinity() -> None:
    scene = Scene(NODES, claim(bound_to="pv"), volume("pv", zones=["z1"]))
    assert scene.filter(using("data")) == {"a": [], "b": [AFFINITY], "c": [AFFINITY]}


def test_a_bound_volume_without_affinity_goes_everywhere() -> None:
    scene = Scene(NODES, claim(bound_to="pv"), volume("pv"))
    assert scene.filter(using("data")) == everywhere()


def test_fields_in_a_volumes_affinity_are_not_looked_at() -> None:
    name = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    terms = {"required": {"nodeSelectorTerms": [{"matchFields": [name]}]}}
    scene = Scene(NODES, claim(bound_to="pv"), volume("pv", nodeAffinity=terms))
    assert scene.filter(using("data")) == everywhere()


def test_the_first_claim_in_trouble_says_which_trouble_it_is() -> None:
    scene = Scene(
        NODES,
        claim("here", bound_to="pv"),
        claim("gone", bound_to="none"),
        volume("pv", zones=["z1"]),
    )
    assert scene.filter(using("here", "gone")) == {"a": [NO_PV], "b": [AFFINITY], "c": [AFFINITY]}
    assert scene.filter(using("gone", "here")) == everywhere(NO_PV)


def test_bound_and_unbound_claims_are_judged_independently() -> None:
    scene = Scene(
        NODES, STATIC, claim("one", bound_to="pv"), volume("pv", zones=["z1"]),
        claim("two", storage_class="static"),
    )  # fmt: skip
    assert scene.filter(using("one", "two")) == {
        "a": [NO_VOLUME],
        "b": [AFFINITY, NO_VOLUME],
        "c": [AFFINITY, NO_VOLUME],
    }


def test_an_in_tree_volume_is_read_as_its_drivers_where_that_has_taken_over() -> None:
    nodes = [
        node("old", zone="z1"),
        node("new", zone="z1", labels={"topology.ebs.csi.aws.com/zone": "z1"}),
        node("newer", zone="z1", labels={"topology.ebs.csi.aws.com/zone": "z2"}),
    ]
    scene = Scene(
        nodes,
        csi_node("old", "kubernetes.io/gce-pd"),
        csi_node("new", "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"),
        csi_node("newer", "kubernetes.io/aws-ebs"),
        claim(bound_to="pv"),
        volume("pv", zones=["z1"], awsElasticBlockStore={"volumeID": "vol-1"}),
    )
    assert scene.filter(using("data")) == {"old": [], "new": [], "newer": [AFFINITY]}
    scene.put(csi_node("newer"))
    assert scene.filter(using("data")) == {"old": [], "new": [], "newer": []}


def test_a_volume_that_cannot_be_translated_is_an_error() -> None:
    scene = Scene(
        NODES,
        csi_node("a", "kubernetes.io/aws-ebs"),
        claim(bound_to="pv"),
        volume("pv", awsElasticBlockStore={"volumeID": "aws://z1/disk"}),
    )
    with pytest.raises(
        PluginError, match='running "VolumeBinding" filter plugin: could not transl'
    ):
        scene.filter(using("data"))


# Volumes that exist


def unbound(scene_claim: PersistentVolumeClaim, *volumes: PersistentVolume) -> dict[str, bool]:
    """On which nodes a claim of the class without provisioner finds a volume."""
    scene = Scene(NODES, STATIC, scene_claim, *volumes)
    found = scene.filter(using(scene_claim.metadata.name))
    assert all(reasons in ([], [NO_VOLUME]) for reasons in found.values())
    return {name: not reasons for name, reasons in found.items()}


ALL = dict.fromkeys("abc", True)
NONE = dict.fromkeys("abc", False)
ONLY_A = {**NONE, "a": True}


def static(**more: Any) -> PersistentVolumeClaim:
    return claim(storage_class="static", **more)


def disk(name: str = "pv", **more: Any) -> PersistentVolume:
    return volume(name, storage_class="static", **more)


@pytest.mark.parametrize(
    ("wanted", "offered", "where"),
    [
        (static(), disk(), ALL),
        (static(), disk(hosts=["a"]), ONLY_A),
        (static(), disk(zones=["z1", "z9"]), ONLY_A),
        (static(), volume("pv"), NONE),
        (static(size="5Gi"), disk(), ALL),
        (static(size="5368709121"), disk(), NONE),
        (static(size="5Gi"), disk(size="5G"), NONE),
        (static(size=None), disk(size="0"), ALL),
        (static(volumeMode="Block"), disk(), NONE),
        (static(volumeMode="Filesystem"), disk(), ALL),
        (static(volumeMode="Block"), disk(volumeMode="Block"), ALL),
        (static(volumeAttributesClassName="gold"), disk(), NONE),
        (static(volumeAttributesClassName=""), disk(), ALL),
        (static(), disk(volumeAttributesClassName="gold"), NONE),
        (
            static(volumeAttributesClassName="gold"),
            disk(volumeAttributesClassName="gold"),
            ALL,
        ),
        (static(accessModes=["ReadWriteMany"]), disk(), NONE),
        (
            static(accessModes=["ReadWriteOnce", "ReadOnlyMany"]),
            disk(accessModes=["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"]),
            ALL,
        ),
        (static(selector={"matchLabels": {"disk": "ssd"}}), disk(), NONE),
        (static(selector={"matchLabels": {"disk": "ssd"}}), disk(labels={"disk": "ssd"}), ALL),
        (static(selector={}), disk(), ALL),
        (static(), disk(phase="Released"), NONE),
        (static(), disk(phase=""), NONE),
        (static(), disk(deleted=True), NONE),
        (static(), disk(claim_ref={"namespace": "default", "name": "other"}), NONE),
        (static(), disk(claim_ref={"namespace": "other", "name": "data"}), NONE),
        (static(), disk(claim_ref={"namespace": "default", "name": "data", "uid": "x"}), NONE),
    ],
)
def test_what_a_claim_asks_of_a_volume(
    wanted: PersistentVolumeClaim, offered: PersistentVolume, where: dict[str, bool]
) -> None:
    assert unbound(wanted, offered) == where


MINE = {"namespace": "default", "name": "data"}


@pytest.mark.parametrize("uid", [{}, {"uid": "uid-data"}])
def test_a_promised_volume_wins_and_needs_no_phase_selector_or_access(uid: dict[str, str]) -> None:
    promised = disk(claim_ref={**MINE, **uid}, phase="Bound", hosts=["a"])
    wanted = static(accessModes=["ReadWriteMany"], selector={"matchLabels": {"disk": "ssd"}})
    assert unbound(wanted, promised) == ONLY_A
    smaller = disk("free", size="2Gi", accessModes=["ReadWriteMany"], labels={"disk": "ssd"})
    assert unbound(wanted, promised, smaller) == ONLY_A


def test_a_promised_volume_that_is_too_small_does_not_count() -> None:
    assert unbound(static(size="6Gi"), disk(claim_ref=MINE, hosts=["a"])) == NONE
    large = disk("large", size="8Gi")
    assert unbound(static(size="6Gi"), disk(claim_ref=MINE, hosts=["a"]), large) == ALL


def test_claims_of_a_pod_share_what_there_is_small_ones_first() -> None:
    scene = Scene(
        NODES,
        STATIC,
        static(name="large", size="4Gi"),
        static(name="small", size="1Gi"),
        disk("one", size="2Gi", zones=["z1"]),
        disk("two", size="5Gi", zones=["z1", "z2"]),
        disk("three", size="6Gi", hosts=["b"]),
    )
    # On c nothing is reached; on b the small claim takes the 5Gi and leaves the 6Gi.
    assert scene.filter(using("large", "small")) == {"a": [], "b": [], "c": [NO_VOLUME]}
    assert scene.filter(using("large", "small", "small")) == {
        "a": [NO_VOLUME],
        "b": [NO_VOLUME],
        "c": [NO_VOLUME],
    }


def test_of_many_volumes_each_claim_of_the_same_size_takes_its_own() -> None:
    disks = [disk(f"pv{n}-{host}", size="5Gi", hosts=[host]) for host in "ab" for n in range(3)]
    claims = [static(name=f"c{n}") for n in range(4)]
    scene = Scene(NODES, STATIC, *claims, *disks, disk("any", size="9Gi"))
    three, four = using("c0", "c1", "c2"), using("c0", "c1", "c2", "c3")
    assert scene.filter(three) == {"a": [], "b": [], "c": [NO_VOLUME]}
    assert scene.filter(four) == {"a": [], "b": [], "c": [NO_VOLUME]}
    scene.remove(disk("any"))
    assert scene.filter(four) == everywhere(NO_VOLUME)


def test_a_selector_that_makes_no_sense_is_an_error() -> None:
    nonsense = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    scene = Scene(NODES, STATIC, static(selector=nonsense), disk())
    with pytest.raises(PluginError, match="error creating internal label selector for claim: "):
        scene.filter(using("data"))


# Volumes to be made


def test_a_provisioner_makes_volumes_where_the_class_allows() -> None:
    assert Scene(NODES, storage_class(), claim()).filter(using("data")) == everywhere()
    scene = Scene(NODES, storage_class(zones=["z1", "z3"]), claim())
    assert scene.filter(using("data")) == {"a": [], "b": [NO_VOLUME], "c": [NO_VOLUME]}


@pytest.mark.parametrize("provisioner", ["", "kubernetes.io/no-provisioner"])
def test_without_a_provisioner_no_volume_is_made(provisioner: str) -> None:
    scene = Scene(NODES, storage_class(provisioner=provisioner), claim())
    assert scene.filter(using("data")) == everywhere(NO_VOLUME)


def test_a_volume_that_is_being_made_for_a_node_ties_the_pod_to_it() -> None:
    selected = claim(annotations={SELECTED_NODE: "b"})
    scene = Scene(NODES, storage_class(), selected, volume("pv"))
    assert scene.filter(using("data")) == {"a": [NO_VOLUME], "b": [], "c": [NO_VOLUME]}
    scene.put(claim(annotations={SELECTED_NODE: "elsewhere"}))
    assert scene.filter(using("data")) == everywhere(NO_VOLUME)


@pytest.mark.parametrize(
    ("pools", "room"),
    [
        ([], ""),
        ([pool({})], "abc"),
        ([pool(None)], ""),
        ([pool({"matchLabels": {ZONE: "z1"}})], "a"),
        ([pool({"matchExpressions": [{"key": ZONE, "operator": "Exists"}]})], "ab"),
        ([pool({"matchExpressions": [{"key": ZONE, "operator": "Near"}]})], ""),
        ([pool({}, capacity="1023Mi")], ""),
        ([pool({}, capacity=None)], ""),
        ([pool({}, capacity="1Mi", largest="1Gi")], "abc"),
        ([pool({}, largest="1Mi")], ""),
        ([pool({}, storage_class="other")], ""),
        (
            [
                pool({"matchLabels": {ZONE: "z1"}}, capacity="1Mi"),
                pool({"matchLabels": {ZONE: "z2"}}, name="second"),
                pool({"matchLabels": {ZONE: "z9"}}, name="third"),
            ],
            "b",
        ),
    ],
)
def test_room_is_where_a_pool_says_so(pools: list[Any], room: str) -> None:
    scene = Scene(NODES, storage_class(), claim(), driver(), *pools)
    found = scene.filter(using("data"))
    assert found == {name: [] if name in room else [NO_SPACE] for name in "abc"}


@pytest.mark.parametrize("what", [driver(capacity=False), driver(capacity=None), None])
def test_room_is_not_asked_for_where_the_driver_does_not_publish_it(what: Any) -> None:
    scene = Scene(NODES, storage_class(), claim(), *([what] if what else []))
    assert scene.filter(using("data")) == everywhere()


def test_a_claim_without_a_size_needs_no_room() -> None:
    scene = Scene(NODES, storage_class(), claim(size=None), driver())
    assert scene.filter(using("data")) == everywhere()


def test_the_first_claim_that_cannot_be_made_says_why() -> None:
    """Claims that are tied to a node come before those that found no volume."""
    scene = Scene(
        NODES,
        STATIC,
        storage_class(),
        driver(),
        claim("big", annotations={SELECTED_NODE: "a"}),
        static(name="small"),
    )
    found = scene.filter(using("small", "big"))
    assert found == {"a": [NO_SPACE], "b": [NO_VOLUME], "c": [NO_VOLUME]}


def test_score_is_left_to_others() -> None:
    scene = Scene(NODES, storage_class(), claim())
    assert scene.plugin.pre_score(scene.cycle(using("data")), None) is SKIP
