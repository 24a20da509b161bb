"""What the page Try does to a cluster: create, change and delete objects, import and export.

The cluster is an `EmbeddedCluster` of this process and nothing else: no client of an API server is
within reach, so a real cluster cannot be changed from here. Requests are bounded in copies and
objects, and by `MOST_BYTES`. Errors are the API server's own, by field.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.kinds import KINDS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, Kind
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.patches import MERGE_PATCH
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.store import storage_kind
from stowplan.console.try_changes import CHANGES
from stowplan.console.try_text import kind_of, read_text
from stowplan.errors import ApiError, BadRequest, Conflict
from stowplan.judge.refusal import QuestionRefused
from stowplan.judge.snapshots import as_export, as_list, is_reserved
from stowplan.loader.json_text import load_json
from stowplan.loader.simulator_export import MEMBERS

Json: TypeAlias = dict[str, Any]

#: Of one request.
MOST_BYTES: Final = 8 << 20
MOST_COPIES: Final = 500
#: Of the whole cluster; events and leases do not count.
MOST_OBJECTS: Final = 10_000
_MOST_PROBLEMS: Final = 20
_UNCOUNTED: Final = ("events", "leases")
#: So many objects are written before other tasks have their turn.
_AT_A_TIME: Final = 20
_MANAGER: Final = "console"
_HOSTNAME: Final = "kubernetes.io/hostname"
_SAVED: Final = [
    kind
    for kind in KINDS
    if kind.stored and storage_kind(kind) is kind and kind.plural not in _UNCOUNTED
]
_RANKS: Final = {what: rank for rank, what in enumerate(MEMBERS.values())}
_FORCE: Final = {"gracePeriodSeconds": 0}
#: The server's own part of metadata.
_SERVERS: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)


class Create(msgspec.Struct, forbid_unknown_fields=True):
    """Objects as text, YAML or JSON, and how many of each."""

    text: str
    copies: int = 1


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """One of `CHANGES`, or `delete`, of a node or a pod."""

    kind: str
    name: str
    action: str
    namespace: str = ""
    #: As kubectl takes it: `key=value:NoSchedule`, `key=value`, `key-`.
    value: str = ""


class Import(msgspec.Struct, forbid_unknown_fields=True):
    """A snapshot as text; `replaces`: what is there is deleted first."""

    text: str
    replaces: bool = False


class Clear(msgspec.Struct, forbid_unknown_fields=True):
    """What to delete: all pods, or everything that was not there at the start."""

    what: str


class TryCluster:
    """Changes one embedded cluster; `write` and `read` answer the requests of the page."""

    def __init__(self, cluster: EmbeddedCluster, config: Callable[[], Json]) -> None:
        """`config` is the scheduler's configuration, for exports."""
        self._store = cluster.store
        self._writer = cluster.rest.writer
        self._deleter = cluster.rest.deleter
        self._config = config

    def read(self, rest: list[str], query: dict[str, list[str]]) -> Any:
        match rest:
            case []:
                return {"objects": self._objects(), "most": MOST_OBJECTS, "copies": MOST_COPIES}
            case ["export"]:
                return self._export(query.get("format", ["list"])[-1])
        return None

    def _export(self, form: str) -> Any:
        if form == "simulator":
            return as_export(self._saved(), self._config())
        if form == "list":
            return as_list(self._saved())
        raise BadRequest(
            f'format: Unsupported value: "{form[:40]}": supported values: list, simulator'
        )

    async def write(self, rest: list[str], body: bytes) -> Any:
        try:
            return await self._write(rest, body)
        except QuestionRefused as problem:
            raise BadRequest(str(problem)) from None

    async def _write(self, rest: list[str], body: bytes) -> Any:
        match rest:
            case ["create"]:
                return await self._create(_asked(body, Create))
            case ["change"]:
                return self._change(_asked(body, Change))
            case ["clear"]:
                return await self._clear(_asked(body, Clear))
            case ["import"]:
                return await self._import(_asked(body, Import))
        return None

    # Creating

    async def _create(self, ask: Create) -> Json:
        if not 1 <= ask.copies <= MOST_COPIES:
            raise BadRequest(f"copies: must be between 1 and {MOST_COPIES}")
        found = await read_text(ask.text)
        self._check_room(len(found) * ask.copies)
        written = _Written()
        for place, obj in found:
            for copy in self._copies(obj, ask.copies):
                await written.note(place, partial(self._added, copy))
        return written.told()

    def _copies(self, obj: Json, copies: int) -> Iterator[Json]:
        """The object, or numbered copies of it with names that are free."""
        metadata = obj["metadata"]
        name = metadata.get("name")
        if copies == 1 or not name:
            yield from (obj for _ in range(copies))
            return
        kind = kind_of(obj)
        namespace = _namespace(kind, obj)
        numbers = count(1)
        for _ in range(copies):
            free = next(
                made
                for number in numbers
                if self._store.get(kind, namespace, made := f"{name}-{number}") is None
            )
            yield {**obj, "metadata": {**metadata, "name": free}}

    def _added(self, obj: Json) -> str:
        return _shown(kind_of(obj), self._add(obj, "Strict"))

    def _add(self, obj: Json, validation: str = "Ignore") -> Json:
        kind = kind_of(obj)
        target = ResourcePath(kind, _namespace(kind, obj))
        if kind is NODES:
            obj = self._with_hostname(obj)
        return self._writer.create(target, obj, WriteOptions(False, validation, _MANAGER)).object

    def _with_hostname(self, node: Json) -> Json:
        """Kubelets label their node with its name."""
        metadata = node["metadata"]
        labels, prefix = metadata.get("labels") or {}, metadata.get("generateName")
        if not isinstance(labels, dict) or _HOSTNAME in labels:
            return node
        name = metadata.get("name")
        if not name and isinstance(prefix, str) and prefix:
            name = self._store.free_name(NODES, "", prefix)
        if not isinstance(name, str) or not name:
            return node
        named = {**metadata, "name": name, "labels": {_HOSTNAME: name, **labels}}
        return {**node, "metadata": named}

    # Changing

    def _change(self, ask: Change) -> Json:
        kind = {"Node": NODES, "Pod": PODS}.get(ask.kind)
        if kind is None:
            raise BadRequest(f'kind: Unsupported value: "{ask.kind}": supported values: Node, Pod')
        place = ResourcePath(
            kind, (ask.namespace or "default") if kind.namespaced else "", ask.name
        )
        current = self._store.require(kind, place.namespace, ask.name)
        if ask.action == "delete":
            self._deleter.delete(kind, current, {})
            return {"done": [f"{_shown(kind, current.object)} deleted"], "problems": []}
        change = CHANGES.get((ask.kind, ask.action))
        if change is None:
            known = ", ".join(action for what, action in CHANGES if what == ask.kind)
            raise BadRequest(
                f'action: Unsupported value: "{ask.action}": supported values: {known}, delete'
            )
        patch, done = change(current.object, ask.value)
        body = msgspec.json.encode(patch)
        self._writer.patch(place, MERGE_PATCH, body, WriteOptions(manager=_MANAGER))
        return {"done": [f"{_shown(kind, current.object)} {done}"], "problems": []}

    async def _clear(self, ask: Clear) -> Json:
        if ask.what not in ("pods", "everything"):
            raise BadRequest(
                f'what: Unsupported value: "{ask.what}": supported values: pods, everything'
            )
        deleted = await self._delete_all(ask.what)
        done = f"{deleted:,} object{'' if deleted == 1 else 's'} deleted"
        return {"done": [done] if deleted else [], "problems": []}

    async def _delete_all(self, what: str) -> int:
        """Delete at once, without grace periods and finalizers: nothing waits for them here."""
        deleted = 0
        for kind in [PODS] if what == "pods" else sorted(_SAVED, key=_rank, reverse=True):
            for record in self._store.records(kind):
                if is_reserved(record.object):
                    continue
                metadata = record.object["metadata"]
                if metadata.get("finalizers"):
                    self._unfinalize(kind, record.object)
                place = _namespace(kind, record.object), metadata["name"]
                if (current := self._store.get(kind, *place)) is not None:
                    self._deleter.delete(kind, current, dict(_FORCE))
                    deleted += 1
                if not deleted % _AT_A_TIME:
                    await asyncio.sleep(0)
        return deleted

    def _unfinalize(self, kind: Kind, obj: Json) -> None:
        place = ResourcePath(kind, _namespace(kind, obj), obj["metadata"]["name"])
        body = b'{"metadata":{"finalizers":null}}'
        self._writer.patch(place, MERGE_PATCH, body, WriteOptions(manager=_MANAGER))

    # Snapshots

    def _saved(self) -> Iterator[Json]:
        """All objects without the server's bookkeeping, in an order in which they can be made."""
        for kind in sorted(_SAVED, key=_rank):
            for record in self._store.records(kind):
                if not is_reserved(record.object):
                    yield {"apiVersion": kind.api_version, "kind": kind.kind, **record.object}

    async def _import(self, ask: Import) -> Json:
        found = [(place, obj) for place, obj in await read_text(ask.text) if not is_reserved(obj)]
        found.sort(key=lambda each: _rank(kind_of(each[1])))
        if not ask.replaces:
            self._check_room(len(found))
        elif len(found) > MOST_OBJECTS:
            raise _too_many(len(found))
        else:
            await self._delete_all("everything")
        written = _Written()
        for place, obj in found:
            await written.note(place, partial(self._restore, obj))
        return written.told()

    def _restore(self, obj: Json) -> str:
        """Create an object as it was, with its status."""
        kind = kind_of(obj)
        metadata = {name: each for name, each in obj["metadata"].items() if name not in _SERVERS}
        obj = {**obj, "metadata": metadata}
        if kind.kind == "PersistentVolume":
            obj = self._with_claim(obj)
        made = self._add(obj)
        if kind.has_status and kind is not NODES and obj.get("status"):
            place = ResourcePath(kind, _namespace(kind, made), made["metadata"]["name"], "status")
            body = msgspec.json.encode({"status": obj["status"]})
            self._writer.patch(place, MERGE_PATCH, body, WriteOptions(manager=_MANAGER))
        return _shown(kind, made)

    def _with_claim(self, volume: Json) -> Json:
        """A volume names its claim by UID, and the claim has a new one."""
        spec = volume.get("spec")
        reference = spec.get("claimRef") if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(reference, dict):
            return volume
        found = self._store.get(
            PERSISTENT_VOLUME_CLAIMS, str(reference.get("namespace")), str(reference.get("name"))
        )
        kept = {
            key: each for key, each in reference.items() if key not in ("uid", "resourceVersion")
        }
        if found is not None:
            kept["uid"] = found.object["metadata"]["uid"]
        return {**volume, "spec": {**spec, "claimRef": kept}}

    # Bounds

    def _objects(self) -> int:
        return sum(self._store.count(kind) for kind in _SAVED)

    def _check_room(self, more: int) -> None:
        if self._objects() + more > MOST_OBJECTS:
            raise _too_many(self._objects() + more)


class _Written:
    """What was written, and what was refused and why."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._problems: dict[str, None] = {}
        self._refused = 0

    async def note(self, place: str, write: Callable[[], str]) -> None:
        try:
            self._done.append(write())
        except ApiError as problem:
            self._refused += 1
            self._problems[f"{place}: {problem.message}"] = None
        if not (len(self._done) + self._refused) % _AT_A_TIME:
            await asyncio.sleep(0)

    def told(self) -> Json:
        return {
            "done": [f"{shown} created" for shown in self._done],
            "refused": self._refused,
            "problems": list(self._problems)[:_MOST_PROBLEMS],
        }


_Ask = TypeVar("_Ask", Create, Change, Import, Clear)


def _asked(body: bytes, what: type[_Ask]) -> _Ask:
    try:
        return load_json(body, what)
    except ValueError as problem:
        raise BadRequest(f"the body is not what it should be: {problem}") from None


def _namespace(kind: Kind, obj: Json) -> str:
    return str(obj["metadata"].get("namespace") or "default") if kind.namespaced else ""


def _shown(kind: Kind, obj: Json) -> str:
    """As kubectl names an object: pod/web, node/n1; with the namespace unless it is default."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "")
    place = f"{namespace}/" if namespace not in ("", "default") else ""
    return f"{kind.singular}/{place}{metadata['name']}"


def _rank(kind: Kind) -> int:
    """Where in the order of creation a kind belongs: what pods refer to comes before them."""
    return _RANKS.get((kind.api_version, kind.kind), _RANKS[MEMBERS["pvcs"]])


def _too_many(objects: int) -> ApiError:
    return Conflict(f"{objects:,} objects would be too many: at most {MOST_OBJECTS:,}")
