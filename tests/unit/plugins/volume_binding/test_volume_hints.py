"""Which events bring a pod back that VolumeBinding refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.api.storage_objects import PersistentVolumeClaim
from stowplan.queue.events import ActionType, EventResource, Hint
from stowplan.testing import node
from tests.unit.plugins.plugin_kit import hint
from tests.unit.plugins.volume_binding_kit import (
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

PLUGIN = Scene([]).plugin
ADD, UPDATE, DELETE = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
INLINE = [{"name": "inline", "csi": {"driver": "disks.example.com"}}]


def asked(resource: str, old: Any, new: Any, *, volumes: list[Any] | None = None) -> Hint | None:
    action = ADD if old is None else UPDATE
    return hint(PLUGIN, resource, action, using("data", volumes=volumes or []), old, new)


def elsewhere() -> PersistentVolumeClaim:
    mine = claim()
    return msgspec.structs.replace(
        mine, metadata=msgspec.structs.replace(mine.metadata, namespace="other")
    )


def test_what_it_wants_to_hear_of() -> None:
    heard = {(each.event.resource, each.event.action) for each in PLUGIN.events()}
    assert heard == {
        (EventResource.STORAGE_CLASS, ADD | UPDATE),
        (EventResource.PERSISTENT_VOLUME_CLAIM, ADD | UPDATE),
        (EventResource.PERSISTENT_VOLUME, ADD | UPDATE),
        (EventResource.NODE, ADD | ActionType.UPDATE_NODE_LABEL),
        (EventResource.CSI_NODE, ADD | UPDATE),
        (EventResource.CSI_DRIVER, UPDATE),
        (EventResource.CSI_STORAGE_CAPACITY, ADD | UPDATE),
    }


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        (EventResource.STORAGE_CLASS, None, storage_class(), Hint.QUEUE),
        (EventResource.STORAGE_CLASS, storage_class(), storage_class(zones=["z"]), Hint.QUEUE),
        (EventResource.STORAGE_CLASS, storage_class(), storage_class(), Hint.SKIP),
        (
            EventResource.STORAGE_CLASS,
            storage_class(),
            msgspec.structs.replace(storage_class(), allowed_topologies=()),
            Hint.SKIP,
        ),
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, claim(), Hint.QUEUE),
        (EventResource.PERSISTENT_VOLUME_CLAIM, claim(), claim(), Hint.QUEUE),
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, claim("another"), Hint.SKIP),
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, elsewhere(), Hint.SKIP),
        (EventResource.PERSISTENT_VOLUME, None, volume("pv"), Hint.QUEUE),
        (EventResource.PERSISTENT_VOLUME, volume("pv"), volume("pv"), Hint.QUEUE),
        (EventResource.CSI_NODE, None, csi_node("a"), Hint.QUEUE),
        (EventResource.CSI_NODE, csi_node("a"), csi_node("a", "x"), Hint.QUEUE),
        (EventResource.CSI_NODE, csi_node("a", "x"), csi_node("a", "x"), Hint.SKIP),
        (EventResource.CSI_STORAGE_CAPACITY, None, pool({}), Hint.QUEUE),
        (EventResource.CSI_STORAGE_CAPACITY, pool({}), pool({}), Hint.SKIP),
        (EventResource.CSI_STORAGE_CAPACITY, pool({}), pool({}, capacity="11Gi"), Hint.QUEUE),
        (EventResource.CSI_STORAGE_CAPACITY, pool({}), pool({}, capacity="9Gi"), Hint.SKIP),
        (EventResource.CSI_STORAGE_CAPACITY, pool({}), pool({}, largest="11Gi"), Hint.QUEUE),
        (EventResource.CSI_STORAGE_CAPACITY, pool({}), pool({}, capacity=None), Hint.SKIP),
        (EventResource.CSI_STORAGE_CAPACITY, pool({}, capacity=None), pool({}), Hint.QUEUE),
    ],
)
def test_changes_that_may_help(resource: str, old: Any, new: Any, expected: Hint) -> None:
    assert asked(resource, old, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "volumes", "expected"),
    [
        (driver(), driver(capacity=False), INLINE, Hint.QUEUE),
        (driver(), driver(capacity=None), INLINE, Hint.QUEUE),
        (driver(), driver(), INLINE, Hint.SKIP),
        (driver(capacity=False), driver(), INLINE, Hint.SKIP),
        (driver(capacity=None), driver(capacity=False), INLINE, Hint.SKIP),
        (driver(), driver(capacity=False), [], Hint.SKIP),
        (driver(name="x"), driver(name="x", capacity=False), INLINE, Hint.SKIP),
    ],
)
def test_a_driver_that_no_longer_publishes_room(
    old: Any, new: Any, volumes: list[Any], expected: Hint
) -> None:
    assert asked(EventResource.CSI_DRIVER, old, new, volumes=volumes) is expected


def test_new_nodes_and_new_labels_help_and_nothing_else_of_a_node() -> None:
    change = (using("data"), node("a"), node("a"))
    assert hint(PLUGIN, EventResource.NODE, ADD, *change) is Hint.QUEUE
    assert hint(PLUGIN, EventResource.NODE, ActionType.UPDATE_NODE_LABEL, *change) is Hint.QUEUE
    assert hint(PLUGIN, EventResource.NODE, ActionType.UPDATE_NODE_TAINT, *change) is None


def test_what_goes_away_helps_nobody() -> None:
    for resource, thing in (
        (EventResource.PERSISTENT_VOLUME, volume("pv")),
        (EventResource.PERSISTENT_VOLUME_CLAIM, claim()),
        (EventResource.CSI_DRIVER, driver()),
    ):
        assert hint(PLUGIN, resource, DELETE, using("data"), thing, None) is None


def test_an_ephemeral_claim_is_the_pods_own() -> None:
    made = claim("p-scratch")
    kind = EventResource.PERSISTENT_VOLUME_CLAIM
    assert hint(PLUGIN, kind, ADD, ephemeral(), None, made) is Hint.QUEUE
    assert hint(PLUGIN, kind, ADD, ephemeral("q"), None, made) is Hint.SKIP


def test_an_object_of_another_kind_brings_the_pod_back() -> None:
    assert asked(EventResource.CSI_NODE, volume("pv"), csi_node("a")) is Hint.QUEUE
    assert asked(EventResource.STORAGE_CLASS, None, volume("pv")) is Hint.QUEUE
