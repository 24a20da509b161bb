"""What plugins look up: it reaches the catalog, and whoever waited for it is tried again."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from stowplan.api.objects import ObjectMeta
from stowplan.api.resources import (
    CATALOGED,
    CSI_NODES,
    DEVICE_TAINT_RULES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Resource,
)
from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Plugin
from stowplan.framework.status import SUCCESS, Status, unresolvable
from stowplan.queue.events import ActionType, ClusterEvent, EventHint, EventResource, Hint
from stowplan.testing import node, pod
from tests.unit.scheduler.engine_bench import Bench

CLAIM = EventResource.PERSISTENT_VOLUME_CLAIM


class NeedsClaim(Plugin):
    """Refuses every pod until the claim "data" is there and labelled as ready."""

    name = "NeedsClaim"
    looks_up: ClassVar[tuple[Resource[Any], ...]] = (PERSISTENT_VOLUME_CLAIMS,)

    def __init__(self, event: ClusterEvent, hint: Hint = Hint.QUEUE) -> None:
        self._event = event
        self._hint = hint
        self.heard: list[tuple[Any, Any]] = []

    def pre_filter(self, cycle: Cycle) -> Status:
        assert self.handle is not None
        claim = self.handle.catalog[PERSISTENT_VOLUME_CLAIMS].get("data", "default")
        is_ready = claim is not None and "ready" in (claim.metadata.labels or {})
        return SUCCESS if is_ready else unresolvable("no data yet")

    def events(self) -> tuple[EventHint, ...]:
        return (EventHint(self._event, self._answer),)

    def _answer(self, _: Any, old: Any, new: Any) -> Hint:
        self.heard.append((old, new))
        return self._hint


def thing(resource: Resource[Any], name: str = "data", **labels: str) -> Any:
    namespace = "default" if resource.namespaced else ""
    metadata = ObjectMeta(name=name, namespace=namespace, labels=labels or None)
    return resource.type(metadata=metadata)


def claim(**labels: str) -> Any:
    return thing(PERSISTENT_VOLUME_CLAIMS, **labels)


def bench(plugin: Plugin) -> Bench:
    return Bench(plugin, nodes=[node("n1")])


@pytest.mark.parametrize("resource", CATALOGED, ids=lambda resource: resource.plural)
def test_every_kind_comes_into_the_catalog_changes_and_goes(resource: Resource[Any]) -> None:
    it = Bench()
    shelf = it.cache.catalog[resource]
    first, second = thing(resource), thing(resource, version="2")
    where = ("data", "default" if resource.namespaced else "")
    it.handlers.set_object(resource, first)
    assert shelf.get(*where) is first
    it.handlers.set_object(resource, second)
    assert shelf.get(*where) is second
    it.handlers.delete_object(resource, first)
    assert not len(shelf)


def test_a_pod_whose_claim_comes_is_tried_again_and_placed() -> None:
    it = bench(NeedsClaim(ClusterEvent(CLAIM, ActionType.ADD)))
    waiting = it.create(pod("waiting"))
    assert it.failed().message == "0/1 nodes are available: no data yet."
    assert it.where(waiting) == "unschedulable"
    it.handlers.set_object(PERSISTENT_VOLUME_CLAIMS, claim(ready="yes"))
    assert it.where(waiting) in ("active", "backoff")
    it.clock.advance(5)
    assert it.placed().node == "n1"


def test_each_kind_of_change_is_an_event_of_its_own() -> None:
    """First sight is an addition, the rest are updates; each with the object before and after."""
    plugin = NeedsClaim(ClusterEvent(CLAIM, ActionType.ALL), Hint.SKIP)
    it = bench(plugin)
    waiting = it.create(pod("waiting"))
    it.failed()
    one, two = claim(version="1"), claim(version="2")
    it.handlers.set_object(PERSISTENT_VOLUME_CLAIMS, one)
    it.handlers.set_object(PERSISTENT_VOLUME_CLAIMS, two)
    it.handlers.delete_object(PERSISTENT_VOLUME_CLAIMS, one)
    assert plugin.heard == [(None, one), (one, two), (two, None)]
    assert it.where(waiting) == "unschedulable", "the plugin said that none of it helps"


@pytest.mark.parametrize(
    ("registered", "told"),
    [
        (ActionType.ADD, ["add"]),
        (ActionType.UPDATE, ["update"]),
        (ActionType.DELETE, ["delete"]),
        (ActionType.ADD | ActionType.UPDATE, ["add", "update"]),
    ],
)
def test_a_plugin_hears_only_of_what_it_registered_for(
    registered: ActionType, told: list[str]
) -> None:
    plugin = NeedsClaim(ClusterEvent(CLAIM, registered), Hint.SKIP)
    it = bench(plugin)
    it.create(pod("waiting"))
    it.failed()
    it.handlers.set_object(PERSISTENT_VOLUME_CLAIMS, claim())
    it.handlers.set_object(PERSISTENT_VOLUME_CLAIMS, claim())
    it.handlers.delete_object(PERSISTENT_VOLUME_CLAIMS, claim())
    kinds = {(True, False): "add", (False, False): "update", (False, True): "delete"}
    assert [kinds[old is None, new is None] for old, new in plugin.heard] == told


def test_other_kinds_wake_nobody() -> None:
    plugin = NeedsClaim(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD))
    it = bench(plugin)
    waiting = it.create(pod("waiting"))
    it.failed()
    for resource in (PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS):
        it.handlers.set_object(resource, thing(resource))
    assert it.where(waiting) == "unschedulable"
    assert not plugin.heard
    it.handlers.set_object(CSI_NODES, thing(CSI_NODES))
    assert it.where(waiting) in ("active", "backoff"), "events name the group with the kind"


def test_the_end_of_something_never_seen_is_told_with_what_is_known_of_it() -> None:
    plugin = NeedsClaim(ClusterEvent(CLAIM, ActionType.DELETE), Hint.SKIP)
    it = bench(plugin)
    it.create(pod("waiting"))
    it.failed()
    unknown = claim()
    it.handlers.delete_object(PERSISTENT_VOLUME_CLAIMS, unknown)
    assert plugin.heard == [(unknown, None)]


def test_what_came_during_an_attempt_is_not_lost() -> None:
    it = bench(NeedsClaim(ClusterEvent(CLAIM, ActionType.ADD)))
    waiting = it.create(pod("waiting"))
    queued = it.queue.pop()
    assert queued is not None
    it.handlers.set_object(PERSISTENT_VOLUME_CLAIMS, claim(ready="yes"))
    queued.unschedulable_plugins = {"NeedsClaim"}
    it.queue.add_unschedulable(queued)
    assert it.where(waiting) in ("active", "backoff")


def test_the_engine_names_the_kinds_to_be_watched_once_each() -> None:
    class Other(NeedsClaim):
        name = "Other"
        looks_up = (CSI_NODES, PERSISTENT_VOLUME_CLAIMS)

    event = ClusterEvent(CLAIM, ActionType.ADD)
    it = Bench(NeedsClaim(event), Other(event))
    assert it.engine.looked_up() == [PERSISTENT_VOLUME_CLAIMS, CSI_NODES]
    assert Bench().engine.looked_up() == []


def test_every_change_of_a_taint_rule_is_an_update_of_slices() -> None:
    """A rule that goes frees devices, too."""
    changed = ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.UPDATE)
    plugin = NeedsClaim(changed, Hint.SKIP)
    it = bench(plugin)
    it.create(pod("waiting"))
    it.failed()
    first, second = thing(DEVICE_TAINT_RULES), thing(DEVICE_TAINT_RULES, version="2")
    it.handlers.set_object(DEVICE_TAINT_RULES, first)
    it.handlers.set_object(DEVICE_TAINT_RULES, second)
    it.handlers.delete_object(DEVICE_TAINT_RULES, second)
    assert plugin.heard == [(None, None)] * 3
