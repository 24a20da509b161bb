"""Searches for the state of the cluster on which a decision was made.

A scheduler decides on the changes that it has received and on the pods that it has assumed, and
writes the binding a little later. So the state at a binding can differ from that of the decision:
the scheduler may not have received the latest changes, and may already have assumed pods that are
bound next. The search undoes changes one by one and adds following bindings, until a state explains
the recorded decision or the limits are reached: enough changes undone, almost any decision has a
state that explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, TypeAlias

from stowplan.api.objects import Pod
from stowplan.api.resources import PODS
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Key, Thing
from stowplan.judge.refusal import QuestionRefused
from stowplan.present.tables import counted
from stowplan.replay.ordering import Change

#: Seconds around a binding. A scheduler binds milliseconds to seconds after it decided, so older
#: changes were known to it. Binding can take longer, as for a new volume; that is not searched.
SHORTLY_S: Final = 10.0
#: Limits of changes undone and of bindings added.
MOST_UNDONE: Final = 128
MOST_ADDED: Final = 16
#: Limit of each when both are combined: the number of states is their product.
_BOTH: Final = 8

#: Changes in order: when each was made, and the object before it.
Undo: TypeAlias = Sequence[tuple[float, Key, Thing | None]]


def find_moment(
    cluster: GivenCluster,
    undo: Undo,
    pod: Key,
    at: float,
    coming: Iterable[Change],
    agrees: Callable[[], bool],
) -> str | None:
    """Describe a state shortly before `at` on which `agrees` is true; None if none was found.

    The cluster is restored.
    """
    scratch = _Scratch(cluster)
    soon = (change for change in coming if change.at <= at + SHORTLY_S)
    later = list(islice(_bindings(cluster, pod, soon), MOST_ADDED))
    try:
        for undone in _undoing(scratch, undo, pod, at, MOST_UNDONE):
            if agrees():
                return _told(undone, 0)
        scratch.restore()
        for added in _adding(scratch, later):
            if agrees():
                return _told(0, added)
        scratch.restore()
        for undone in _undoing(scratch, undo, pod, at, _BOTH):
            mark = len(scratch.before)
            for added in _adding(scratch, later[:_BOTH]):
                if agrees():
                    return _told(undone, added)
            scratch.restore(mark)
    finally:
        scratch.restore()
    return None


class _Scratch:
    """Changes to a cluster that can be undone."""

    def __init__(self, cluster: GivenCluster) -> None:
        self.cluster = cluster
        self.before: list[tuple[Key, Thing | None]] = []

    def set(self, key: Key, thing: Thing | None) -> Thing | None:
        """Set or remove an object; returns the old one."""
        old = self.cluster.things.get(key)
        self.before.append((key, old))
        _set(self.cluster, key, thing)
        return old

    def restore(self, mark: int = 0) -> None:
        while len(self.before) > mark:
            _set(self.cluster, *self.before.pop())


def _set(cluster: GivenCluster, key: Key, thing: Thing | None) -> None:
    if thing is not None:
        cluster.put(thing)
    elif key in cluster.things:
        cluster.remove(key)


def _undoing(scratch: _Scratch, undo: Undo, pod: Key, at: float, most: int) -> Iterator[int]:
    """Undo changes, latest first; yield their number after each that can matter to other pods."""
    for undone, (made, key, old) in enumerate(islice(reversed(undo), most), 1):
        if made < at - SHORTLY_S:
            return
        if key == pod:
            return  # before this change the pod was different, or did not exist
        new = scratch.set(key, old)
        if _matters(old, new):
            yield undone


def _adding(scratch: _Scratch, later: Sequence[Thing]) -> Iterator[int]:
    for added, thing in enumerate(later, 1):
        with suppress(QuestionRefused):  # in an earlier state, a deleted pod can have its UID
            scratch.set(thing.key, thing)
        yield added


def _bindings(cluster: GivenCluster, pod: Key, coming: Iterable[Change]) -> Iterator[Thing]:
    """Pods that are pending now and bound next."""
    for change in coming:
        thing = change.thing
        if thing is None or thing.resource is not PODS or thing.key == pod:
            continue
        known = cluster.things.get(thing.key)
        if known is None or known.struct.uid != thing.struct.uid:
            continue
        if thing.struct.spec.node_name and not known.struct.spec.node_name:
            yield thing


def _matters(old: Thing | None, new: Thing | None) -> bool:
    """False for changes of a pod that cannot affect other pods."""
    if old is None or new is None or old.resource is not PODS:
        return True
    was: Pod = old.struct
    now: Pod = new.struct
    return (was.uid, was.spec, was.is_finished, was.metadata.labels, was.is_terminating) != (
        now.uid,
        now.spec,
        now.is_finished,
        now.metadata.labels,
        now.is_terminating,
    )


def _told(undone: int, added: int) -> str:
    parts = [f"before the last {counted(undone, 'change')}"] if undone else []
    parts += [f"with {counted(added, 'binding')} that came later"] if added else []
    return f"decided {' and '.join(parts)}"
