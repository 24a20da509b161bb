"""The bridge from informers to the cache and the queue: what each change of the cluster means.

Pods with a node belong to the cache, pods without one to the queue; a change may move a pod from
one to the other. Every change that may help a waiting pod is reported to the queue as an event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import DEVICE_TAINT_RULES, Resource
from stowplan.cluster.pod_info import held_amounts
from stowplan.logs import V2, V3, V4, get_logger, kv
from stowplan.queue.changes import node_changes, pod_changes
from stowplan.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    EventResource,
)
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.metric_families import Family, Histogram

log = get_logger(__name__)

_OTHER_TAINTS: Final = ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.UPDATE)


class EventHandlers:
    """Plain callbacks for informers; each is O(1) in the number of nodes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cache = engine.cache
        self._queue = engine.queue
        self._now = engine.clock.monotonic
        self._durations = _DurationsByEvent(engine.metrics.event_handling_duration)

    # Pods

    def add_pod(self, pod: Pod) -> None:
        if pod.is_finished:
            return
        if pod.spec.node_name:
            self._assigned(pod)
        elif self._engine.serves(pod):
            began = self._now()
            if log.isEnabledFor(V3):
                log.log(V3, "Add event for unscheduled pod", extra=kv(pod=pod.key))
            self._queue.add(pod)
            self._handled(UNSCHEDULED_POD_ADD, began)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if new.is_finished:
            self.delete_pod(old)
        elif not new.spec.node_name:
            if self._engine.serves(new):
                self._update_pending(old, new)
        elif not old.spec.node_name:
            self._assigned(new)
        else:
            began = self._now()
            _say(V4, "Update event for scheduled pod", new)
            self._cache.update_pod(new)
            if self._queue.is_listening or self._engine.observes_durations:
                self._move(pod_changes(old, new, held_amounts), old, new, began)
            self._handled(ASSIGNED_POD_UPDATE, began)

    def delete_pod(self, pod: Pod) -> None:
        began = self._now()
        is_ours = self._engine.serves(pod)
        if is_ours:
            self._queue.delete(pod)
        if not self._leave_node(pod) and is_ours:
            # Nominations of other schedulers' pods were never respected, so they need no event.
            self._nomination_ended(pod)
        if pod.spec.node_name:
            _say(V3, "Delete event for scheduled pod", pod)
            self._handled(ASSIGNED_POD_DELETE, began)
        elif is_ours:
            _say(V3, "Delete event for unscheduled pod", pod)
            self._handled(UNSCHEDULED_POD_DELETE, began)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        began = self._now()
        _say(V4, "Update event for unscheduled pod", new)
        self._change_pending(old, new)
        # kube-scheduler observes one change under every event that it amounts to.
        changes = pod_changes(old, new, held_amounts)
        for event in dict.fromkeys((UNSCHEDULED_POD_UPDATE, *changes)):
            self._handled(event, began)

    def _change_pending(self, old: Pod, new: Pod) -> None:
        if self._cache.is_assumed(new.uid):
            # On its way to a node: our own status patches come back and change nothing, but a pod
            # that is going away (and still there because of a finalizer) must not go there.
            if new.is_terminating and not old.is_terminating:
                self._leave_node(new)
            return
        self._queue.update(old, new)
        if old.status.nominated_node_name != new.status.nominated_node_name:
            self._nomination_ended(old)

    def _leave_node(self, pod: Pod) -> bool:
        """The pod's room is free for others; False if it had none."""
        if self._reject_waiting(pod) and self._cache.is_assumed(pod.uid):
            # The binding cycle sees the rejection, and frees the node itself. It would not if
            # another scheduler had bound the pod meanwhile: then it is not ours any more.
            return True
        placed = self._cache.pod(pod.uid)
        if placed is None:
            return False
        self._cache.remove_pod(pod.uid)
        self._queue.move_all(ASSIGNED_POD_DELETE, placed, None)
        return True

    def _assigned(self, pod: Pod) -> None:
        began = self._now()
        is_ours = pod.spec.scheduler_name in self._engine.profiles
        if log.isEnabledFor(V3):
            log.log(V3, "Add event for scheduled pod", extra=kv(pod=pod.key))
            if is_ours:
                log.log(V3, "Delete event for unscheduled pod", extra=kv(pod=pod.key))
        if is_ours:
            self._queue.delete(pod)
            began = self._handled(UNSCHEDULED_POD_DELETE, began)
        assumed = self._cache.pod(pod.uid)
        self._cache.add_pod(pod)
        self._queue.move_all(ASSIGNED_POD_ADD, None, pod)
        if assumed is not None and assumed.spec.node_name != pod.spec.node_name:
            # Another scheduler was quicker: the place that this one had reserved is free again.
            # DIVERGES: kube-scheduler moves the pod in its cache, too, but wakes no waiting pod.
            self._queue.move_all(ASSIGNED_POD_DELETE, assumed, None)
        self._handled(ASSIGNED_POD_ADD, began)

    def _nomination_ended(self, pod: Pod) -> None:
        """Room that was kept for a pod is free again for those that had to respect it."""
        if pod.status.nominated_node_name:
            self._queue.move_all(
                ASSIGNED_POD_DELETE, pod, None, lambda other: other.priority <= pod.priority
            )

    def _reject_waiting(self, pod: Pod) -> bool:
        """Reject a pod that Permit holds; True if one was held."""
        for handle in self._engine.handles.values():
            waiting = handle.waiting.get(pod.uid)
            if waiting is not None:
                waiting.reject("", "deleted")
                return True
        return False

    # Nodes

    def add_node(self, node: Node) -> None:
        log.log(V3, "Add event for node", extra=kv(node=node.name))
        log.log(V2, "Added node to NodeTree", extra=kv(node=node.name, zone=_zone_key(node)))
        began = self._now()
        self._cache.set_node(node)
        self._queue.move_all(NODE_ADD, None, node)
        self._handled(NODE_ADD, began)

    def update_node(self, old: Node, new: Node) -> None:
        if log.isEnabledFor(V4):
            log.log(V4, "Update event for node", extra=kv(node=new.name))
        began = self._now()
        self._cache.set_node(new)
        self._move(node_changes(old, new), old, new, began)

    def delete_node(self, node: Node) -> None:
        log.log(V3, "Delete event for node", extra=kv(node=node.name))
        log.log(V2, "Removed node from NodeTree", extra=kv(node=node.name, zone=_zone_key(node)))
        began = self._now()
        self._cache.remove_node(node.name)
        self._queue.move_all(NODE_DELETE, node, None)
        self._handled(NODE_DELETE, began)

    # Everything else that plugins look up

    def set_object(self, resource: Resource[Any], thing: Any) -> None:
        """An object of a cataloged kind came or changed."""
        began = self._now()
        old = self._cache.catalog[resource].set(thing)
        action = ActionType.ADD if old is None else ActionType.UPDATE
        self._object_changed(resource, action, old, thing, began)

    def delete_object(self, resource: Resource[Any], thing: Any) -> None:
        began = self._now()
        old = self._cache.catalog[resource].remove(thing.metadata.name, thing.metadata.namespace)
        self._object_changed(resource, ActionType.DELETE, old or thing, None, began)

    def _object_changed(
        self, resource: Resource[Any], action: ActionType, old: Any, new: Any, began: float
    ) -> None:
        event = ClusterEvent(_event_resource(resource), action)
        if resource is DEVICE_TAINT_RULES:
            # DIVERGES: upstream reports each slice whose devices have other taints now, and
            # nothing if there is none; here every change of a rule is one event without objects.
            event, old, new = _OTHER_TAINTS, None, None
        self._queue.move_all(event, old, new)
        self._handled_if_heard(event, began)

    # Measuring

    def _move(self, events: Iterable[ClusterEvent], old: Any, new: Any, began: float) -> None:
        """Queue the pods that an update may help; each event counts the update of the cache."""
        moving = self._now()
        updating_s = moving - began
        for event in events:
            self._queue.move_all(event, old, new)
            moving = self._handled(event, moving - updating_s)

    def _handled_if_heard(self, event: ClusterEvent, began: float) -> None:
        """As upstream, kinds that are looked up but wake no pod are not counted."""
        if self._queue.hears(event):
            self._handled(event, began)

    def _handled(self, event: ClusterEvent, began: float) -> float:
        """Count a change of the cluster; returns the time at which it was handled."""
        if not self._engine.observes_durations:
            return began
        now = self._now()
        self._durations[event.label].observe(now - began)
        return now


class _DurationsByEvent(dict[str, Histogram]):
    """The histogram of each event, found with one lookup: every change of the cluster needs it."""

    def __init__(self, family: Family[Histogram]) -> None:
        super().__init__()
        self._family = family

    def __missing__(self, event: str) -> Histogram:
        found = self[event] = self._family.at(event)
        return found


def _say(level: int, message: str, pod: Pod) -> None:
    if log.isEnabledFor(level):
        log.log(level, message, extra=kv(pod=pod.key))


def _zone_key(node: Node) -> str:
    """Region and zone as kube-scheduler joins them; "" if the node has neither."""
    labels = node.metadata.labels or {}
    region = labels.get("topology.kubernetes.io/region", "")
    zone = labels.get("topology.kubernetes.io/zone", "")
    return f"{region}:\x00:{zone}" if region or zone else ""


def _event_resource(resource: Resource[Any]) -> str:
    """The kind as events name it: `PersistentVolume`, `storage.k8s.io/CSINode`."""
    return f"{resource.group}/{resource.kind}" if resource.group else resource.kind
