"""PreBind: what is written, how long is waited, and what ends the wait.

The API server here keeps versions and refuses stale writes; tests play the PV controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import pytest

from stowplan.api.objects import Pod
from stowplan.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from stowplan.api.transport import Lane
from stowplan.api.verbs import NoApi
from stowplan.clock import VirtualClock
from stowplan.errors import Conflict
from stowplan.framework.cycle import Cycle
from stowplan.framework.status import Status, error
from stowplan.plugins.volume_binding import prebind
from stowplan.plugins.volume_binding.search import NodeVolumes
from stowplan.scheduler.wakeups import Wakeups
from stowplan.testing import node
from tests.unit.plugins.volume_binding_kit import (
    BOUND,
    SELECTED_NODE,
    STATIC,
    Scene,
    claim,
    csi_node,
    storage_class,
    using,
    volume,
)

T = TypeVar("T")

NODES = [node("a"), node("b")]
MINE = {"namespace": "default", "name": "data", "uid": "uid-data"}


class Server(NoApi):
    """Merges patches into what the catalog holds, as a new version."""

    def __init__(self) -> None:
        self.scene: Scene | None = None
        self.written: list[tuple[str, Mapping[str, Any]]] = []
        self.shows_at_once = True
        self.refuse: set[str] = set()

    async def amend(
        self,
        resource: Resource[T],
        name: str,
        changes: Mapping[str, Any],
        *,
        namespace: str = "",
        resource_version: str,
        subresource: str = "",
        lane: Lane = Lane.BIND,
        timeout_s: float = 30.0,
    ) -> T:
        assert self.scene is not None
        await asyncio.sleep(0)
        kind: Resource[Any] = resource
        shelf = self.scene.cache.catalog[kind]
        stored = shelf.get(name, namespace)
        assert stored is not None
        if name in self.refuse or stored.metadata.resource_version != resource_version:
            raise Conflict("the object has been modified")
        self.written.append((name, changes))
        wire = msgspec.to_builtins(stored)
        meta = wire["metadata"]
        annotations = {**(meta.get("annotations") or {}), **(changes["metadata"]["annotations"])}
        meta |= {"annotations": annotations, "resourceVersion": str(int(resource_version) + 1)}
        wire.setdefault("spec", {}).update(changes.get("spec", {}))
        changed: T = msgspec.convert(wire, kind.type)
        if self.shows_at_once:
            shelf.set(changed)
        return changed


class Play:
    """A pod on its way to node a, in PreBind."""

    def __init__(self, *things: Any, pod: Pod | None = None, server: Server | None = None) -> None:
        self.clock = VirtualClock()
        self.server = server or Server()
        self.wakeups = Wakeups(lambda: None)
        self.scene = self.server.scene = Scene(
            NODES, *things, clock=self.clock, client=self.server, wakeup=self.wakeups.new
        )
        self.pod = self.scene.cache.assume(pod or using("data"), "a")
        self.cycle: Cycle = self.scene.reserve(self.pod, "a")
        self.task = asyncio.create_task(self.scene.plugin.pre_bind(self.cycle, self.pod, "a"))

    async def go_on(self) -> None:
        """Let the task run until it waits."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def ended(self) -> Status | None:
        await self.go_on()
        assert self.task.done(), "it still waits"
        return self.task.result()

    async def still_waits(self) -> None:
        await self.go_on()
        assert not self.task.done()
        assert self.wakeups.waiting == 1

    def stored(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        return self.scene.cache.catalog[resource].get(name, namespace)


def static(**more: Any) -> Play:
    """A claim that gets a disk that exists."""
    disk = volume("pv", storage_class="static", hosts=["a"])
    return Play(STATIC, claim(storage_class="static"), disk, **more)


def dynamic(**more: Any) -> Play:
    """A claim that gets a new disk."""
    return Play(storage_class(), claim(), **more)


async def test_a_volume_is_promised_and_the_pod_waits_until_the_claim_is_bound() -> None:
    play = static()
    await play.still_waits()
    ((name, changes),) = play.server.written
    assert name == "pv"
    assert changes["metadata"] == {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
    assert changes["spec"]["claimRef"] == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "data",
        "uid": "uid-data",
        "resourceVersion": "1",
    }
    play.scene.put(claim(storage_class="static", version="2", volumeName="pv"))
    await play.still_waits()
    play.scene.put(claim(storage_class="static", version="3", bound_to="pv"))
    assert await play.ended() is None


async def test_a_new_volume_is_asked_for_and_waited_for() -> None:
    play = dynamic()
    await play.still_waits()
    assert play.server.written == [("data", {"metadata": {"annotations": {SELECTED_NODE: "a"}}})]
    bound = {**BOUND, SELECTED_NODE: "a"}
    play.scene.put(claim(version="3", bound_to="new", annotations=bound))
    await play.still_waits()
    play.scene.put(volume("new", claim_ref=MINE, phase="Bound", hosts=["a"]))
    assert await play.ended() is None


async def test_versions_older_than_what_was_written_say_nothing() -> None:
    server = Server()
    server.shows_at_once = False
    play = dynamic(server=server)
    await play.still_waits()
    play.scene.put(claim())
    await play.still_waits()
    play.scene.put(claim(version="2", annotations={SELECTED_NODE: "a"}))
    await play.still_waits()
    play.scene.put(claim(version="3", annotations={"some": "other"}))
    assert await play.ended() == error('binding volumes: provisioning failed for PVC "data"')


async def test_a_pod_with_nothing_to_bind_does_not_wait() -> None:
    play = Play(claim(bound_to="pv"), volume("pv"))
    assert await play.ended() is None
    assert play.server.written == []


Act = Callable[[Play], None]


def _forget_the_pod(play: Play) -> None:
    play.scene.cache.remove_pod(play.pod.uid)


def _remove_the_node(play: Play) -> None:
    play.scene.cache.remove_node("a")


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (
            lambda play: play.scene.put(claim(version="9", annotations={"x": "y"})),
            'provisioning failed for PVC "data"',
        ),
        (
            lambda play: play.scene.put(claim(version="9", annotations={SELECTED_NODE: "b"})),
            'provisioning failed for PVC "data"',
        ),
        (
            lambda play: play.scene.put(claim(version="9")),
            'selectedNode annotation reset for PVC "data"',
        ),
        (
            lambda play: play.scene.remove(claim()),
            'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found',
        ),
        (
            lambda play: play.scene.put(
                volume("far", claim_ref=MINE, hosts=["b"]),
                claim(version="9", bound_to="far", annotations={SELECTED_NODE: "a"}),
            ),
            'pv "far" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
        (
            lambda play: play.scene.put(
                csi_node("a", "kubernetes.io/aws-ebs"),
                volume("odd", claim_ref=MINE, awsElasticBlockStore={"volumeID": "aws://z/x"}),
                claim(version="9", bound_to="odd", annotations={SELECTED_NODE: "a"}),
            ),
            "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid "
            "format for AWS volume (aws://z/x)",
        ),
    ],
)
async def test_what_ends_the_wait_for_a_new_volume(act: Act, problem: str) -> None:
    play = dynamic()
    await play.still_waits()
    act(play)
    assert await play.ended() == error(f"binding volumes: {problem}")


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (_forget_the_pod, 'pod does not exist any more: pod "p" not found'),
        (_remove_the_node, 'failed to get node "a": node "a" not found'),
    ],
)
async def test_pod_and_node_are_looked_at_from_time_to_time(
    act: Act, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prebind, "_LOOK_S", 0.01)
    play = dynamic()
    await play.still_waits()
    act(play)
    assert await play.task == error(f"binding volumes: {problem}")


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (
            lambda play: play.scene.put(volume("pv", storage_class="static", version="9")),
            'ClaimRef got reset for pv "pv"',
        ),
        (
            lambda play: play.scene.put(
                volume("pv", storage_class="static", version="9", hosts=["b"], claim_ref=MINE)
            ),
            'pv "pv" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
        (
            lambda play: play.scene.remove(volume("pv")),
            'failed to check binding: persistentvolumes "pv" not found',
        ),
        (
            lambda play: play.scene.remove(claim()),
            'failed to check binding: persistentvolumeclaims "default/data" not found',
        ),
        (
            lambda play: play.scene.put(
                csi_node("a", "kubernetes.io/aws-ebs"),
                volume(
                    "pv",
                    storage_class="static",
                    version="9",
                    claim_ref=MINE,
                    awsElasticBlockStore={"volumeID": "aws://z/x"},
                ),
            ),
            "failed to translate pv to csi: could not translate pv: failed to translate "
            "Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/x)",
        ),
    ],
)
async def test_what_ends_the_wait_for_a_volume_that_exists(act: Act, problem: str) -> None:
    play = static()
    await play.still_waits()
    act(play)
    assert await play.ended() == error(f"binding volumes: {problem}")


async def test_patience_is_bounded() -> None:
    play = dynamic()
    await play.still_waits()
    play.clock.advance(599)
    play.scene.put(claim(version="3", annotations={SELECTED_NODE: "a"}))
    await play.still_waits()
    play.clock.advance(2)
    play.scene.put(claim(version="4", annotations={SELECTED_NODE: "a"}))
    assert await play.ended() == error("binding volumes: context deadline exceeded")


async def test_a_scheduler_that_stops_ends_the_wait() -> None:
    play = dynamic()
    await play.still_waits()
    play.wakeups.close()
    assert await play.ended() == error("binding volumes: context canceled")


async def test_changes_of_others_claims_do_not_wake() -> None:
    play = dynamic()
    await play.still_waits()
    play.scene.put(claim("other"), volume("pv", claim_ref={**MINE, "name": "other"}))
    assert not any(waiting.is_set() for waiting in play.wakeups._waiting)
    play.scene.put(volume("pv", claim_ref=MINE, version="2"))
    assert all(waiting.is_set() for waiting in play.wakeups._waiting)
    play.task.cancel()


async def test_a_refused_write_takes_back_what_was_not_written() -> None:
    """The first volume is promised for good, the second and the new one are free again."""
    server = Server()
    server.shows_at_once = False
    server.refuse = {"pv2"}
    play = Play(
        STATIC,
        storage_class(),
        claim("one", storage_class="static"),
        claim("two", storage_class="static"),
        claim("three"),
        volume("pv1", storage_class="static", size="1Gi"),
        volume("pv2", storage_class="static", size="2Gi"),
        pod=using("one", "two", "three"),
        server=server,
    )
    with pytest.raises(Conflict):
        await play.task
    play.scene.plugin.unreserve(play.cycle, play.pod, "a")
    volumes = play.cycle.get(NodeVolumes)
    assert volumes is not None
    believed = play.scene.plugin._believed
    promised = {name: believed.volumes.get(name) for name in ("pv1", "pv2")}
    assert promised["pv1"] is not None
    assert promised["pv1"].spec.claim_ref is not None, "what was written is true"
    assert promised["pv2"] == play.stored(PERSISTENT_VOLUMES, "pv2")
    three = play.stored(PERSISTENT_VOLUME_CLAIMS, "three", "default")
    assert believed.claims.get("three", "default") == three


async def test_nobody_is_told_after_the_wait() -> None:
    play = dynamic()
    await play.still_waits()
    play.task.cancel()
    await play.go_on()
    assert play.scene.plugin._believed._waiting == {}
