"""Which API groups the API server serves, where a scheduler can do without.

An API server without `resource.k8s.io/v1` (Kubernetes before 1.34, or with the group off) has no
claims of devices: DynamicResources then has nothing to watch. Pods with claims wait, because none
of their claims can be found. DeviceTaintRule has a version of its own, which is off by default.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.resources import DEVICE_TAINT_RULES, RESOURCE_CLAIMS, Resource
from stowplan.errors import NotFound, StowplanError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_OPTIONAL: Final = RESOURCE_CLAIMS.group
_NO_DEVICES: Final = (
    "The API server does not serve this group: DynamicResources is off, and pods with "
    "resource claims wait"
)
_NO_TAINT_RULES: Final = (
    "The API server does not serve DeviceTaintRules: they are ignored. Fix: give kube-apiserver "
    "--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true"
)


def is_optional(resource: Resource[Any]) -> bool:
    """Whether an API server may lack a kind that a plugin looks up."""
    return resource.group == _OPTIONAL


async def unserved(client: ApiClient, resources: Iterable[Resource[Any]]) -> list[str]:
    """The plural names of the kinds that the API server does not have; logs them once."""
    by_version: dict[str, list[Resource[Any]]] = {}
    for resource in filter(is_optional, resources):
        by_version.setdefault(resource.api_version, []).append(resource)
    missing: list[str] = []
    for version, kinds in by_version.items():
        if await _serves(client, kinds[0]):
            continue
        missing += [kind.plural for kind in kinds]
        log.warning(
            _NO_TAINT_RULES if kinds == [DEVICE_TAINT_RULES] else _NO_DEVICES,
            extra=kv(group=version),
        )
    return missing


async def _serves(client: ApiClient, kind: Resource[Any]) -> bool:
    try:
        # A list, and not the group's own page: the role allows it anyway.
        await client.request("GET", kind.path(), params={"limit": 1})
    except NotFound:
        return False
    except StowplanError:
        pass  # The informers retry, and report what is wrong.
    return True
