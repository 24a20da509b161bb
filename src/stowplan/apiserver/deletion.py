"""Deletion: preconditions, grace, finalizers, and the last step that removes an object.

A bound pod is only marked (deletionTimestamp); the kubelet removes it. An object with finalizers
is marked and removed by the update that takes the last one off. A namespace empties itself.
"""

from __future__ import annotations

from stowplan.apiserver.admission import admit_delete
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import NAMESPACES, PODS, Kind
from stowplan.apiserver.statuses import Failure, conflict, details_of
from stowplan.apiserver.store import Store
from stowplan.clock import parse_rfc3339, rfc3339

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_FINALIZER_OF = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
# A client that asks for no policy gets Background, but for the oldest kinds.
_ORPHANED_BY_DEFAULT = frozenset({"jobs", "replicationcontrollers"})


class Deleter:
    """Removes objects the way their kind wants it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: True if a garbage collector runs, which removes the finalizers of `propagationPolicy`.
        self.has_collector = False

    def delete(
        self, kind: Kind, current: Record, options: Json, *, dry_run: bool = False
    ) -> tuple[Record, bool]:
        """The object as it is now, and whether it is gone."""
        admit_delete(kind, current.object["metadata"]["name"])
        check_preconditions(kind, current, options.get("preconditions") or {})
        marked = self._marked(kind, self._with_policy(kind, current.object, options), options)
        metadata = marked["metadata"]
        if _is_held(kind, marked) or metadata.get("deletionGracePeriodSeconds"):
            if dry_run:
                return Record(marked, current.version), False
            record = self._store.update(kind, marked, current)
            if kind is NAMESPACES:
                return self._empty_namespace(record), False
            return record, False
        if dry_run:
            return Record(marked, current.version), True
        # A pod is marked even when it goes at once: watchers see that it was deleted, then that
        # it is gone.
        return self._remove(kind, self._store.update(kind, marked, current)), True

    def is_done(self, kind: Kind, obj: Json) -> bool:
        """An update made this object deletable: it is marked and nothing holds it back."""
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or _is_held(kind, obj):
            return False
        return not metadata.get("deletionGracePeriodSeconds")

    def finish(self, kind: Kind, obj: Json, current: Record) -> Record:
        """Stores nothing more: the object goes, and the answer shows it as it was sent."""
        last = self._remove(kind, current)
        return Record({**obj, "metadata": {**obj["metadata"]}}, last.version)

    def _with_policy(self, kind: Kind, obj: Json, options: Json) -> Json:
        """The object with the finalizer that its deletion's propagation policy asks for."""
        if not self.has_collector:
            return obj
        before = obj["metadata"].get("finalizers") or []
        policy = options.get("propagationPolicy")
        if policy is None and (options.get("orphanDependents") or _is_kept(kind, before)):
            policy = "Orphan"
        if policy is None:
            return obj
        after = [each for each in before if each not in (ORPHAN, FOREGROUND)]
        if _FINALIZER_OF[policy]:
            after.append(_FINALIZER_OF[policy])
        if after == before:
            return obj
        metadata = {k: v for k, v in obj["metadata"].items() if k != "finalizers"}
        return {**obj, "metadata": {**metadata, "finalizers": after} if after else metadata}

    def _marked(self, kind: Kind, obj: Json, options: Json) -> Json:
        """The object with its deletion begun; as it is when it needs no mark to be deleted."""
        metadata = obj["metadata"]
        if kind is not PODS and not _is_held(kind, obj):
            return obj
        grace = self._grace(kind, obj, options)
        now = self._store.clock.time()
        if "deletionTimestamp" in metadata:
            return self._shorten(obj, grace, options, now)
        marked = {**metadata, "deletionTimestamp": rfc3339(now + grace)}
        if kind is not NAMESPACES:
            marked["deletionGracePeriodSeconds"] = grace
        if "generation" in metadata:
            marked["generation"] = metadata["generation"] + 1
        return {**obj, "metadata": marked}

    @staticmethod
    def _shorten(obj: Json, grace: int, options: Json, now: float) -> Json:
        """A second deletion may only make the time that is left shorter."""
        metadata = obj["metadata"]
        before = metadata.get("deletionGracePeriodSeconds", 0)
        if options.get("gracePeriodSeconds") is None or grace >= before:
            return obj
        when = parse_rfc3339(metadata["deletionTimestamp"]) - before + grace
        if when < now:
            when, grace = now, min(grace, 1)
        marked = {
            **metadata,
            "deletionTimestamp": rfc3339(when),
            "deletionGracePeriodSeconds": grace,
        }
        return {**obj, "metadata": marked}

    @staticmethod
    def _grace(kind: Kind, obj: Json, options: Json) -> int:
        if kind is not PODS:
            return 0
        spec, status = obj["spec"], obj.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            return 0
        asked = options.get("gracePeriodSeconds")
        if asked is None:
            asked = spec.get("terminationGracePeriodSeconds", 0)
        return 1 if asked < 0 else int(asked)

    def _remove(self, kind: Kind, current: Record) -> Record:
        last = self._store.delete(kind, current)
        namespace = current.key[0]
        if namespace:
            self._namespace_may_be_empty(namespace)
        return last

    # Namespaces: what kube-controller-manager's namespace controller does in a real cluster.

    def _empty_namespace(self, namespace: Record) -> Record:
        status = {**(namespace.object.get("status") or {}), "phase": "Terminating"}
        namespace = self._store.update(
            NAMESPACES, {**namespace.object, "status": status}, namespace
        )
        name = namespace.key[1]
        for kind, record in list(self._store.namespaced_records(name)):
            current = self._store.get(kind, *record.key)
            if current is not None:
                self.delete(kind, current, {})
        self._namespace_may_be_empty(name)
        return namespace

    def _namespace_may_be_empty(self, name: str) -> None:
        namespace = self._store.get(NAMESPACES, "", name)
        if namespace is None or "deletionTimestamp" not in namespace.object["metadata"]:
            return
        if namespace.object["metadata"].get("finalizers"):
            return
        if next(self._store.namespaced_records(name), None) is None:
            self._store.delete(NAMESPACES, namespace)


def _is_kept(kind: Kind, finalizers: list[str]) -> bool:
    """True if dependents are orphaned where the client names no policy."""
    return kind.plural in _ORPHANED_BY_DEFAULT and FOREGROUND not in finalizers


def _is_held(kind: Kind, obj: Json) -> bool:
    if kind is NAMESPACES and (obj.get("spec") or {}).get("finalizers"):
        return True
    return bool(obj["metadata"].get("finalizers"))


def check_preconditions(kind: Kind, current: Record, preconditions: Json) -> None:
    metadata = current.object["metadata"]
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    why = ""
    if uid is not None and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record"
            f" ({metadata['uid']}). The object might have been deleted and then recreated"
        )
    elif version is not None and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({metadata['resourceVersion']}). The object might have"
            " been modified"
        )
    if why:
        error = conflict(kind, metadata["name"], why)
        # Upstream names the Kind, not the resource, in this one error.
        details = {**details_of(kind, metadata["name"]), "kind": kind.kind}
        message = error.message.replace(kind.resource, _kind_resource(kind), 1)
        raise Failure(409, message, details=details)


def _kind_resource(kind: Kind) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind
