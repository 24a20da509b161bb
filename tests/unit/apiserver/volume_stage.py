"""Claims and volumes in a store with nobody but the volume controller, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import msgspec

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.kinds import (
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Kind,
)
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.patches import MERGE_PATCH
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.volume_controller import VolumeController, VolumeControllerOptions
from stowplan.sim.virtual.time_loop import TimeLoop, run_virtually

Json = dict[str, Any]

NO_PROVISIONER = "kubernetes.io/no-provisioner"
DRIVER = "disks.example.com"
LATER = "WaitForFirstConsumer"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class Stage:
    """`settle` lets happen what is to happen; then look."""

    def __init__(self, loop: TimeLoop, options: VolumeControllerOptions) -> None:
        self.loop = loop
        self.cluster = EmbeddedCluster(
            kubelet=KubeletOptions(enabled=False), clock=loop.clock, rng=Random(7)
        )
        self.controller = VolumeController(self.cluster.store, self.cluster.rest.deleter, options)

    async def settle(self) -> None:
        await self.loop.at_rest()
        while self.controller.has_work:
            await self.loop.passed()

    def is_busy(self) -> bool:
        return self.controller.has_work

    # Making

    def create_class(
        self, name: str, provisioner: str = NO_PROVISIONER, mode: str = "Immediate", **rest: Any
    ) -> None:
        body = {"provisioner": provisioner, "volumeBindingMode": mode, **rest}
        self._create(STORAGE_CLASSES, name, body)

    def create_volume(
        self, name: str, size: str = "5Gi", storage_class: str = "disks", **spec: Any
    ) -> None:
        labels = spec.pop("labels", {})
        body = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "hostPath": {"path": "/x"},
            **spec,
        }
        self._create(PERSISTENT_VOLUMES, name, {"spec": body}, labels=labels)

    def create_claim(
        self, name: str, size: str = "1Gi", storage_class: str | None = "disks", **spec: Any
    ) -> None:
        metadata = spec.pop("metadata", {})
        body = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **spec,
        }
        if storage_class is not None:
            body["storageClassName"] = storage_class
        self._create(PERSISTENT_VOLUME_CLAIMS, name, {"spec": body}, **metadata)

    def create_node(
        self, name: str, labels: Json | None = None, *, topology_keys: tuple[str, ...] = ()
    ) -> None:
        """With topology keys the node has a CSI driver that says them."""
        self._create(NODES, name, {}, labels=labels or {})
        if topology_keys:
            driver = {"name": DRIVER, "nodeID": name, "topologyKeys": list(topology_keys)}
            self._create(CSI_NODES, name, {"spec": {"drivers": [driver]}})

    def _create(self, kind: Kind, name: str, body: Json, **metadata: Any) -> None:
        namespace = "default" if kind.namespaced else ""
        obj = {"metadata": {"name": name, **metadata}, **body}
        self.cluster.create(kind.group, kind.version, kind.plural, obj, namespace=namespace)

    # Changing

    def patch_claim(self, name: str, patch: Json) -> None:
        self._patch(f"/api/v1/namespaces/default/persistentvolumeclaims/{name}", patch)

    def patch_volume(self, name: str, patch: Json) -> None:
        self._patch(f"/api/v1/persistentvolumes/{name}", patch)

    def select(self, claim: str, node: str | None) -> None:
        """What the scheduler writes to have a volume made."""
        self.patch_claim(claim, {"metadata": {"annotations": {SELECTED_NODE: node}}})

    def promise(self, volume: str, claim: str) -> None:
        """What the scheduler writes to give a volume away."""
        metadata = self.claim(claim)["metadata"]
        ref = {"namespace": "default", "name": claim, "uid": metadata["uid"]}
        marks = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        self.patch_volume(volume, {"metadata": marks, "spec": {"claimRef": ref}})

    def _patch(self, path: str, patch: Json) -> None:
        target = parse_path(path)
        assert target is not None
        body = msgspec.json.encode(patch)
        self.cluster.rest.writer.patch(target, MERGE_PATCH, body, WriteOptions())

    def delete_claim(self, name: str) -> None:
        self._delete(PERSISTENT_VOLUME_CLAIMS, "default", name)

    def delete_volume(self, name: str) -> None:
        self._delete(PERSISTENT_VOLUMES, "", name)

    def delete_class(self, name: str) -> None:
        self._delete(STORAGE_CLASSES, "", name)

    def _delete(self, kind: Kind, namespace: str, name: str) -> None:
        record = self.cluster.store.require(kind, namespace, name)
        self.cluster.rest.deleter.delete(kind, record, {})

    # Looking

    def claim(self, name: str) -> Json:
        return self.cluster.store.require(PERSISTENT_VOLUME_CLAIMS, "default", name).object

    def volume(self, name: str) -> Json:
        return self.cluster.store.require(PERSISTENT_VOLUMES, "", name).object

    def volumes(self) -> list[str]:
        return [record.key[1] for record in self.cluster.store.records(PERSISTENT_VOLUMES)]

    def claim_phase(self, name: str) -> tuple[str, str]:
        """And the volume, if it names one."""
        claim = self.claim(name)
        return claim["status"]["phase"], claim["spec"].get("volumeName", "")

    def volume_phase(self, name: str) -> tuple[str, str]:
        """And the claim that it is promised to."""
        volume = self.volume(name)
        return volume["status"]["phase"], volume["spec"].get("claimRef", {}).get("name", "")

    def made_for(self, claim: str) -> str:
        """The name that a volume made for the claim has."""
        return f"pvc-{self.claim(claim)['metadata']['uid']}"


def marks_of(obj: Mapping[str, Any]) -> Json:
    found: Json = obj["metadata"].get("annotations", {})
    return found


def staged(**options: Any) -> Callable[[Callable[[Stage], Awaitable[None]]], Callable[[], None]]:
    """A test that is given a stage on which the controller is running, with these options."""

    def made(scene: Callable[[Stage], Awaitable[None]]) -> Callable[[], None]:
        async def play(loop: TimeLoop) -> None:
            stage = Stage(loop, VolumeControllerOptions(**options))
            running = asyncio.create_task(stage.controller.run())
            try:
                await loop.at_rest()
                await scene(stage)
                await stage.settle()
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running
            assert not stage.controller.has_work

        def test() -> None:
            run_virtually(play)

        test.__doc__ = scene.__doc__
        return test

    return made
