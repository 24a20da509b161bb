"""Validation: junk is refused with the causes that kube-apiserver gives, as 422 Invalid.

What is common to all objects is here; `pod_validation`, `placement_validation` and
`kind_validation` know the kinds. Runs last: objects are conformed, defaulted and admitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.apiserver.claim_status_validation import resource_claim_status_causes
from stowplan.apiserver.device_taint_validation import device_taint_rule_status_causes
from stowplan.apiserver.field_errors import (
    annotations_causes,
    label_key_causes,
    label_name,
    labels_causes,
    name_causes,
    required,
    subdomain_name,
    wrong,
)
from stowplan.apiserver.history import Json
from stowplan.apiserver.kind_validation import (
    CHECKED_AGAINST_OLD,
    CREATE_CAUSES,
    UPDATE_CAUSES,
    event_causes,
    node_status_causes,
    strict_event_causes,
)
from stowplan.apiserver.kinds import (
    DEVICE_TAINT_RULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    Kind,
)
from stowplan.apiserver.pod_validation import pod_causes, pod_status_causes, pod_update_causes
from stowplan.apiserver.resizing import resize_causes
from stowplan.apiserver.statuses import Cause, invalid

_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_LABEL_NAMED = frozenset({"namespaces", "services"})


def check_create(
    kind: Kind,
    obj: Json,
    *,
    asked_as: Kind,
    first: Sequence[Cause] = (),
    has_valid_spec: bool = False,
) -> None:
    """`asked_as` is the kind of the request: an event of the newer group is checked strictly.

    `first` are causes that need other objects to be found. With `has_valid_spec`, a pod of the
    same spec was accepted before.
    """
    causes = [*first, *_metadata_causes(kind, obj["metadata"])]
    if kind is PODS:
        causes += [] if has_valid_spec else pod_causes(obj)
    elif kind is EVENTS:
        causes += event_causes(obj)
        causes += strict_event_causes(obj) if asked_as is not EVENTS else []
    else:
        check = CREATE_CAUSES.get(kind.plural)
        causes += check(obj) if check is not None else []
    if causes:
        raise invalid(kind, obj["metadata"].get("name", ""), causes)


def check_update(
    kind: Kind, obj: Json, old: Json, subresource: str, *, first: Sequence[Cause] = ()
) -> None:
    causes = [*first, *_metadata_causes(kind, obj["metadata"])]
    if kind is EVENTS:
        causes += event_causes(obj)
    elif kind is PODS:
        if subresource == "status":
            causes += pod_status_causes(obj, old)
        elif subresource == "resize":
            causes += resize_causes(obj, old)
        else:
            causes += pod_update_causes(obj, old)
    elif kind is RESOURCE_CLAIMS and subresource == "status":
        causes += resource_claim_status_causes(obj, old)
    elif kind is NODES and subresource == "status":
        causes += node_status_causes(obj)
    elif kind is DEVICE_TAINT_RULES and subresource == "status":
        causes += device_taint_rule_status_causes(obj)
    elif subresource != "status":
        create, update = CREATE_CAUSES.get(kind.plural), UPDATE_CAUSES.get(kind.plural)
        if create is not None and kind.plural not in CHECKED_AGAINST_OLD:
            causes += create(obj)
        causes += update(obj, old) if update is not None else []
    if causes:
        raise invalid(kind, obj["metadata"]["name"], causes)


def _metadata_causes(kind: Kind, metadata: Json) -> list[Cause]:
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    check = label_name if kind.plural in _LABEL_NAMED else subdomain_name
    causes: list[Cause] = []
    if prefix and kind is not EVENTS:
        # A dash at the end is fine in a prefix, where it would not be in a name.
        tried = f"{prefix[:-1]}a" if prefix.endswith("-") else prefix
        causes += [wrong("metadata.generateName", prefix, problem) for problem in check(tried)]
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += name_causes("metadata.name", name, check)
    causes += labels_causes("metadata.labels", metadata.get("labels") or {})
    causes += annotations_causes("metadata.annotations", metadata.get("annotations") or {})
    for owner in metadata.get("ownerReferences") or ():
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner[field]:
                detail = (
                    "version must not be empty" if field == "apiVersion" else "must not be empty"
                )
                causes.append(wrong(f"metadata.ownerReferences.{field}", owner[field], detail))
    for finalizer in metadata.get("finalizers") or ():
        causes += label_key_causes("metadata.finalizers", finalizer)
    if not kind.group:
        for index, finalizer in enumerate(metadata.get("finalizers") or ()):
            if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
                detail = "name is neither a standard finalizer name nor is it fully qualified"
                causes.append(wrong(f"metadata.finalizers[{index}]", finalizer, detail))
    return causes
