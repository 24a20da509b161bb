"""Creates, updates and patches: the path from a client's object to a stored one.

The order is kube-apiserver's: normalise, default, admit, validate, store. Everything here is
synchronous, so a read-change-write can never be interleaved with another.
"""

from __future__ import annotations

import msgspec

from stowplan.apiserver import admission, defaulting, events, validation
from stowplan.apiserver.admission import AdmissionOptions
from stowplan.apiserver.apply import server_side_apply, track_update
from stowplan.apiserver.conforming import Mismatch, conform
from stowplan.apiserver.deletion import Deleter
from stowplan.apiserver.field_errors import wrong
from stowplan.apiserver.history import Json, Record
from stowplan.apiserver.kinds import EVENTS, EVENTS_V1, NODES, PODS, Kind
from stowplan.apiserver.negotiation import decode_object, media_type
from stowplan.apiserver.options import WriteOptions
from stowplan.apiserver.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    apply_patch,
)
from stowplan.apiserver.paths import ResourcePath
from stowplan.apiserver.shared_specs import SharedSpecs
from stowplan.apiserver.statuses import (
    Cause,
    Failure,
    bad_request,
    causes_of,
    conflict,
    invalid,
    invalid_options,
    modified,
    not_found,
    storage_error,
    unexplained,
)
from stowplan.apiserver.store import Store
from stowplan.apiserver.strategic import go_text
from stowplan.apiserver.strategies import (
    CREATED_BY_PUT,
    VERSION_REQUIRED,
    count_generation,
    formed,
    normalise,
    prepare_create,
    prepare_update,
)
from stowplan.clock import rfc3339
from stowplan.loader.json_text import load_json


class Writer:
    """All writes but deletion; calls the deleter when an object loses its last finalizer."""

    def __init__(self, store: Store, deleter: Deleter, admission_options: AdmissionOptions) -> None:
        self._store = store
        self._deleter = deleter
        self._admission = admission_options
        self._specs = SharedSpecs()

    def create(self, target: ResourcePath, sent: Json, options: WriteOptions) -> Record:
        kind = target.kind
        key, known = self._specs.find(sent) if kind is PODS else (b"", None)
        if known is None:
            obj = normalise(kind, sent, options)
        else:
            obj = normalise(kind, {**sent, "spec": None}, options)
            obj["spec"] = known.defaulted()
        self._check_place(target, obj)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise unexplained("resourceVersion should not be set on objects to be created")
        obj = prepare_create(kind, obj)
        # Admission comes before the name is made up, and its messages show what it sees.
        shown = metadata.get("name") or metadata.get("generateName", "")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._store.free_name(
                kind, target.namespace, metadata["generateName"]
            )
        if kind is EVENTS_V1:
            obj, kind = events.to_core(obj), EVENTS
        now = self._store.clock.time()
        defaulting.on_create(kind, obj, now, has_defaults=known is not None)
        if kind is PODS and known is None and options.tells_unknown and not options.warnings:
            known = self._specs.add(key, obj["spec"])
        admission.admit_create(kind, obj, self._store, self._admission, shown)
        first = admission.admin_access_causes(kind, obj, self._store)
        valid = known.valid(obj["spec"]) if known is not None else None
        if valid is not None:
            obj["spec"] = valid
        validation.check_create(
            kind, obj, asked_as=target.kind, first=first, has_valid_spec=valid is not None
        )
        if known is not None and valid is None:
            known.accept(obj["spec"])
        return self._store.create(kind, obj, dry_run=options.dry_run)

    def update(
        self, target: ResourcePath, sent: Json, options: WriteOptions
    ) -> tuple[Record, bool]:
        """A PUT; the flag says that it created the object."""
        kind = target.kind
        obj = normalise(kind, sent, options)
        self._check_place(target, obj)
        current = self._store.get(kind, target.namespace, target.name)
        if current is None:
            if target.subresource or kind.plural not in CREATED_BY_PUT:
                raise not_found(kind, target.name)
            obj["metadata"].pop("resourceVersion", None)
            return self.create(target, obj, options), True
        version = obj["metadata"].get("resourceVersion", "")
        if not version and kind.plural in VERSION_REQUIRED:
            cause = Cause(
                "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"
            )
            raise invalid(kind, target.name, [cause], by_resource=True)
        _check_uid(kind, obj["metadata"], current.object)
        return self._replace(target, obj, current, options, tracked=True), False

    def patch(
        self, target: ResourcePath, content_type: str, body: bytes, options: WriteOptions
    ) -> Record:
        if media_type(content_type) not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH):
            raise Failure(415, "415: Unsupported Media Type", details={})
        current = self._store.require(target.kind, target.namespace, target.name)
        shown = events.view(target.kind, current)
        patched = apply_patch(content_type, shown.object, body, kind=target.kind)
        try:
            obj = formed(target.kind, patched, options)
        except Mismatch as error:
            raise _bad_patch(content_type, patched, body, error) from None
        self._check_place(target, obj)
        return self._replace(target, obj, current, options, tracked=True)

    def apply(
        self, target: ResourcePath, body: bytes, options: WriteOptions, *, manager: str, force: bool
    ) -> tuple[Record, bool]:
        """Server-side apply; the flag says that it created the object."""
        if not manager:
            cause = Cause(
                "fieldManager", "Required value: is required for apply patch", "FieldValueRequired"
            )
            raise invalid_options("PatchOptions", cause)
        kind = target.kind
        applied = decode_object(body, kind, yaml_first=True)
        if not isinstance(applied.setdefault("metadata", {}), dict):
            raise bad_request(f"{kind.kind}: metadata must be an object")
        _check_declared(kind, applied)
        self._check_place(target, applied)
        current = self._store.get(kind, target.namespace, target.name)
        if current is None and target.subresource:
            raise not_found(kind, target.name)
        merged = server_side_apply(
            None if current is None else events.view(kind, current).object,
            applied,
            kind=kind,
            field_manager=manager,
            force=force,
            now=rfc3339(self._store.clock.time()),
        )
        if current is None:
            return self.create(target, merged, options), True
        return self._replace(target, normalise(kind, merged, options), current, options), False

    def _replace(
        self,
        target: ResourcePath,
        obj: Json,
        current: Record,
        options: WriteOptions,
        *,
        tracked: bool = False,
    ) -> Record:
        """`tracked`: the owners of the changed fields are not in the object yet."""
        kind, metadata = target.kind, obj["metadata"]
        version = metadata.get("resourceVersion", "")
        if version and version != str(current.version):
            raise modified(kind, target.name)
        old = events.view(kind, current).object
        _check_immutable(kind, metadata, old["metadata"])
        obj = prepare_update(kind, obj, old, target.subresource)
        if kind is EVENTS_V1:
            obj, old, kind = events.to_core(obj), current.object, EVENTS
        if target.subresource != "status" or kind is NODES:
            # A status write shares its spec with the stored object, and leaves it alone.
            defaulting.on_update(kind, obj, self._store.clock.time())
            admission.admit_update(kind, obj, old)
        if tracked:
            now = rfc3339(self._store.clock.time())
            obj = track_update(
                old,
                obj,
                kind=kind,
                manager=options.manager,
                subresource=target.subresource,
                now=now,
            )
        count_generation(kind, obj, old)
        first: list[Cause] = []
        if target.subresource == "status":
            first = admission.admin_access_causes(kind, obj, self._store, old)
        validation.check_update(kind, obj, old, target.subresource, first=first)
        if not options.dry_run and self._deleter.is_done(kind, obj):
            return self._deleter.finish(kind, obj, current)
        return self._store.update(kind, obj, current, dry_run=options.dry_run)

    @staticmethod
    def _check_place(target: ResourcePath, obj: Json) -> None:
        """The object must be the one that the URL names; what it leaves out is filled in."""
        metadata = obj["metadata"]
        if target.kind.namespaced:
            if metadata.setdefault("namespace", target.namespace) != target.namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on"
                    " the request"
                )
        else:
            metadata.pop("namespace", None)
        if target.name:
            name = metadata.setdefault("name", target.name)
            if name != target.name:
                raise bad_request(
                    f"the name of the object ({name}) does not match the name on the URL"
                    f" ({target.name})"
                )


def _check_uid(kind: Kind, metadata: Json, old: Json) -> None:
    """The uid in a PUT is a precondition; in a patch it is a change, and not allowed."""
    uid, real_uid = metadata.get("uid", ""), old["metadata"]["uid"]
    if uid and uid != real_uid:
        why = f"UID in precondition: {uid}, UID in object meta: {real_uid}"
        raise conflict(kind, old["metadata"]["name"], storage_error(kind, old, why))


def _check_immutable(kind: Kind, metadata: Json, old: Json) -> None:
    causes = [
        wrong(f"metadata.{field}", metadata[field], "field is immutable")
        for field in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if field in metadata and metadata[field] != old.get(field)
    ]
    if causes:
        raise invalid(kind, old["name"], causes)


def _check_declared(kind: Kind, applied: Json) -> None:
    """An applied object is always strict: a field that does not exist has no owner."""
    version, name = applied.get("apiVersion", ""), applied.get("kind", "")
    if (version, name) != (kind.api_version, kind.kind):
        group_version = version if "/" in str(version) else f"/{version}"
        raise bad_request(f"invalid object type: {group_version}, Kind={name}")
    try:
        _, unknown = conform(kind, applied)
    except Mismatch as error:
        raise bad_request(str(error)) from None
    if unknown:
        metadata = applied["metadata"]
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        errors = [f".{path}: field not declared in schema" for path in unknown]
        text = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
        raise unexplained(
            f"failed to create typed patch object ({place}; {kind.group}/{kind.version},"
            f" Kind={kind.kind}): {text}"
        )


def _bad_patch(content_type: str, patched: Json, body: bytes, error: Mismatch) -> Failure:
    """A patch whose result is no such object; a strategic patch is shown, else the result."""
    if media_type(content_type) == STRATEGIC_MERGE_PATCH:
        shown = go_text(load_json(body))
    else:
        shown = msgspec.json.encode(patched).decode()
    quoted = msgspec.json.encode(shown).decode()
    cause = Cause("patch", f"Invalid value: {quoted}: {error}")
    return Failure(422, f' "" is invalid: {cause.text}', details={"causes": causes_of([cause])})


def is_apply(content_type: str) -> bool:
    return media_type(content_type) == APPLY_PATCH
