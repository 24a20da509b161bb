"""The pretend volume controller under random histories: what must hold whenever it is done.

Users create, promise, name and delete claims and volumes in any order, sometimes before it has
looked at the last change. Volumes are promised, too, that the claim has no use for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.quantity import nanos
from stowplan.apiserver.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.errors import ApiError
from stowplan.sim.virtual.time_loop import TimeLoop, run_virtually
from tests.examples import examples
from tests.unit.apiserver.volume_stage import (
    BIND_COMPLETED,
    DRIVER,
    LATER,
    NO_PROVISIONER,
    Json,
    Stage,
    marks_of,
)

Act: TypeAlias = tuple[Any, ...]

CLASSES = {
    "now": (NO_PROVISIONER, "Immediate"),
    "later": (NO_PROVISIONER, LATER),
    "made": (DRIVER, "Immediate"),
    "made-later": (DRIVER, LATER),
}
CLAIMS = ("c1", "c2")
VOLUMES = ("v1", "v2", "v3")
claims = st.sampled_from(CLAIMS)
volumes = st.sampled_from(VOLUMES)
classes = st.sampled_from(["now", "now", "now", "later", "later", "made", "made-later"])
sizes = st.sampled_from(["1Gi", "1Gi", "2Gi"])
rarely = st.integers(0, 3).map(lambda number: number == 0)


@st.composite
def new_claim(draw: st.DrawFn, name: str) -> Act:
    volume = draw(volumes) if draw(rarely) else None
    return "claim", name, draw(classes), draw(sizes), volume


@st.composite
def new_volume(draw: st.DrawFn, name: str) -> Act:
    claim = draw(claims) if draw(rarely) else None
    return "volume", name, draw(classes), draw(sizes), claim, draw(st.sampled_from("RD"))


acts = st.one_of(
    claims.flatmap(new_claim),
    volumes.flatmap(new_volume),
    st.tuples(st.just("promise"), volumes, claims),
    st.tuples(st.just("select"), claims, st.sampled_from(["n1", "nowhere"])),
    st.tuples(st.just("delete claim"), claims),
    st.tuples(st.just("delete volume"), volumes),
    st.tuples(st.just("free"), volumes),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.3, 60.0])),
    st.tuples(st.just("wait"), st.just(60.0)),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Act]:
    """One of each name in some order, and then anything."""
    first: list[Act] = [draw(new_claim(name)) for name in CLAIMS]
    first += [draw(new_volume(name)) for name in VOLUMES]
    first += [("wait", 60.0)] * 2
    return [*draw(st.permutations(first)), *draw(st.lists(acts, max_size=8))]


async def act(stage: Stage, what: Act) -> None:
    match what:
        case ("claim", name, storage_class, size, None):
            stage.create_claim(name, size, storage_class)
        case ("claim", name, storage_class, size, volume):
            stage.create_claim(name, size, storage_class, volumeName=volume)
        case ("volume", name, storage_class, size, claim, policy):
            spec: Json = {"persistentVolumeReclaimPolicy": "Delete" if policy == "D" else "Retain"}
            if claim is not None:
                spec["claimRef"] = {"namespace": "default", "name": claim}
            stage.create_volume(name, size, storage_class, **spec)
        case ("promise", volume, claim):
            if stage.volume_phase(volume) == ("Available", ""):
                stage.promise(volume, claim)
        case ("select", claim, node):
            stage.select(claim, node)
        case ("delete claim", name):
            stage.delete_claim(name)
        case ("delete volume", name):
            stage.delete_volume(name)
        case ("free", name):
            stage.patch_volume(name, {"spec": {"claimRef": None}})
        case ("wait", seconds):
            await asyncio.sleep(seconds)


async def history(stage: Stage, done: list[Act]) -> None:
    stage.create_node("n1")
    for name, (provisioner, mode) in CLASSES.items():
        stage.create_class(name, provisioner, mode)
    for what in done:
        with suppress(ApiError):  # It is there already, or is not there.
            await act(stage, what)
    await asyncio.wait_for(stage.settle(), 1000)


def played(done: list[Act], then: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop, VolumeControllerOptions(**options))
        running = asyncio.create_task(stage.controller.run())
        await history(stage, done)
        await then(stage)
        assert not running.done()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run_virtually(play)


def stored(stage: Stage) -> tuple[dict[str, Json], dict[str, Json]]:
    """Claims and volumes by name."""
    store = stage.cluster.store
    return (
        {record.key[1]: record.object for record in store.records(PERSISTENT_VOLUME_CLAIMS)},
        {record.key[1]: record.object for record in store.records(PERSISTENT_VOLUMES)},
    )


@examples(150)
@given(done=histories(), delay=st.sampled_from([0.0, 0.2]))
def test_when_it_is_done_claims_and_volumes_agree(done: list[Act], delay: float) -> None:
    async def check(stage: Stage) -> None:
        claims, volumes = stored(stage)
        holders: dict[str, str] = {}
        for name, claim in claims.items():
            volume = claim["spec"].get("volumeName", "")
            phase = claim["status"]["phase"]
            assert (phase in ("Bound", "Lost")) == (BIND_COMPLETED in marks_of(claim))
            if phase == "Bound":
                assert holders.setdefault(volume, name) == name
                assert volumes[volume]["status"]["phase"] == "Bound"
                ref = volumes[volume]["spec"]["claimRef"]
                assert (ref["name"], ref["uid"]) == (name, claim["metadata"]["uid"])
            elif phase == "Lost":
                ref = volumes[volume]["spec"]["claimRef"] if volume in volumes else {}
                assert ref.get("uid") != claim["metadata"]["uid"]
        for name, volume in volumes.items():
            phase, ref = volume["status"]["phase"], volume["spec"].get("claimRef", {})
            assert (phase == "Bound") == (name in holders), (name, phase)
            if phase == "Available" and "uid" in ref:
                # A promise that cannot be kept: the volume is too small.
                wanted = claims[ref["name"]]["spec"]["resources"]["requests"]["storage"]
                assert nanos(volume["spec"]["capacity"]["storage"]) < nanos(wanted)
            if phase == "Released":
                assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
                current = claims.get(ref["name"])
                assert current is None or current["metadata"]["uid"] != ref["uid"]
        for claim in claims.values():
            if claim["status"]["phase"] == "Pending":
                check_pending(stage, claim, list(volumes.values()))

    played(done, check, bind_delay_s=delay)


def check_pending(stage: Stage, claim: Json, volumes: list[Json]) -> None:
    """There is a reason to wait."""
    name = claim["spec"]["storageClassName"]
    provisioner, mode = CLASSES.get(name, (NO_PROVISIONER, "Immediate"))
    if claim["spec"].get("volumeName"):
        return
    size = nanos(claim["spec"]["resources"]["requests"]["storage"])
    suitable = [
        volume
        for volume in volumes
        if volume["spec"]["storageClassName"] == name
        and nanos(volume["spec"]["capacity"]["storage"]) >= size
        and "claimRef" not in volume["spec"]
    ]
    selected = marks_of(claim).get("volume.kubernetes.io/selected-node")
    if mode == "Immediate":
        assert not suitable
        assert provisioner == NO_PROVISIONER
    else:
        is_node = selected and stage.cluster.store.get(NODES, "", selected) is not None
        assert provisioner == NO_PROVISIONER or not is_node


@examples(20)
@given(done=histories())
def test_the_same_history_ends_the_same(done: list[Act]) -> None:
    ends: list[tuple[dict[str, Json], dict[str, Json]]] = []

    async def remember(stage: Stage) -> None:
        ends.append(stored(stage))

    played(done, remember)
    played(done, remember)
    assert ends[0] == ends[1]
