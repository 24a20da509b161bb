"""Which plugins registered for an event, and whether the event is worth another attempt.

Called by the scheduling queue only, except `complete_hints`, with which the framework turns its
plugins' registrations into the table that the queue is given. Which plugins care for an event is
computed once for each kind of event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from stowplan.api.objects import Pod
from stowplan.clock import Clock
from stowplan.plugin_failures import PluginFailures
from stowplan.queue.events import (
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    HintFn,
    Topics,
)
from stowplan.queue.pod import QueuedPod, pod_uid
from stowplan.queue.unschedulable import IndexPlace

Hints: TypeAlias = Mapping[str, Mapping[str, Sequence[EventHint]]]
"""profile (scheduler name) -> plugin -> what it registered"""

#: Called with the plugin, the event, the hint (Queue, QueueSkip, Error) and the seconds it took.
OnHint: TypeAlias = Callable[[str, str, str, float], None]

_INTERNAL = (EventResource.WILDCARD, EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
ALL_EVENTS = tuple(
    EventHint(ClusterEvent(resource, ActionType.ALL))
    for resource in EventResource
    if resource not in _INTERNAL
)
"""What a plugin gets that does not say which events it needs."""

#: Place in the index of pods that every event of the plugin concerns.
_EVERY_TOPIC = object()


def complete_hints(
    registered: Mapping[str, Sequence[EventHint] | None],
) -> dict[str, tuple[EventHint, ...]]:
    """One profile's registrations by plugin, with upstream's two additions.

    A plugin that registered nothing (None) gets every event; an empty list stays empty. A plugin
    that waits for added nodes but not for taints also gets taint events: a node often comes with a
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


class Audience:
    """The plugins that registered for one kind of event, and their hints."""

    def __init__(
        self,
        event: ClusterEvent,
        hints: Hints,
        failures: PluginFailures,
        clock: Clock,
        on_hint: OnHint | None,
    ) -> None:
        self._event = event
        self._failures = failures
        self._clock = clock
        self._on_hint = on_hint
        self.is_wildcard = event.is_wildcard
        self._by_profile: dict[str, dict[str, tuple[HintFn | None, ...]]] = {}
        self._topics: dict[tuple[str, str], tuple[Topics | None, ...]] = {}
        for profile, plugins in hints.items():
            for plugin, registered in plugins.items():
                asked = [entry for entry in registered if event.matches(entry.event)]
                if asked:
                    hints_of = self._by_profile.setdefault(profile, {})
                    hints_of[plugin] = tuple(entry.hint for entry in asked)
                    self._topics[profile, plugin] = tuple(entry.topics for entry in asked)

    @property
    def is_empty(self) -> bool:
        return not (self._by_profile or self.is_wildcard)

    def concerned(self, old: object | None, new: object | None) -> Iterator[IndexPlace]:
        """Where the pods are that the event may help, in the index of unschedulable pods."""
        for (profile, plugin), all_topics in self._topics.items():
            about: set[Hashable] | None = set()
            for topics in all_topics:
                found = None
                if topics is not None and about is not None and not self.is_wildcard:
                    found = self._topics_of_event(plugin, topics, old, new)
                about = None if about is None or found is None else about | found
            if about is None:
                yield profile, plugin
            else:
                yield from ((profile, plugin, topic) for topic in (*about, _EVERY_TOPIC))

    def _topics_of_event(
        self, plugin: str, topics: Topics, old: object | None, new: object | None
    ) -> set[Hashable] | None:
        try:
            found = topics.of_event(old, new)
            return None if found is None else set(found)
        except Exception as problem:
            self._failures.report(
                "A plugin cannot name an event's topics; its hint judges all pods it rejected",
                problem,
                plugin=plugin,
                event=self._event.label,
            )
            return None

    def judge(self, queued: QueuedPod, old: object | None, new: object | None) -> Strategy:
        """Ask the plugins that rejected the pod. One that is only pending skips the backoff."""
        pending, unschedulable = queued.pending_plugins, queued.unschedulable_plugins
        if not unschedulable and not pending:
            return Strategy.AFTER_BACKOFF
        if self.is_wildcard:
            # With an object it is meant for that pod alone.
            mine = new is None or (isinstance(new, Pod) and pod_uid(new) == queued.uid)
            return Strategy.AFTER_BACKOFF if mine else Strategy.SKIP
        asked = self._by_profile.get(queued.scheduler_name)
        if asked is None:
            return Strategy.SKIP
        for plugin in pending:
            if self._wants(plugin, asked.get(plugin, ()), queued, old, new):
                return Strategy.IMMEDIATELY
        for plugin in unschedulable:
            if self._wants(plugin, asked.get(plugin, ()), queued, old, new):
                return Strategy.AFTER_BACKOFF
        return Strategy.SKIP

    def _wants(
        self,
        plugin: str,
        hints: tuple[HintFn | None, ...],
        queued: QueuedPod,
        old: object | None,
        new: object | None,
    ) -> bool:
        on_hint, clock = self._on_hint, self._clock
        for hint in hints:
            began = clock.monotonic()
            result = "Queue"
            try:
                if hint is not None and hint(queued.pod, old, new) is Hint.SKIP:
                    result = "QueueSkip"
            except Exception as problem:
                # A needless attempt does less harm than a pod that is never tried again.
                result = "Error"
                self._failures.report(
                    "A plugin's hint raised; the pod is queued",
                    problem,
                    plugin=plugin,
                    pod=queued.key,
                    event=self._event.label,
                )
            if on_hint is not None:
                on_hint(plugin, self._event.label, result, clock.monotonic() - began)
            if result != "QueueSkip":
                return True
        return False


class HintTable:
    """The audience of every event; it is found once for each kind."""

    def __init__(
        self,
        hints: Hints,
        failures: PluginFailures,
        clock: Clock,
        on_hint: OnHint | None = None,
    ) -> None:
        self._hints = hints
        self._failures = failures
        self._clock = clock
        self._on_hint = on_hint
        self._audiences: dict[ClusterEvent, Audience] = {}
        self._topics: dict[tuple[str, str], frozenset[Topics]] = {
            (profile, plugin): frozenset(each.topics for each in registered if each.topics)
            for profile, plugins in hints.items()
            for plugin, registered in plugins.items()
        }

    def index_places(self, queued: QueuedPod) -> list[IndexPlace]:
        """Where an unschedulable pod is found by the events that may help it."""
        plugins = {queued.gating_plugin} if queued.is_gated else queued.rejectors
        # The gating plugin's events find a gated pod, but the hints of all its rejectors judge it.
        others_judge = queued.is_gated and len(queued.rejectors) > 1
        places: list[IndexPlace] = []
        for plugin in plugins:
            rejector = (queued.scheduler_name, plugin)
            places.append(rejector)
            for topics in self._topics.get(rejector, ()):
                found = {_EVERY_TOPIC}
                if not others_judge:
                    found = self._topics_of_pod(plugin, topics, queued)
                places += [(*rejector, topic) for topic in found]
        return places

    def _topics_of_pod(self, plugin: str, topics: Topics, queued: QueuedPod) -> set[Hashable]:
        try:
            found = topics.of_pod(queued.pod)
            return {_EVERY_TOPIC} if found is None else set(found)
        except Exception as problem:
            self._failures.report(
                "A plugin cannot name a pod's topics; its hint judges all events for the pod",
                problem,
                plugin=plugin,
                pod=queued.key,
            )
            return {_EVERY_TOPIC}

    def audience(self, event: ClusterEvent) -> Audience:
        audience = self._audiences.get(event)
        if audience is None:
            audience = self._audiences[event] = Audience(
                event, self._hints, self._failures, self._clock, self._on_hint
            )
        return audience

    def replay(
        self,
        queued: QueuedPod,
        events: Iterable[tuple[ClusterEvent, object | None, object | None]],
    ) -> Strategy:
        """What the events during an attempt are worth, now that the pod's rejectors are known."""
        best = Strategy.SKIP
        for event, old, new in events:
            strategy = self.audience(event).judge(queued, old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                best = strategy
                if not queued.pending_plugins:
                    break
        return best
