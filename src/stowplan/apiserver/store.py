"""All objects, in memory, by kind, namespace and name.

Every write gets the next of one global sequence of versions, and is added to its kind's history and
sent to that kind's watchers, in one step without awaiting: there are no half-done writes.
Callers hand over new dicts and never mutate what they got: versions share unchanged parts.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator

from stowplan.apiserver.history import Change, History, Json, Record, Subscription
from stowplan.apiserver.kinds import EVENTS, EVENTS_V1, KINDS, Kind
from stowplan.apiserver.statuses import already_exists, modified, not_found
from stowplan.clock import Clock, SystemClock, rfc3339

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
NAME_TRIES = 8
#: The bits of a UUID that say its version (4) and its variant (RFC 4122), and all others.
_UUID_FIXED = (0x4000 << 64) | (0x8000 << 48)
_UUID_RANDOM = ~((0xF000 << 64) | (0xC000 << 48))


def storage_kind(kind: Kind) -> Kind:
    """events.k8s.io events are core events seen through another group."""
    return EVENTS if kind is EVENTS_V1 else kind


class Store:
    """Objects and their histories. `version` is the resourceVersion of the last write."""

    def __init__(
        self,
        *,
        history_size: int = 10_000,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        keeps_encodings: bool = True,
    ) -> None:
        """`rng` draws UIDs and generated names; a seeded one makes them the same every time.

        `keeps_encodings` saves time where several clients read the same objects, and costs 2 KB
        for each pod.
        """
        self.clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self.version = 1
        self._objects: dict[Kind, dict[tuple[str, str], Record]] = {}
        self._keys: dict[Kind, list[tuple[str, str]] | None] = {}
        self._histories: dict[Kind, History] = {}
        for kind in KINDS:
            if kind.stored and storage_kind(kind) is kind:
                self._objects[kind] = {}
                self._keys[kind] = None
                self._histories[kind] = History(history_size, 0, keeps_encodings=keeps_encodings)
        #: The objects by the kind that is asked for.
        self._tables = {kind: self._objects[storage_kind(kind)] for kind in KINDS if kind.stored}

    # Reading

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        return self._tables[kind].get((namespace, name))

    def require(self, kind: Kind, namespace: str, name: str) -> Record:
        record = self.get(kind, namespace, name)
        if record is None:
            raise not_found(kind, name)
        return record

    def records(self, kind: Kind, namespace: str = "") -> list[Record]:
        """In the order of namespace and name, as etcd keeps them."""
        kind = storage_kind(kind)
        table = self._objects[kind]
        keys = self._keys[kind]
        if keys is None:
            keys = self._keys[kind] = sorted(table)
        if namespace:
            first = bisect_left(keys, (namespace, ""))
            last = bisect_left(keys, (namespace + "\0", ""))
            keys = keys[first:last]
        return [table[key] for key in keys]

    def records_at(self, kind: Kind, namespace: str, version: int) -> list[Record]:
        """As it was at that version; Expired when the history does not reach back so far."""
        kind = storage_kind(kind)
        undone = {record.key: record for record in self.records(kind)}
        for change in reversed(self._histories[kind].since(version)):
            if change.previous is None:
                undone.pop(change.record.key, None)
            else:
                undone[change.previous.key] = change.previous
        return [undone[key] for key in sorted(undone) if not namespace or key[0] == namespace]

    def count(self, kind: Kind) -> int:
        return len(self._objects[storage_kind(kind)])

    def namespaced_records(self, namespace: str) -> Iterator[tuple[Kind, Record]]:
        for kind in self._objects:
            if kind.namespaced:
                for record in self.records(kind, namespace):
                    yield kind, record

    # Writing

    def create(self, kind: Kind, obj: Json, *, dry_run: bool = False) -> Record:
        """Stores a new object; gives it uid, creationTimestamp and version."""
        kind = storage_kind(kind)
        metadata = dict(obj["metadata"])
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self._objects[kind]:
            raise already_exists(kind, metadata["name"])
        metadata["uid"] = metadata.get("uid") or self._new_uid()
        metadata["creationTimestamp"] = rfc3339(self.clock.time())
        if dry_run:
            return Record({**obj, "metadata": metadata}, self.version)
        return self._write(kind, {**obj, "metadata": metadata}, None)

    def update(self, kind: Kind, obj: Json, current: Record, *, dry_run: bool = False) -> Record:
        """Replace `current`, which must still be the stored version, else Conflict.

        A write that changes nothing keeps the version and sends no event, as on the real server.
        """
        kind = storage_kind(kind)
        key = current.key
        if self._objects[kind].get(key) is not current:
            raise modified(kind, key[1])
        metadata = {**obj["metadata"], "resourceVersion": str(current.version)}
        new = {**obj, "metadata": metadata}
        if new == current.object:
            return current
        return Record(new, current.version) if dry_run else self._write(kind, new, current)

    def delete(self, kind: Kind, current: Record) -> Record:
        """Removes the object for good and returns its last state, at the deletion's version."""
        kind = storage_kind(kind)
        if self._objects[kind].get(current.key) is not current:
            raise modified(kind, current.key[1])
        self.version += 1
        metadata = {**current.object["metadata"], "resourceVersion": str(self.version)}
        last = Record({**current.object, "metadata": metadata}, self.version, current.key)
        del self._objects[kind][current.key]
        self._keys[kind] = None
        self._histories[kind].append(Change("DELETED", last, current))
        return last

    def _write(self, kind: Kind, obj: Json, previous: Record | None) -> Record:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        record = Record(obj, self.version, previous.key if previous is not None else None)
        self._objects[kind][record.key] = record
        if previous is None:
            self._keys[kind] = None
        self._histories[kind].append(Change("MODIFIED" if previous else "ADDED", record, previous))
        return record

    def _new_uid(self) -> str:
        """A random UUID, version 4; `uuid.UUID` takes several times as long to write it."""
        bits = self._rng.getrandbits(128) & _UUID_RANDOM | _UUID_FIXED
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def free_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        """A name for generateName. Eight tries; then the collision is the caller's 409."""
        kind = storage_kind(kind)
        name = ""
        for _ in range(NAME_TRIES):
            name = prefix[:58] + "".join(self._rng.choices(NAME_ALPHABET, k=5))
            if (namespace, name) not in self._objects[kind]:
                break
        return name

    # Watching

    def subscribe(
        self,
        *kinds: Kind,
        limit: int | None = None,
        wants: Callable[[Change], bool] | None = None,
    ) -> Subscription:
        """Subscribe to later changes, or to those it `wants`; the caller must close it.

        `limit` bounds the backlog.
        """
        return Subscription((self._histories[storage_kind(kind)] for kind in kinds), limit, wants)

    def changes_since(self, kind: Kind, version: int) -> list[Change]:
        return self._histories[storage_kind(kind)].since(version)

    def compact(self, version: int | None = None) -> None:
        """Forget the history up to a version, all of it by default: old watches get a 410."""
        for history in self._histories.values():
            history.compact(self.version if version is None else version)
