"""Who wants to hear of which event, and whether one is worth another attempt.

Called by the scheduling queue only, except `complete_hints`, with which the framework turns its
plugins' registrations into the table that the queue is given. Which plugins care for an event is
computed once for each kind of event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from stowplan.api.objects import Pod
from stowplan.logs import get_logger, kv
from stowplan.queue.events import (
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    HintFn,
)
from stowplan.queue.pod import QueuedPod, pod_uid

log = get_logger(__name__)

Hints: TypeAlias = Mapping[str, Mapping[str, Sequence[EventHint]]]
"""profile (scheduler name) -> plugin -> what it registered"""

_Plan: TypeAlias = dict[str, dict[str, tuple[HintFn | None, ...]]]  # profile -> plugin -> hints

_INTERNAL = (EventResource.WILDCARD, EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
ALL_EVENTS = tuple(
    EventHint(ClusterEvent(resource, ActionType.ALL))
    for resource in EventResource
    if resource not in _INTERNAL
)
"""What a plugin gets that does not say which events it needs."""


def complete_hints(
    registered: Mapping[str, Sequence[EventHint] | None],
) -> dict[str, tuple[EventHint, ...]]:
    """One profile's registrations by plugin, with upstream's two additions.

    A plugin that registered nothing (None) hears everything; an empty list stays empty. A plugin
    that waits for added nodes but not for taints also hears of taints: a node often comes with a
    taint that is removed when it is ready.
    """
    return {plugin: _complete(events) for plugin, events in registered.items()}


def _complete(events: Sequence[EventHint] | None) -> tuple[EventHint, ...]:
    if events is None:
        return ALL_EVENTS
    node_actions = ActionType.NONE
    for entry in events:
        if entry.event.resource == EventResource.NODE:
            node_actions |= entry.event.action
    if node_actions & ActionType.ADD and not node_actions & ActionType.UPDATE_NODE_TAINT:
        taint = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
        return (*events, EventHint(taint))
    return tuple(events)


class Strategy(Enum):
    """What an event is worth to a pod."""

    SKIP = "skip"
    AFTER_BACKOFF = "after backoff"
    IMMEDIATELY = "immediately"


class HintTable:
    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._plans: dict[tuple[str, ActionType], _Plan] = {}

    def is_interesting(self, event: ClusterEvent) -> bool:
        return event.is_wildcard or bool(self._plan(event))

    def interested(self, event: ClusterEvent) -> Iterator[tuple[str, str]]:
        """(profile, plugin) of everyone who registered for the event."""
        for profile, plugins in self._plan(event).items():
            for plugin in plugins:
                yield profile, plugin

    def judge(
        self, queued: QueuedPod, event: ClusterEvent, old: object | None, new: object | None
    ) -> Strategy:
        """Ask the plugins that rejected the pod. One that is only pending skips the backoff."""
        rejectors = queued.rejectors
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            # With an object it is meant for that pod alone.
            mine = new is None or (isinstance(new, Pod) and pod_uid(new) == queued.uid)
            return Strategy.AFTER_BACKOFF if mine else Strategy.SKIP
        strategy = Strategy.SKIP
        for plugin, hints in self._plan(event).get(queued.scheduler_name, {}).items():
            if plugin not in rejectors or (
                strategy is not Strategy.SKIP and plugin not in queued.pending_plugins
            ):
                continue
            if any(_wants(hint, plugin, queued, event, old, new) for hint in hints):
                if plugin in queued.pending_plugins:
                    return Strategy.IMMEDIATELY
                strategy = Strategy.AFTER_BACKOFF
                if not queued.pending_plugins:
                    break
        return strategy

    def _plan(self, event: ClusterEvent) -> _Plan:
        plan = self._plans.get((event.resource, event.action))
        if plan is None:
            plan = self._plans[event.resource, event.action] = self._make_plan(event)
        return plan

    def _make_plan(self, event: ClusterEvent) -> _Plan:
        plan: _Plan = {}
        for profile, plugins in self._hints.items():
            for plugin, registered in plugins.items():
                hints = tuple(e.hint for e in registered if event.matches(e.event))
                if hints:
                    plan.setdefault(profile, {})[plugin] = hints
        return plan


def _wants(
    hint: HintFn | None,
    plugin: str,
    queued: QueuedPod,
    event: ClusterEvent,
    old: object | None,
    new: object | None,
) -> bool:
    if hint is None:
        return True
    try:
        return hint(queued.pod, old, new) is not Hint.SKIP
    except Exception:
        # A needless attempt does less harm than a pod that is never tried again.
        log.exception(
            "A plugin's hint raised; the pod is queued",
            extra=kv(plugin=plugin, pod=queued.key, event=event.label),
        )
        return True
