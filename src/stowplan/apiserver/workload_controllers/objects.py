"""Reads and writes of the workload controllers: every write also updates the owner index.

Pods are created through `Writer`, with defaults, admission and validation, as a client's are. All
else goes straight to the store: nothing here writes what validation would refuse.
"""

from __future__ import annotations

import zlib

from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import EVENTS, KINDS, PODS, Kind
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.store import Store
from stowplan.apiserver.workload_controllers.owner_index import (
    ADOPTS,
    Key,
    OwnerIndex,
    Thing,
    controller_of,
)
from stowplan.apiserver.writing import Writer
from stowplan.clock import parse_rfc3339, rfc3339

_KIND_OF = {(kind.api_version, kind.kind): kind for kind in KINDS if kind.stored}
#: Fields of statuses that are pointers in Go, which shows their zeros.
_SHOWN_ZEROS = frozenset({"terminatingReplicas", "terminating", "ready", "collisionCount"})


class ClusterObjects:
    """The stored objects, as the workload controllers use them."""

    def __init__(self, store: Store, writer: Writer, deleter: Deleter) -> None:
        self._store = store
        self._writer = writer
        self._deleter = deleter
        self.index = OwnerIndex()
        #: What each workload may adopt. Its next reconciliation tries, and forgets the rest.
        self.adoptable: dict[Thing, dict[Key, None]] = {}

    # Time

    def time(self) -> float:
        return self._store.clock.time()

    def now(self) -> str:
        return rfc3339(self._store.clock.time())

    def seconds_since(self, timestamp: str) -> float:
        return self._store.clock.time() - parse_rfc3339(timestamp)

    # Reads

    def get(self, kind: Kind, key: Key) -> Record | None:
        return self._store.get(kind, *key)

    def owner(self, obj: Json, reference: Json) -> Record | None:
        """The object that an owner reference names; None if it is gone, or another now."""
        kind = _KIND_OF.get((reference["apiVersion"], reference["kind"]))
        if kind is None:
            return None
        namespace = obj["metadata"].get("namespace", "") if kind.namespaced else ""
        found = self._store.get(kind, namespace, reference["name"])
        if found is None or found.object["metadata"]["uid"] != reference["uid"]:
            return None
        return found

    def is_known(self, reference: Json) -> bool:
        """True if the reference names a kind that this server has."""
        return (reference["apiVersion"], reference["kind"]) in _KIND_OF

    def pods_on(self, node: str) -> list[Record]:
        """The pods that are bound to a node; looks at all pods."""
        return [
            record
            for record in self._store.records(PODS)
            if record.object["spec"].get("nodeName") == node
        ]

    def controlled(self, kind: Kind, workload: Json) -> list[Record]:
        """The objects of a kind that a workload controls."""
        uid = workload["metadata"]["uid"]
        found = []
        for dependent, key in self.index.dependents(uid):
            if dependent is not kind:
                continue
            record = self._store.get(kind, *key)
            if record is not None and (controller_of(record.object) or {}).get("uid") == uid:
                found.append(record)
        return found

    def claimed(self, kind: Kind, workload: Record) -> list[Record]:
        """What a workload controls, after adopting and releasing objects by its selector."""
        adopted = ADOPTS[kind]
        thing = kind, workload.key
        selector = self.index.selector(thing)
        for key in self.adoptable.pop(thing, ()):
            orphan = self._store.get(adopted, *key)
            if orphan is None or controller_of(orphan.object) is not None:
                continue
            metadata = orphan.object["metadata"]
            if "deletionTimestamp" not in metadata and selector.matches(metadata.get("labels")):
                owners = [*metadata.get("ownerReferences", ()), reference_to(workload.object)]
                self.set_metadata(adopted, orphan, ownerReferences=owners)
        kept = []
        for record in self.controlled(adopted, workload.object):
            metadata = record.object["metadata"]
            if selector.matches(metadata.get("labels")) or "deletionTimestamp" in metadata:
                kept.append(record)
            else:
                self.disown(adopted, record, workload.object["metadata"]["uid"])
        return kept

    # Writes

    def create(self, kind: Kind, namespace: str, obj: Json) -> Record:
        """Create an object as a client would; ApiError where the server refuses."""
        made = self._writer.create(ResourcePath(kind, namespace), obj, WriteOptions())
        self.index.put(kind, made.key, made.object)
        return made

    def update(self, kind: Kind, record: Record, obj: Json) -> Record:
        if self._deleter.is_done(kind, obj):
            self._deleter.finish(kind, obj, record)
            self.index.put(kind, record.key, None)
            return record
        written = self._store.update(kind, obj, record)
        self.index.put(kind, written.key, written.object)
        return written

    def set_spec(self, kind: Kind, record: Record, **fields: object) -> Record:
        """Change fields of the spec; a new generation."""
        obj = record.object
        metadata = {**obj["metadata"], "generation": obj["metadata"].get("generation", 0) + 1}
        spec = {**obj["spec"], **fields}
        return self.update(kind, record, {**obj, "metadata": metadata, "spec": spec})

    def set_status(self, kind: Kind, record: Record, status: Json) -> Record:
        return self.update(kind, record, {**record.object, "status": status})

    def set_metadata(self, kind: Kind, record: Record, **fields: object) -> Record:
        """Change fields of the metadata; an empty value removes the field."""
        metadata = {**record.object["metadata"], **fields}
        kept = {name: value for name, value in metadata.items() if name not in fields or value}
        return self.update(kind, record, {**record.object, "metadata": kept})

    def disown(self, kind: Kind, record: Record, uid: str) -> Record:
        """Remove the reference to an owner."""
        owners = record.object["metadata"].get("ownerReferences") or ()
        return self.set_metadata(
            kind, record, ownerReferences=[each for each in owners if each["uid"] != uid]
        )

    def delete(self, kind: Kind, record: Record, policy: str = "Background") -> None:
        if "deletionTimestamp" in record.object["metadata"]:
            return
        self._deleter.delete(kind, record, {"propagationPolicy": policy})
        left = self._store.get(kind, *record.key)
        self.index.put(kind, record.key, None if left is None else left.object)

    def event(self, workload: Json, type_: str, reason: str, message: str) -> None:
        """Record an event. Repeats increase the count of one object, so events stay few."""
        metadata = workload["metadata"]
        name = f"{metadata['name']}.{zlib.crc32(f'{reason} {message}'.encode()):08x}"
        before = self._store.get(EVENTS, metadata["namespace"], name)
        now = self.now()
        if before is not None:
            count = before.object.get("count", 1) + 1
            changed = {**before.object, "count": count, "lastTimestamp": now}
            self._store.update(EVENTS, changed, before)
            return
        event = {
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "kind": workload["kind"],
                "apiVersion": workload["apiVersion"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": f"{workload['kind'].lower()}-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._writer.create(ResourcePath(EVENTS, metadata["namespace"]), event, WriteOptions())


def reference_to(workload: Json) -> Json:
    """The owner reference of what a workload controls."""
    return {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
        "uid": workload["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def without_zeros(status: Json) -> Json:
    """A status without what Go leaves out: None, empty lists, and zeros of plain fields."""
    return {
        name: value
        for name, value in status.items()
        if value or (value == 0 and name in _SHOWN_ZEROS)
    }
