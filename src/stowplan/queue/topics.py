"""Topics of events that several plugins register."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from stowplan.api.objects import Pod
from stowplan.api.storage_objects import PersistentVolumeClaim
from stowplan.queue.events import Topics

#: Of an event that helps the changed pod itself, and no other.
OWN_POD: Final = Topics(
    lambda pod: (pod.uid,), lambda _, new: (new.uid,) if isinstance(new, Pod) else None
)


def own_claims(names: Callable[[Pod], Collection[str]]) -> Topics:
    """Of a claim that helps the pods that use it; `names` are those of a pod's claims."""

    def of_event(old: object, new: object) -> Collection[tuple[str, str]] | None:
        if not isinstance(new, PersistentVolumeClaim) or not isinstance(
            old, PersistentVolumeClaim | None
        ):
            return None
        return ((new.metadata.namespace, new.metadata.name),)

    return Topics(lambda pod: [(pod.metadata.namespace, name) for name in names(pod)], of_event)


def all_or_none(may_help: Callable[[object, object], bool]) -> Topics:
    """Of an event that helps every pod or none; `may_help` gets the old and the new object."""
    return Topics(lambda _: (), lambda old, new: None if may_help(old, new) else ())
