"""Events: what a plugin registered wakes the pods that it rejected, and hints answer.

The strongest question here: a change of the cluster makes the plugin accept a node for a pod that
it had rejected. Then an event of that change must bring the pod back, or it waits five minutes for
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.cluster.cache import ClusterCache
from stowplan.plugin_failures import describe
from stowplan.queue.changes import node_changes, pod_changes
from stowplan.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
)
from stowplan.queue.hints import complete_hints
from stowplan.testing.plugin_checks.asking import Asker, PluginAnswers, in_words
from stowplan.testing.plugin_checks.cases import Case, apply, variants
from stowplan.testing.plugin_checks.subject import CaseCluster, CheckFailed, NotApplicable, Subject

_HAPPEN_ONLY = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD)
_REJECTS = ("pre_enqueue", "pre_filter", "filter", "filter_columns", "reserve", "permit")


def check_events(subject: Subject) -> None:
    """Registered events exist, hints answer, and nothing that helps is missed."""
    plugin = subject.plugin
    if not any(hasattr(plugin, method) for method in _REJECTS):
        raise NotApplicable("it rejects nothing")
    registered = subject.make(CaseCluster()).events()
    if registered is None:
        raise NotApplicable("it registers none, and hears everything")
    _check_registrations(subject, registered)
    hints = complete_hints({subject.name: registered})[subject.name]
    for case in subject.cases:
        cluster, made = subject.on(case)
        asker = Asker(made, cluster)
        before = [asker.ask(pod) for pod in case.askers]
        for change in case.changes:
            happened = _events_of(change, cluster.cache)
            apply(change, cluster.cache)
            after = [asker.ask(pod) for pod in case.askers]
            for pod, old, new in zip(case.askers, before, after, strict=True):
                woken = _woken(subject, hints, pod, happened)
                if not woken and _is_helped(old, new, change):
                    raise _missed(subject, pod, old, happened)
            before = after
        _ask_about_updated_pods(subject, hints, case)


def _ask_about_updated_pods(subject: Subject, hints: Sequence[EventHint], case: Case) -> None:
    """Hints must answer; whether such a change helps cannot be checked from outside."""
    for pod in case.askers:
        for old in case.standing:
            for _, new in variants(old, pod):
                happened = [(event, old, new) for event in pod_changes(old, new)]
                _woken(subject, hints, pod, happened)


def _check_registrations(subject: Subject, registered: Sequence[Any]) -> None:
    if isinstance(registered, str) or not isinstance(registered, Sequence):
        raise CheckFailed(
            f"{subject.name}.events answers {registered!r}.",
            "answer a list of stowplan.EventHint, or None for every event.",
        )
    for entry in registered:
        if not isinstance(entry, EventHint) or not isinstance(entry.event, ClusterEvent):
            raise CheckFailed(
                f"{subject.name}.events has {entry!r} in its list.",
                'write stowplan.EventHint(stowplan.ClusterEvent("Node", stowplan.ActionType.ADD)).',
            )
        if entry.event.resource in _HAPPEN_ONLY:
            raise CheckFailed(
                f"{subject.name}.events registers {entry.event.resource}, which only happens and"
                " is never registered.",
                'register "Pod": it stands for both.',
            )
        if entry.event.action == ActionType.NONE:
            raise CheckFailed(
                f"{subject.name}.events registers {entry.event.resource} with no action.",
                "name one: stowplan.ActionType.ADD, for example.",
            )


def _events_of(
    change: tuple[str, Any], cache: ClusterCache
) -> list[tuple[ClusterEvent, object | None, object | None]]:
    """Return the events that the queue would get for a change that is about to happen."""
    action, what = change
    table = cache.table
    if action == "set":
        row = table.live_row(what.name)
        if row is None:
            return [(NODE_ADD, None, what)]
        old = table.node(row)
        return [(event, old, what) for event in node_changes(old, what)]
    if action == "remove":
        row = table.live_row(what)
        return [] if row is None else [(NODE_DELETE, table.node(row), None)]
    if action == "add":
        return [(ASSIGNED_POD_ADD, None, what)]
    gone = cache.pod(what)
    return [] if gone is None else [(ASSIGNED_POD_DELETE, gone, None)]


def _woken(
    subject: Subject,
    hints: Sequence[EventHint],
    pod: Pod,
    happened: Sequence[tuple[ClusterEvent, object | None, object | None]],
) -> bool:
    """Whether one of the plugin's hints would queue the pod; all of them are asked."""
    is_woken = False
    for event, old, new in happened:
        for entry in hints:
            if event.matches(entry.event):
                is_woken |= _hinted(subject, entry, pod, old, new)
    return is_woken


def _hinted(
    subject: Subject, entry: EventHint, pod: Pod, old: object | None, new: object | None
) -> bool:
    if entry.hint is None:
        return True
    try:
        said = entry.hint(pod, old, new)
    except Exception as problem:
        raise CheckFailed(
            f"{subject.name}'s hint for {entry.event.label} raises: {describe(problem)}.",
            "a hint is given (pod, old, new), where old is None for what was added and new is None"
            " for what was deleted; answer stowplan.Hint.QUEUE when in doubt.",
        ) from problem
    if not isinstance(said, Hint):
        raise CheckFailed(
            f"{subject.name}'s hint for {entry.event.label} answers {said!r}.",
            "answer stowplan.Hint.QUEUE or stowplan.Hint.SKIP.",
        )
    return said is Hint.QUEUE


def _is_helped(old: PluginAnswers, new: PluginAnswers, change: tuple[str, Any]) -> bool:
    """Whether the plugin had turned the pod away from everywhere, and no longer does."""
    if old.problem or new.problem:
        return False
    was_rejected = bool(old.filter) and all(old.filter.values())
    is_accepted = any(not told for told in new.filter.values())
    if not was_rejected or not is_accepted:
        return False
    # Only a change that shows at the node itself is one that the plugin can be blamed for.
    action, what = change
    return action != "set" or not isinstance(what, Node) or not new.filter.get(what.name, "-")


def _missed(
    subject: Subject,
    pod: Pod,
    old: PluginAnswers,
    happened: list[tuple[ClusterEvent, object | None, object | None]],
) -> CheckFailed:
    labels = ", ".join(event.label for event, _, _ in happened) or "an event without a name"
    reason = next(iter(old.filter.values()))
    return CheckFailed(
        f"{subject.name} misses what helps: it rejected {in_words(pod)} everywhere ({reason}), then"
        f" {labels} made it fit, but no registered event brings it back.",
        "register that event in events(), let its hint answer stowplan.Hint.QUEUE for it, or leave"
        " events() out to hear everything.",
    )
