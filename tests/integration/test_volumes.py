"""Pods with claims on the embedded and on the real API server: right node, and not before time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.pv_controller import (
    CLAIMS,
    VOLUMES,
    Controller,
    PlayedController,
    RealController,
)
from tests.integration.target import Target
from tests.waiting import wait_for

Json = dict[str, Any]

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
HOSTNAME = "kubernetes.io/hostname"
LATER = "WaitForFirstConsumer"


class Storage:
    """Classes, volumes and claims of a test."""

    def __init__(self, target: Target, controller: Controller) -> None:
        self.target = target
        self.api = target.api
        self.controller = controller

    def create_class(self, name: str, provisioner: str, mode: str = LATER) -> None:
        self.api.create(
            CLASSES,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": mode,
            },
        )

    def create_volume(
        self, name: str, storage_class: str, node: str, claim_ref: Json | None = None
    ) -> None:
        """A disk that only one node reaches."""
        requirement = {"key": HOSTNAME, "operator": "In", "values": [node]}
        spec: Json = {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
            },
        }
        if claim_ref is not None:
            spec["claimRef"] = claim_ref
        self.api.create(
            VOLUMES,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name},
                "spec": spec,
            },
        )
        self.api.patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Available"}})

    def create_claim(self, name: str, storage_class: str) -> None:
        self.api.create(
            CLAIMS,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "spec": {
                    "storageClassName": storage_class,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )

    def create_pod(self, name: str, claim: str) -> None:
        source = {"persistentVolumeClaim": {"claimName": claim}}
        self.target.create_pods(name, volumes=[{"name": "data", **source}])

    def claim(self, name: str) -> Json:
        return self.api.get(f"{CLAIMS}/{name}")

    def is_bound(self, name: str) -> bool:
        claim = self.claim(name)
        annotations = claim["metadata"].get("annotations", {})
        return "volumeName" in claim["spec"] and "pv.kubernetes.io/bind-completed" in annotations

    def wait_selected(self, name: str) -> str:
        """The node that the scheduler wants a new volume for."""

        def look() -> str | None:
            annotations: dict[str, str] = self.claim(name)["metadata"].get("annotations", {})
            return annotations.get(SELECTED_NODE)

        return wait_for(f"claim {name} to have a node selected", look)

    def wait_promised(self, name: str) -> Json:
        """The claim that a volume is promised to."""
        return wait_for(
            f"volume {name} to be promised",
            lambda: self.api.get(f"{VOLUMES}/{name}")["spec"].get("claimRef"),
        )

    def provision(self, claim_name: str, node: str) -> None:
        """What a provisioner does: make the volume for the claim."""
        claim = self.claim(claim_name)["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim["namespace"],
            "name": claim["name"],
            "uid": claim["uid"],
        }
        self.create_volume(f"made-for-{claim_name}", "made", node, reference)

    def clean(self) -> None:
        self.controller.stop()
        for path in (CLAIMS, VOLUMES, CLASSES):
            for thing in self.api.get(path)["items"]:
                one = f"{path}/{thing['metadata']['name']}"
                if thing["metadata"].get("finalizers"):
                    # Nobody is left who would say that they may go.
                    self.api.patch(one, {"metadata": {"finalizers": None}})
                self.api.delete(one)


@pytest.fixture
def storage(target: Target, request: pytest.FixtureRequest) -> Iterator[Storage]:
    """Two nodes, and a controller that is yet to be started."""
    controller: Controller
    if request.node.callspec.params["target"] == "real":
        controller = RealController(request.getfixturevalue("suite_control_plane"))
    else:
        controller = PlayedController(target.api)
    made = Storage(target, controller)
    target.create_nodes("n1", "n2")
    for name in ("n1", "n2"):
        target.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {HOSTNAME: name}}})
    try:
        yield made
    finally:
        made.clean()


def test_a_pod_waits_for_its_claim_and_then_follows_the_volume(
    target: Target, storage: Storage
) -> None:
    storage.create_class("early", "kubernetes.io/no-provisioner", "Immediate")
    storage.create_volume("disk", "early", "n2")
    storage.create_claim("data", "early")
    target.start()
    storage.create_pod("reader", "data")
    condition = target.wait_condition("reader", "False")
    assert (condition["reason"], condition["message"]) == (
        "Unschedulable",
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
    )

    storage.controller.start()

    assert target.wait_bound("reader") == {"reader": "n2"}
    assert storage.is_bound("data")


def test_a_local_disk_is_promised_first_and_the_pod_follows_when_it_is_bound(
    target: Target, storage: Storage
) -> None:
    storage.create_class("local", "kubernetes.io/no-provisioner")
    storage.create_volume("disk", "local", "n2")
    storage.create_claim("data", "local")
    target.start()
    storage.create_pod("writer", "data")

    promised = storage.wait_promised("disk")

    uid = storage.claim("data")["metadata"]["uid"]
    assert (promised["namespace"], promised["name"], promised["uid"]) == ("default", "data", uid)
    assert promised["kind"] == "PersistentVolumeClaim"
    annotations = storage.api.get(f"{VOLUMES}/disk")["metadata"]["annotations"]
    assert annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
    assert target.node_of("writer") == "", "its volume is not bound yet"
    # The disk is given away: there is none for another pod, and it says so.
    storage.create_claim("more", "local")
    storage.create_pod("late", "more")
    message = target.wait_condition("late", "False")["message"]
    assert "2 node(s) didn't find available persistent volumes to bind" in message
    assert target.node_of("writer") == ""

    storage.controller.start()

    assert target.wait_bound("writer") == {"writer": "n2"}
    assert storage.is_bound("data")
    # And another disk brings the other pod back.
    storage.create_volume("second", "local", "n1")
    assert target.wait_bound("late") == {"late": "n1"}


def test_a_new_volume_is_made_for_the_node_that_was_chosen(
    target: Target, storage: Storage
) -> None:
    storage.create_class("made", "disks.example.com")
    storage.create_claim("data", "made")
    storage.controller.start()
    target.api.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
    target.start()
    storage.create_pod("writer", "data")

    assert storage.wait_selected("data") == "n2"
    assert target.node_of("writer") == "", "its volume is not made yet"
    storage.provision("data", "n2")

    assert target.wait_bound("writer") == {"writer": "n2"}
    assert storage.is_bound("data")


def test_a_volume_that_cannot_be_made_sends_the_pod_back(target: Target, storage: Storage) -> None:
    storage.create_class("made", "disks.example.com")
    storage.create_claim("data", "made")
    storage.controller.start()
    target.start()
    storage.create_pod("writer", "data")
    storage.wait_selected("data")

    storage.api.patch(f"{CLAIMS}/data", {"metadata": {"annotations": {SELECTED_NODE: None}}})

    event = target.wait_event("writer", "FailedScheduling")
    assert event["note"] in (
        'running PreBind plugin "VolumeBinding": binding volumes: '
        'provisioning failed for PVC "data"',
        # What an API server without other annotations on the claim makes of it.
        'running PreBind plugin "VolumeBinding": binding volumes: '
        'selectedNode annotation reset for PVC "data"',
    )
    chosen = storage.wait_selected("data")
    storage.provision("data", chosen)
    assert target.wait_bound("writer") == {"writer": chosen}


def test_deleting_a_pod_that_waits_for_its_volume_frees_its_place(
    target: Target, storage: Storage
) -> None:
    storage.create_class("made", "disks.example.com")
    storage.create_claim("data", "made")
    for name in ("n1", "n2"):
        target.api.patch(
            f"/api/v1/nodes/{name}/status",
            {"status": {"allocatable": {"pods": "1"}, "capacity": {"pods": "1"}}},
        )
    target.start()
    storage.create_pod("writer", "data")
    storage.wait_selected("data")
    target.create_pods("one", "two")
    wait_for("one of two to be bound", lambda: target.node_of("one") or target.node_of("two"))
    second = "two" if target.node_of("one") else "one"
    target.wait_condition(second, "False")

    target.delete_pod("writer")

    target.wait_bound(second)


def test_a_scheduler_that_is_stopped_does_not_wait_for_volumes(
    target: Target, storage: Storage
) -> None:
    storage.create_class("made", "disks.example.com")
    storage.create_claim("data", "made")
    scheduler = target.start()
    storage.create_pod("writer", "data")
    chosen = storage.wait_selected("data")

    scheduler.process.send_signal(signal.SIGTERM)

    assert scheduler.wait_for_exit() == 0
    assert "did not end in time" not in scheduler.log
    assert target.node_of("writer") == ""
    # Its successor finds what was begun, and ends it.
    storage.controller.start()
    target.start()
    storage.provision("data", chosen)
    assert target.wait_bound("writer") == {"writer": chosen}
