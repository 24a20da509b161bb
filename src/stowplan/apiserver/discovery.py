"""Discovery: what `/api`, `/apis` and the documents below them say is served.

Everything is derived from `KINDS`. The older documents (APIVersions, APIGroupList, APIGroup,
APIResourceList) and the aggregated one (APIGroupDiscoveryList, one document with everything) must
say the same. The HTTP layer calls `discovery_document` with a path and the Accept header.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stowplan.apiserver.kinds import KINDS, Kind

Json = dict[str, Any]

AGGREGATED_V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# kube-apiserver lists groups by priority, and kubectl takes the first group that has a name such
# as "events": the order is part of the answer. Groups not named here follow by name.
_VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
_GROUP_ORDER = (
    "",
    "apps",
    "events.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "storage.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "resource.k8s.io",
)

# (kind in group/version form, verbs) of subresources that are not views of the object itself.
_SUBRESOURCE_KINDS = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
}
_SUBRESOURCE_VERBS = {
    "binding": ["create"],
    "eviction": ["create"],
    "finalize": ["update"],
}
_STATUS_VERBS = ["get", "patch", "update"]


class DiscoveryDocument(NamedTuple):
    """A body and the content type it must be sent with (clients look at it)."""

    content_type: str
    body: Json


def discovery_document(path: str, accept: str = "") -> DiscoveryDocument | None:
    """The document at `path` (no trailing slash), None when there is nothing there."""
    parts = path.strip("/").split("/")
    if parts in (["api"], ["apis"]) and _wants_aggregated(accept):
        return DiscoveryDocument(AGGREGATED_V2, aggregated_discovery(parts[0]))
    body: Json | None = None
    match parts:
        case ["version"]:
            body = _VERSION
        case ["api"]:
            body = _api_versions()
        case ["apis"]:
            body = _api_group_list()
        case ["apis", group]:
            body = _api_group(group)
        case ["api", version]:
            body = api_resource_list("", version)
        case ["apis", group, version]:
            body = api_resource_list(group, version)
    return None if body is None else DiscoveryDocument("application/json", body)


def groups() -> list[str]:
    """Served groups in order of preference; the core group is ""."""
    known = {name: position for position, name in enumerate(_GROUP_ORDER)}
    return sorted({kind.group for kind in KINDS}, key=lambda g: (known.get(g, len(known)), g))


def group_versions() -> list[tuple[str, str]]:
    """Every served (group, version), groups in order of preference."""
    return [(group, version) for group in groups() for version in _versions(group)]


def api_resource_list(group: str, version: str) -> Json | None:
    """`/api/v1` or `/apis/<group>/<version>`."""
    kinds = _kinds_of(group, version)
    if not kinds:
        return None
    resources: list[Json] = []
    for kind in kinds:
        resources.append(_api_resource(kind))
        resources.extend(_api_subresource(kind, name) for name in sorted(kind.subresources))
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": resources,
    }


def aggregated_discovery(root: str) -> Json:
    """All of `/api` or all of `/apis` in one APIGroupDiscoveryList."""
    names = [group for group in groups() if (group == "") == (root == "api")]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group, "creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated(kind) for kind in _kinds_of(group, version)],
                        "freshness": "Current",
                    }
                    for version in _versions(group)
                ],
            }
            for group in names
        ],
    }


def _wants_aggregated(accept: str) -> bool:
    """True when the v2 form comes before plain JSON in the Accept header."""
    for offer in accept.split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        if media not in ("application/json", "*/*", "application/*"):
            continue
        values = dict(part.split("=", 1) for part in parameters if "=" in part)
        if "as" not in values:
            return False
        if (
            values["as"] == "APIGroupDiscoveryList"
            and values.get("g") == "apidiscovery.k8s.io"
            and values.get("v") == "v2"
            and "profile" not in values
        ):
            return True
    return False


def _versions(group: str) -> list[str]:
    return list(dict.fromkeys(kind.version for kind in KINDS if kind.group == group))


def _kinds_of(group: str, version: str) -> list[Kind]:
    found = [kind for kind in KINDS if kind.group == group and kind.version == version]
    return sorted(found, key=lambda kind: kind.plural)


def _api_versions() -> Json:
    return {
        "kind": "APIVersions",
        "versions": _versions(""),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    }


def _group_body(group: str) -> Json:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version} for version in _versions(group)
    ]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _api_group_list() -> Json:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group_body(group) for group in groups() if group],
    }


def _api_group(group: str) -> Json | None:
    if not group or group not in groups():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group_body(group)}


def _api_resource(kind: Kind) -> Json:
    resource: Json = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    return resource


def _subresource_kind(kind: Kind, name: str) -> tuple[str, str, str]:
    """(group, version, kind) that a subresource speaks."""
    if name not in _SUBRESOURCE_KINDS:
        return kind.group, kind.version, kind.kind
    api_version, spoken = _SUBRESOURCE_KINDS[name]
    group, _, version = api_version.rpartition("/")
    return group, version, spoken


def _api_subresource(kind: Kind, name: str) -> Json:
    group, version, spoken = _subresource_kind(kind, name)
    resource: Json = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": spoken,
        "verbs": _SUBRESOURCE_VERBS.get(name, _STATUS_VERBS),
    }
    if (group, version) != (kind.group, kind.version):
        resource["group"] = group
        resource["version"] = version
    return resource


def _aggregated(kind: Kind) -> Json:
    resource: Json = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": sorted(kind.verbs),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    subresources: list[Json] = []
    for name in sorted(kind.subresources):
        group, version, spoken = _subresource_kind(kind, name)
        subresources.append(
            {
                "subresource": name,
                "responseKind": {"group": group, "version": version, "kind": spoken},
                "verbs": _SUBRESOURCE_VERBS.get(name, _STATUS_VERBS),
            }
        )
    if subresources:
        resource["subresources"] = subresources
    return resource
