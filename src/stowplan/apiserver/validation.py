"""Validation: junk is refused with the causes that kube-apiserver gives, 422 Invalid."""

from __future__ import annotations

import re

from stowplan.apiserver.history import Json
from stowplan.apiserver.kinds import PODS, Kind
from stowplan.apiserver.statuses import Cause, invalid

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def check_create(kind: Kind, obj: Json) -> None:
    causes = _name_causes(kind, obj["metadata"])
    if kind is PODS:
        causes += _pod_causes(obj)
    if causes:
        raise invalid(kind, obj["metadata"].get("name", ""), causes)


def check_update(kind: Kind, obj: Json, old: Json, subresource: str) -> None:
    pass


def _name_causes(kind: Kind, metadata: Json) -> list[Cause]:
    name = metadata.get("name", "")
    if not name:
        return [
            Cause(
                "metadata.name",
                "Required value: name or generateName is required",
                "FieldValueRequired",
            )
        ]
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        return [
            Cause(
                "metadata.name",
                f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower'
                " case alphanumeric characters, '-' or '.', and must start and end with an"
                " alphanumeric character (e.g. 'example.com', regex used for validation is"
                " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            )
        ]
    return []


def _pod_causes(pod: Json) -> list[Cause]:
    if not pod["spec"].get("containers"):
        return [Cause("spec.containers", "Required value", "FieldValueRequired")]
    return []
