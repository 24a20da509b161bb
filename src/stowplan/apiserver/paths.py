"""URL path -> what it names. Every request passes here, so it is plain string splitting."""

from __future__ import annotations

from typing import NamedTuple

from stowplan.apiserver.kinds import NAMESPACES, Kind, kind_for


class ResourcePath(NamedTuple):
    """What a path names: a collection (no name), an object, or a subresource of one."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False

    @property
    def all_namespaces(self) -> bool:
        return self.kind.namespaced and not self.namespace


def parse_path(path: str) -> ResourcePath | None:
    """None for anything that is not a served resource."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[0] == "watch"
    if watch:  # the deprecated form, /api/v1/watch/pods
        rest = rest[1:]
    target = _target(group, version, rest, watch)
    if target is None or (
        target.subresource and target.subresource not in target.kind.subresources
    ):
        return None
    return target


def _target(group: str, version: str, rest: list[str], watch: bool) -> ResourcePath | None:
    if not rest or "" in rest:
        return None
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in NAMESPACES.subresources:
        kind = kind_for(group, version, rest[2])
        if kind is None or not kind.namespaced or len(rest) > 5:
            return None
        name, subresource = (*rest[3:], "", "")[:2]
        return ResourcePath(kind, rest[1], name, subresource, watch)
    kind = kind_for(group, version, rest[0])
    if kind is None or len(rest) > 3 or (kind.namespaced and len(rest) > 1):
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    return ResourcePath(kind, "", name, subresource, watch)
