"""The pretend volume controller: who gets which volume, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.volume_stage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    LATER,
    Stage,
    marks_of,
    staged,
)

# Free volumes


@staged()
async def test_a_claim_gets_the_smallest_volume_that_suits(stage: Stage) -> None:
    stage.create_class("disks")
    for name, size in (("large", "9Gi"), ("small", "1Gi"), ("right", "3Gi"), ("also", "4Gi")):
        stage.create_volume(name, size)
    await stage.settle()
    assert stage.volume_phase("right") == ("Available", "")

    stage.create_claim("data", "2Gi")
    await stage.settle()

    claim, volume = stage.claim("data"), stage.volume("right")
    assert claim["spec"]["volumeName"] == "right"
    assert claim["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "3Gi"},
    }
    assert marks_of(claim) == {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert marks_of(volume) == {BOUND_BY_CONTROLLER: "yes"}
    assert volume["status"]["phase"] == "Bound"
    ref = volume["spec"]["claimRef"]
    assert ref.pop("resourceVersion").isdigit()
    assert ref == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "data",
        "uid": claim["metadata"]["uid"],
    }
    assert [stage.volume_phase(name)[0] for name in ("large", "small", "also")] == ["Available"] * 3


UNSUITABLE: dict[str, dict[str, Any]] = {
    "too small": {"size": "1Mi"},
    "another class": {"storage_class": "other"},
    "no class": {"storage_class": ""},
    "another mode": {"volumeMode": "Block"},
    "not enough access": {"accessModes": ["ReadOnlyMany"]},
    "labels that are not selected": {"labels": {"tier": "slow"}},
    "promised to somebody else": {"claimRef": {"namespace": "default", "name": "other"}},
}


@pytest.mark.parametrize("why", UNSUITABLE)
def test_a_claim_waits_for_a_volume_that_suits(why: str) -> None:
    @staged()
    async def play(stage: Stage) -> None:
        stage.create_class("disks")
        stage.create_volume("wrong", **{"labels": {"tier": "fast"}, **UNSUITABLE[why]})
        stage.create_claim("data", selector={"matchLabels": {"tier": "fast"}})
        await stage.settle()
        assert stage.claim_phase("data") == ("Pending", "")
        assert stage.volume_phase("wrong")[0] == "Available"

        stage.create_volume("right", labels={"tier": "fast"})
        await stage.settle()
        assert stage.claim_phase("data") == ("Bound", "right")

    play()


@staged()
async def test_a_volume_with_fewer_access_modes_is_better_than_a_smaller_one(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("shared", "2Gi", accessModes=["ReadWriteMany", "ReadWriteOnce"])
    stage.create_volume("own", "9Gi")
    stage.create_claim("data")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "own")


@staged()
async def test_of_two_claims_for_one_volume_the_first_gets_it(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_claim("zebra")
    stage.create_claim("ape")
    await stage.settle()
    stage.patch_claim("zebra", {"metadata": {"labels": {"any": "change"}}})
    stage.create_volume("only")
    await stage.settle()
    assert stage.claim_phase("zebra") == ("Bound", "only")
    assert stage.claim_phase("ape") == ("Pending", "")

    stage.create_volume("another")
    await stage.settle()
    assert stage.claim_phase("ape") == ("Bound", "another")


@staged()
async def test_claims_without_a_class_get_volumes_without_one(stage: Stage) -> None:
    stage.create_volume("classy")
    stage.create_volume("plain", storage_class="")
    stage.create_claim("data", storage_class="")
    stage.create_claim("more", storage_class="")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "plain")
    assert stage.claim_phase("more") == ("Pending", "")


@staged()
async def test_a_class_that_does_not_exist_is_still_a_name_in_common(stage: Stage) -> None:
    stage.create_claim("data", storage_class="unknown")
    stage.create_claim("more", storage_class="unknown")
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", "")
    stage.create_volume("disk", storage_class="unknown")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "disk")
    # And when it comes into being, it may have somebody who makes volumes.
    stage.create_class("unknown", "disks.example.com")
    await stage.settle()
    assert stage.claim_phase("more") == ("Bound", stage.made_for("more"))


@staged()
async def test_a_claim_that_says_nothing_of_a_class_gets_the_newest_default(stage: Stage) -> None:
    stage.create_claim("data", storage_class=None)
    stage.create_claim("none", storage_class="")
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", "")
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    for name in ("older", "newer"):
        stage.loop.clock.advance(5)
        metadata = {"name": name, "annotations": default}
        stage.cluster.create(
            "storage.k8s.io",
            "v1",
            "storageclasses",
            {"metadata": metadata, "provisioner": "kubernetes.io/no-provisioner"},
        )
    await stage.settle()
    assert stage.claim("data")["spec"]["storageClassName"] == "newer"
    assert stage.claim("none")["spec"]["storageClassName"] == ""
    stage.create_volume("disk", storage_class="newer")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "disk")


# Promises and names


@staged()
async def test_what_the_scheduler_has_promised_is_bound(stage: Stage) -> None:
    stage.create_class("disks", mode=LATER)
    stage.create_volume("disk")
    stage.create_volume("smaller", "1Gi")
    stage.create_claim("data")
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", ""), "that is the scheduler's business"
    assert stage.volume_phase("disk") == ("Available", "")

    stage.promise("disk", "data")
    await stage.settle()

    assert stage.claim_phase("data") == ("Bound", "disk")
    assert stage.volume_phase("disk") == ("Bound", "data")
    assert marks_of(stage.claim("data")) == {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert stage.volume_phase("smaller") == ("Available", "")


@pytest.mark.parametrize("mode", ["Immediate", LATER])
@pytest.mark.parametrize("volume_first", [True, False])
def test_a_users_promise_is_kept(mode: str, volume_first: bool) -> None:
    @staged()
    async def play(stage: Stage) -> None:
        stage.create_class("disks", mode=mode)
        if not volume_first:
            stage.create_claim("data")
            await stage.settle()
        ref = {"namespace": "default", "name": "data"}
        # Its class does not matter.
        stage.create_volume("mine", "9Gi", storage_class="other", claimRef=ref)
        await stage.settle()
        if volume_first:
            assert stage.volume_phase("mine") == ("Available", "data")
            stage.create_volume("smaller", "2Gi")
            stage.create_claim("data")
            await stage.settle()
        assert stage.claim_phase("data") == ("Bound", "mine")
        assert stage.volume_phase("mine") == ("Bound", "data")
        uid = stage.claim("data")["metadata"]["uid"]
        assert stage.volume("mine")["spec"]["claimRef"]["uid"] == uid
        assert BOUND_BY_CONTROLLER not in marks_of(stage.volume("mine")), "a user bound it"

    play()


@staged()
async def test_a_promised_volume_that_is_too_small_is_not_taken(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("mine", "1Mi", claimRef={"namespace": "default", "name": "data"})
    stage.create_claim("data")
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", "")
    assert stage.volume_phase("mine") == ("Available", "data")


@staged()
async def test_a_claim_gets_the_volume_that_it_names(stage: Stage) -> None:
    stage.create_class("disks", mode=LATER)
    stage.create_claim("data", volumeName="mine")
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", "mine")

    stage.create_volume("mine", "9Gi")
    await stage.settle()

    assert stage.claim_phase("data") == ("Bound", "mine")
    assert marks_of(stage.claim("data")) == {BIND_COMPLETED: "yes"}, "it was named by the user"
    assert marks_of(stage.volume("mine")) == {BOUND_BY_CONTROLLER: "yes"}


@staged()
async def test_two_claims_cannot_have_the_volume_that_both_name(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("one")
    stage.create_claim("first", volumeName="one")
    stage.create_claim("second", volumeName="one")
    await stage.settle()
    assert stage.claim_phase("first") == ("Bound", "one")
    assert stage.claim_phase("second") == ("Pending", "one")
    assert stage.volume_phase("one") == ("Bound", "first")


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": "1Mi"},
        {"storage_class": "other"},
        {"volumeMode": "Block"},
        {"accessModes": ["ReadOnlyMany"]},
    ],
)
def test_a_named_volume_that_does_not_suit_is_not_bound(wrong: dict[str, Any]) -> None:
    @staged()
    async def play(stage: Stage) -> None:
        stage.create_class("disks")
        stage.create_volume("mine", **wrong)
        stage.create_claim("data", volumeName="mine")
        await stage.settle()
        assert stage.claim_phase("data") == ("Pending", "mine")
        assert stage.volume_phase("mine") == ("Available", "")

    play()


@staged()
async def test_a_promise_to_a_claim_that_has_another_volume_is_taken_back(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("mine")
    stage.create_claim("data", volumeName="mine")
    await stage.settle()
    stage.create_volume("theirs")
    stage.create_volume("users")
    await stage.settle()

    stage.promise("theirs", "data")
    uid = stage.claim("data")["metadata"]["uid"]
    ref = {"namespace": "default", "name": "data", "uid": uid}
    stage.patch_volume("users", {"spec": {"claimRef": ref}})
    await stage.settle()

    assert stage.claim_phase("data") == ("Bound", "mine")
    assert stage.volume_phase("theirs") == ("Available", "")
    assert "annotations" not in stage.volume("theirs")["metadata"]
    # A user's is kept for when the claim should need it.
    assert stage.volume_phase("users") == ("Available", "data")
    assert "uid" not in stage.volume("users")["spec"]["claimRef"]


@staged()
async def test_of_two_promised_volumes_one_is_free_again(stage: Stage) -> None:
    stage.create_class("disks", mode=LATER)
    stage.create_volume("one")
    stage.create_volume("other")
    stage.create_claim("data")
    await stage.settle()
    stage.promise("other", "data")
    stage.promise("one", "data")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "one")
    assert stage.volume_phase("other") == ("Available", "")


@staged()
async def test_claims_and_volumes_from_another_cluster_find_each_other_again(stage: Stage) -> None:
    stage.create_claim(
        "data", volumeName="disk", metadata={"annotations": {BIND_COMPLETED: "true"}}
    )
    stage.create_volume("disk", claimRef={"namespace": "default", "name": "data"})
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "disk")
    assert stage.volume_phase("disk") == ("Bound", "data")
    assert marks_of(stage.claim("data")) == {BIND_COMPLETED: "true"}


# Ends


@staged()
async def test_a_deleted_claim_releases_its_volume(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("kept", persistentVolumeReclaimPolicy="Retain")
    stage.create_claim("data")
    await stage.settle()
    stage.delete_claim("data")
    stage.create_claim("data")
    await stage.settle()
    assert stage.volume_phase("kept") == ("Released", "data")
    assert stage.claim_phase("data") == ("Pending", ""), "it is another claim of the same name"
    # Somebody has cleaned it.
    stage.patch_volume("kept", {"spec": {"claimRef": None}})
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "kept")


@staged()
async def test_a_volume_that_is_to_be_deleted_goes_with_its_claim(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("disk", persistentVolumeReclaimPolicy="Delete")
    stage.create_claim("data")
    await stage.settle()
    stage.delete_claim("data")
    await stage.settle()
    assert stage.volumes() == []


@staged()
async def test_a_claim_whose_volume_is_gone_is_lost(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("disk")
    stage.create_claim("data")
    await stage.settle()
    stage.delete_volume("disk")
    await stage.settle()
    assert stage.claim_phase("data") == ("Lost", "disk")
    assert stage.claim("data")["status"] == {"phase": "Lost"}
    # One of the same name is another volume, but upstream binds it too.
    stage.create_volume("disk")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "disk")


@staged()
async def test_a_claim_whose_volume_was_given_to_somebody_else_is_lost(stage: Stage) -> None:
    stage.create_class("disks")
    stage.create_volume("disk")
    stage.create_claim("data")
    await stage.settle()
    stage.delete_volume("disk")
    stage.create_volume("disk", claimRef={"namespace": "default", "name": "other"})
    stage.create_claim("other")
    await stage.settle()
    assert stage.claim_phase("data") == ("Lost", "disk")
    assert stage.claim_phase("other") == ("Bound", "disk")
