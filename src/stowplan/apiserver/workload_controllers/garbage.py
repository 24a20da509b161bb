"""Garbage collection: by owner references (background, foreground, orphan), and pods of lost nodes.

Dependents follow an owner that is deleted here. Unlike kube-controller-manager's collector this
one keeps objects whose owner has never been here, so that pods copied from another cluster stay.
"""

from __future__ import annotations

from stowplan.apiserver.deletion import FOREGROUND, ORPHAN
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import NODES, PODS, Kind
from stowplan.apiserver.workload_controllers.objects import ClusterObjects


def waits_for_collector(obj: Json) -> bool:
    """True for an object whose deletion ends with the collector's work."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or ()
    return "deletionTimestamp" in metadata and (FOREGROUND in finalizers or ORPHAN in finalizers)


class GarbageCollector:
    """Deletes or releases what a deleted owner leaves."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def owner_is_gone(self, uid: str) -> None:
        """Delete the dependents of an owner, except those that have another one."""
        for kind, key in self._objects.index.dependents(uid):
            record = self._objects.get(kind, key)
            if record is not None:
                self._lose_owner(kind, record, uid)

    def node_is_gone(self, name: str) -> None:
        """Delete the pods of a deleted node; kube-controller-manager waits 40 s for its return."""
        if self._objects.get(NODES, ("", name)) is None:
            for pod in self._objects.pods_on(name):
                self._objects.delete(PODS, pod)

    def finish(self, kind: Kind, owner: Record) -> None:
        """Take the next step for an owner that `waits_for_collector`."""
        metadata = owner.object["metadata"]
        uid = metadata["uid"]
        dependents = [
            (each, record)
            for each, key in self._objects.index.dependents(uid)
            if (record := self._objects.get(each, key)) is not None
        ]
        if ORPHAN in metadata["finalizers"]:
            for each, record in dependents:
                self._objects.disown(each, record, uid)
            self._drop(kind, owner, ORPHAN)
            return
        blocking = [pair for pair in dependents if _blocks(pair[1].object, uid)]
        for each, record in dependents:
            is_blocking = (each, record) in blocking
            self._objects.delete(each, record, "Foreground" if is_blocking else "Background")
        if not any(self._objects.get(each, record.key) is not None for each, record in blocking):
            self._drop(kind, owner, FOREGROUND)

    def _lose_owner(self, kind: Kind, record: Record, uid: str) -> None:
        others = [
            each
            for each in record.object["metadata"].get("ownerReferences") or ()
            if each["uid"] != uid
        ]
        if any(
            not self._objects.is_known(each) or self._objects.owner(record.object, each) is not None
            for each in others
        ):
            self._objects.disown(kind, record, uid)
        else:
            self._objects.delete(kind, record)

    def _drop(self, kind: Kind, owner: Record, finalizer: str) -> None:
        finalizers = owner.object["metadata"]["finalizers"]
        left = [each for each in finalizers if each != finalizer]
        self._objects.set_metadata(kind, owner, finalizers=left)


def _blocks(obj: Json, uid: str) -> bool:
    return any(
        each["uid"] == uid and each.get("blockOwnerDeletion")
        for each in obj["metadata"].get("ownerReferences") or ()
    )
