"""The kinds that a workload may create or update, found by apiVersion and kind.

Upstream asks the API server's discovery; a workload that is checked before any server runs needs
a table. Used by `operations` when it reads templates and by `objects` when it makes requests.
"""

from __future__ import annotations

from typing import Any

from stowplan.api.resources import CATALOGED, DEVICE_TAINT_RULES, NODES, PODS, Resource
from stowplan.errors import ConfigError
from stowplan.workloads.templates import Template

_OTHERS: tuple[tuple[str, str, str, str, bool], ...] = (
    ("", "v1", "configmaps", "ConfigMap", True),
    ("", "v1", "endpoints", "Endpoints", True),
    ("", "v1", "limitranges", "LimitRange", True),
    ("", "v1", "resourcequotas", "ResourceQuota", True),
    ("", "v1", "secrets", "Secret", True),
    ("", "v1", "serviceaccounts", "ServiceAccount", True),
    ("apps", "v1", "daemonsets", "DaemonSet", True),
    ("apps", "v1", "deployments", "Deployment", True),
    ("batch", "v1", "cronjobs", "CronJob", True),
    ("batch", "v1", "jobs", "Job", True),
    ("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False),
)
_RESOURCES: list[Resource[Any]] = [NODES, PODS, *CATALOGED, DEVICE_TAINT_RULES]
_RESOURCES += [Resource(*other, dict) for other in _OTHERS]
_KINDS: dict[tuple[str, str], Resource[Any]] = {
    (resource.api_version, resource.kind): resource for resource in _RESOURCES
}
#: Older versions with the same fields, which some of upstream's templates have.
_OLDER_VERSIONS = {
    "resource.k8s.io/v1beta2": "resource.k8s.io/v1",
    "resource.k8s.io/v1alpha3": "resource.k8s.io/v1beta2",
}


def known_kinds() -> list[str]:
    return sorted(kind for _, kind in _KINDS)


def find_resource(api_version: str, kind: str) -> Resource[Any] | None:
    """By the first two lines of a manifest."""
    return _KINDS.get((api_version, kind))


def resource_named(word: str) -> Resource[Any] | None:
    """By kind or plural, in any case: `Pod`, `pods`, `persistentvolumeclaim`."""
    wanted = word.lower()
    for resource in _RESOURCES:
        if wanted in (resource.kind.lower(), resource.plural):
            return resource
    return None


def resource_of(template: Template) -> Resource[Any]:
    """What the template's objects are to the API server."""
    found = _KINDS.get((template.api_version, template.kind))
    if found is None and template.api_version in _OLDER_VERSIONS:
        newer = _OLDER_VERSIONS[template.api_version]
        found = _KINDS.get((newer, template.kind))
    if found is None:
        known = ", ".join(known_kinds())
        unknown = f"kind {template.kind} of {template.api_version} is not known; known: {known}"
        raise ConfigError(unknown, where=str(template.path))
    return found
