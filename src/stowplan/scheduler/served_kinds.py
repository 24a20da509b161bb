"""Which API groups the API server serves, where a scheduler can do without.

An API server without `resource.k8s.io/v1` (Kubernetes before 1.34, or with the group off) has no
claims of devices: DynamicResources then has nothing to watch. Pods with claims wait, because none
of their claims can be found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.resources import RESOURCE_CLAIMS, Resource
from stowplan.errors import NotFound, StowplanError
from stowplan.logs import get_logger, kv

log = get_logger(__name__)

_OPTIONAL: Final = RESOURCE_CLAIMS.group


def is_optional(resource: Resource[Any]) -> bool:
    """Whether an API server may lack a kind that a plugin looks up."""
    return resource.group == _OPTIONAL


async def unserved(client: ApiClient, resources: Iterable[Resource[Any]]) -> list[str]:
    """The plural names of the kinds that the API server does not have; logs them once."""
    optional = [resource for resource in resources if is_optional(resource)]
    if not optional:
        return []
    try:
        # A list, and not the group's own page: the role allows it anyway.
        await client.request("GET", optional[0].path(), params={"limit": 1})
    except NotFound:
        log.warning(
            "The API server does not serve this group: DynamicResources is off, and pods with "
            "resource claims wait",
            extra=kv(group=optional[0].api_version),
        )
        return [resource.plural for resource in optional]
    except StowplanError:
        pass  # The informers retry, and report what is wrong.
    return []
