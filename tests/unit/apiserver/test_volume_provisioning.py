"""The pretend external provisioner: volumes that somebody has to make first."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.sim.virtual.time_loop import TimeLoop, run_virtually
from tests.unit.apiserver.volume_stage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DRIVER,
    LATER,
    NO_PROVISIONER,
    SELECTED_NODE,
    Json,
    Stage,
    marks_of,
    staged,
)

ZONE = "topology.kubernetes.io/zone"
RACK = "example.com/rack"


def term(key: str, *values: str) -> Json:
    return {"matchLabelExpressions": [{"key": key, "values": list(values)}]}


def affinity(**place: str) -> Json:
    """As it is written; `zone` and `rack` are the labels."""
    keys = {"zone": ZONE, "rack": RACK}
    expressions = [
        {"key": keys[name], "operator": "In", "values": [value]} for name, value in place.items()
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


@staged(provision_delay_s=2.5)
async def test_a_volume_is_made_for_an_immediate_claim(stage: Stage) -> None:
    stage.create_class("disks", DRIVER, mountOptions=["noatime"])
    began = stage.loop.time()
    stage.create_claim("data", "3Gi")
    await stage.loop.at_rest()
    assert stage.volumes() == []
    assert stage.is_busy()
    provisioners = {
        "volume.beta.kubernetes.io/storage-provisioner": DRIVER,
        "volume.kubernetes.io/storage-provisioner": DRIVER,
    }
    assert marks_of(stage.claim("data")) == provisioners

    await stage.settle()

    assert stage.loop.time() == began + 2.5
    name = stage.made_for("data")
    assert stage.claim_phase("data") == ("Bound", name)
    marks = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    assert marks_of(stage.claim("data")) == provisioners | marks
    volume = stage.volume(name)
    assert marks_of(volume) == {"pv.kubernetes.io/provisioned-by": DRIVER}
    assert volume["status"] == {"phase": "Bound"}
    ref = volume["spec"].pop("claimRef")
    assert (ref["name"], ref["uid"]) == ("data", stage.claim("data")["metadata"]["uid"])
    assert volume["spec"] == {
        "capacity": {"storage": "3Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "disks",
        "volumeMode": "Filesystem",
        "mountOptions": ["noatime"],
    }


@staged()
async def test_a_volume_that_exists_is_better_than_one_to_be_made(stage: Stage) -> None:
    stage.create_class("disks", DRIVER)
    stage.create_volume("disk")
    stage.create_claim("data")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "disk")
    assert stage.volumes() == ["disk"]


@staged(provision_delay_s=5)
async def test_a_volume_that_comes_in_the_meantime_is_taken(stage: Stage) -> None:
    stage.create_class("disks", DRIVER)
    stage.create_claim("data")
    await asyncio.sleep(1)
    stage.create_volume("disk")
    await stage.settle()
    assert stage.claim_phase("data") == ("Bound", "disk")
    assert stage.volumes() == ["disk"]


@pytest.mark.parametrize("provisioner", [NO_PROVISIONER, "kubernetes.io/nobody-knows"])
def test_nobody_makes_volumes_for_some_classes(provisioner: str) -> None:
    @staged()
    async def play(stage: Stage) -> None:
        stage.create_class("disks", provisioner)
        stage.create_claim("data")
        await stage.settle()
        assert stage.claim_phase("data") == ("Pending", "")
        assert marks_of(stage.claim("data")) == {}

    play()


@staged()
async def test_no_driver_knows_what_to_make_for_a_selector(stage: Stage) -> None:
    stage.create_class("disks", DRIVER)
    stage.create_claim("data", selector={"matchLabels": {"tier": "fast"}})
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", "")
    assert marks_of(stage.claim("data"))["volume.kubernetes.io/storage-provisioner"] == DRIVER


@staged()
async def test_provisioners_of_old_have_drivers(stage: Stage) -> None:
    stage.create_class("disks", "kubernetes.io/aws-ebs")
    stage.create_claim("data")
    await stage.settle()
    volume = stage.volume(stage.made_for("data"))
    assert volume["spec"]["csi"]["driver"] == "ebs.csi.aws.com"


@staged(provision_delay_s=5)
async def test_no_volume_is_made_for_a_claim_that_was_deleted_meanwhile(stage: Stage) -> None:
    stage.create_class("disks", DRIVER)
    stage.create_claim("data")
    await asyncio.sleep(1)
    stage.delete_claim("data")
    stage.create_claim("data")
    began = stage.loop.time()
    await stage.settle()
    # Only for the new one, and not because of the old one.
    assert stage.volumes() == [stage.made_for("data")]
    assert stage.loop.time() == began + 5
    stage.delete_claim("data")
    await stage.settle()
    assert stage.volumes() == [], "the class's policy is Delete"


@staged(provision_delay_s=5)
async def test_no_volume_is_made_in_a_class_that_was_deleted_meanwhile(stage: Stage) -> None:
    stage.create_class("disks", DRIVER)
    stage.create_claim("data")
    await asyncio.sleep(1)
    stage.delete_class("disks")
    await stage.settle()
    assert stage.volumes() == []
    assert stage.claim_phase("data") == ("Pending", "")
    stage.create_class("disks", DRIVER, reclaimPolicy="Retain")
    await stage.settle()
    name = stage.made_for("data")
    assert stage.claim_phase("data") == ("Bound", name)
    stage.delete_claim("data")
    await stage.settle()
    assert stage.volume_phase(name) == ("Released", "data")


# For a node


@staged()
async def test_a_volume_is_made_for_the_selected_node(stage: Stage) -> None:
    stage.create_class("disks", DRIVER, LATER)
    stage.create_node(
        "n1", {ZONE: "z1", RACK: "r7", "other": "x"}, topology_keys=(ZONE, RACK, "none")
    )
    stage.create_claim("data")
    await stage.settle()
    assert stage.claim_phase("data") == ("Pending", "")
    assert marks_of(stage.claim("data")) == {}

    stage.select("data", "n1")
    await stage.settle()

    name = stage.made_for("data")
    assert stage.claim_phase("data") == ("Bound", name)
    assert marks_of(stage.claim("data"))[SELECTED_NODE] == "n1"
    assert stage.volume(name)["spec"]["nodeAffinity"] == affinity(rack="r7", zone="z1")


@staged()
async def test_without_a_driver_on_the_node_allowed_topologies_say_what_a_place_is(
    stage: Stage,
) -> None:
    allowed = [term(ZONE, "z9"), term(ZONE, "z1", "z2")]
    stage.create_class("disks", DRIVER, LATER, allowedTopologies=allowed)
    stage.create_node("n1", {ZONE: "z1"})
    stage.create_claim("data")
    stage.select("data", "n1")
    await stage.settle()
    volume = stage.volume(stage.made_for("data"))
    assert volume["spec"]["nodeAffinity"] == affinity(zone="z1")


@staged()
async def test_a_volume_without_topology_is_reached_from_everywhere(stage: Stage) -> None:
    stage.create_class("disks", DRIVER, LATER)
    stage.create_node("n1", {ZONE: "z1"})
    stage.create_claim("data")
    stage.select("data", "n1")
    await stage.settle()
    assert "nodeAffinity" not in stage.volume(stage.made_for("data"))["spec"]


@staged()
async def test_an_immediate_volume_is_wherever_its_class_allows(stage: Stage) -> None:
    stage.create_class("disks", DRIVER, allowedTopologies=[term(ZONE, "z1"), term(RACK, "r1")])
    stage.create_claim("data")
    await stage.settle()
    terms = affinity(zone="z1")["required"]["nodeSelectorTerms"]
    terms += affinity(rack="r1")["required"]["nodeSelectorTerms"]
    volume = stage.volume(stage.made_for("data"))
    assert volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == terms


@pytest.mark.parametrize("node", ["unknown", "elsewhere"])
def test_a_node_that_no_volume_can_be_made_for_is_given_back(node: str) -> None:
    @staged()
    async def play(stage: Stage) -> None:
        stage.create_class("disks", DRIVER, LATER, allowedTopologies=[term(ZONE, "z1")])
        stage.create_node("elsewhere", {ZONE: "z2"})
        stage.create_node("here", {ZONE: "z1"})
        stage.create_claim("data")
        stage.select("data", node)
        await stage.settle()
        assert stage.claim_phase("data") == ("Pending", "")
        assert SELECTED_NODE not in marks_of(stage.claim("data"))
        # What the scheduler takes for "provisioning failed": there are other annotations.
        assert marks_of(stage.claim("data"))
        stage.select("data", "here")
        await stage.settle()
        assert stage.claim_phase("data") == ("Bound", stage.made_for("data"))

    play()


@staged(provision_delay_s=5)
async def test_the_last_choice_of_a_node_counts(stage: Stage) -> None:
    stage.create_class("disks", DRIVER, LATER)
    for name in ("n1", "n2"):
        stage.create_node(name, {ZONE: f"zone-of-{name}"}, topology_keys=(ZONE,))
    for name in ("moved", "withdrawn"):
        stage.create_claim(name)
        stage.select(name, "n1")
    await asyncio.sleep(1)
    stage.select("moved", "n2")
    stage.select("withdrawn", None)
    await stage.settle()
    volume = stage.volume(stage.made_for("moved"))
    assert volume["spec"]["nodeAffinity"] == affinity(zone="zone-of-n2")
    assert stage.claim_phase("withdrawn") == ("Pending", "")


# The task


@staged(bind_delay_s=1.5)
async def test_binding_may_take_time(stage: Stage) -> None:
    stage.create_class("disks", mode=LATER)
    stage.create_volume("disk")
    stage.create_claim("data")
    await stage.settle()
    began = stage.loop.time()
    stage.promise("disk", "data")
    await stage.loop.at_rest()
    assert stage.claim_phase("data") == ("Pending", "")
    while stage.claim_phase("data") == ("Pending", ""):
        await stage.loop.passed()
    assert stage.claim_phase("data") == ("Bound", "disk")
    assert stage.loop.time() == began + 1.5


def test_what_was_there_before_the_start_is_served_too_and_stopping_leaves_no_work() -> None:
    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop, VolumeControllerOptions(provision_delay_s=3))
        stage.create_class("disks", DRIVER)
        stage.create_volume("disk")
        stage.create_claim("first")
        stage.create_claim("second")
        for is_patient, phases in ((False, ["Bound", "Pending"]), (True, ["Bound", "Bound"])):
            running = asyncio.create_task(stage.controller.run())
            await loop.at_rest()
            assert stage.is_busy(), "a volume is to be made"
            if is_patient:
                await stage.settle()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert not stage.is_busy()
            assert [stage.claim_phase(name)[0] for name in ("first", "second")] == phases

    run_virtually(play)


@staged()
async def test_many_claims_and_volumes_are_no_trouble(stage: Stage) -> None:
    stage.create_class("disks")
    for number in range(300):
        stage.create_claim(f"claim-{number:03}")
    await stage.settle()
    for number in range(300):
        stage.create_volume(f"disk-{number:03}")
    await stage.settle()
    bound = {stage.claim_phase(f"claim-{number:03}") for number in range(300)}
    assert bound == {("Bound", f"disk-{number:03}") for number in range(300)}
