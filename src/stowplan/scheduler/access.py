"""What a scheduler must be allowed to do, and what of it our credentials lack.

`deploy/scheduler` grants exactly what the default profile needs; a test keeps the two equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from stowplan.api.resources import CSI_STORAGE_CAPACITIES, RESOURCE_CLAIMS, Resource
from stowplan.api.verbs import ApiVerbs
from stowplan.errors import StowplanError
from stowplan.framework.plugin import Plugin

#: An answer takes the API server less time than opening one more connection.
_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on a resource; `optional` ones cost a feature, not the scheduler."""

    verbs: tuple[str, ...]
    resource: str
    group: str = ""
    subresource: str = ""
    cluster_wide: bool = False
    optional: bool = False

    @property
    def spoken(self) -> str:
        """`create pods/binding`, `get,update leases.coordination.k8s.io`."""
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{','.join(self.verbs)} {name}" + (f".{self.group}" if self.group else "")


RIGHTS = (
    Right(("list", "watch"), "nodes", cluster_wide=True),
    Right(("list", "watch"), "pods"),
    Right(("create",), "pods", subresource="binding"),
    Right(("patch",), "pods", subresource="status", optional=True),
    Right(("create", "patch"), "events", group="events.k8s.io", optional=True),
)
_CLAIMS = RESOURCE_CLAIMS.plural
#: What writing claims takes besides patching them. The status is guarded twice: its allocation and
#: its consumers belong to `resourceclaims/binding`, in the whole cluster even for one namespace.
CLAIM_RIGHTS = (
    Right(("patch",), _CLAIMS, RESOURCE_CLAIMS.group, "status"),
    Right(("patch",), _CLAIMS, RESOURCE_CLAIMS.group, "binding", cluster_wide=True),
    # Claims of extended resources that devices stand for.
    Right(("create", "delete"), _CLAIMS, RESOURCE_CLAIMS.group, optional=True),
)
#: For --annotate.
ANNOTATE_RIGHTS = (Right(("patch",), "pods", optional=True),)
LEASE_RIGHTS = (
    Right(("create",), "leases", group="coordination.k8s.io"),
    Right(("get", "update"), "leases", group="coordination.k8s.io"),
    Right(("create",), "events", optional=True),
)


def is_cluster_wide(resource: Resource[Any]) -> bool:
    """Whether even the scheduler of one namespace must see all of a kind."""
    # Drivers publish capacity in namespaces of their own, and devices can be shared by namespaces.
    return not resource.namespaced or resource in (CSI_STORAGE_CAPACITIES, RESOURCE_CLAIMS)


def rights_for(plugins: Collection[Plugin]) -> list[Right]:
    """What a scheduler needs that has these plugins; a lease comes on top."""
    wanted = {
        # Without this one, the plugin's decisions are there and come to nothing.
        ("delete",): (kind for plugin in plugins for kind in plugin.deletes),
        ("list", "watch"): (kind for plugin in plugins for kind in plugin.looks_up),
        ("patch",): (kind for plugin in plugins for kind in plugin.patches),
    }
    writes_claims = any(RESOURCE_CLAIMS in plugin.patches for plugin in plugins)
    return [
        *RIGHTS,
        *(CLAIM_RIGHTS if writes_claims else ()),
        *(
            Right(
                verbs,
                resource.plural,
                group=resource.group,
                cluster_wide=(
                    is_cluster_wide(resource) if "list" in verbs else not resource.namespaced
                ),
                optional=verbs == ("delete",),
            )
            for verbs, resources in wanted.items()
            for resource in dict.fromkeys(resources)
        ),
    ]


@dataclass(frozen=True, slots=True)
class MissingRight:
    right: Right
    verb: str
    namespace: str

    @property
    def is_optional(self) -> bool:
        return self.right.optional

    def __str__(self) -> str:
        return f"{self.of((self.verb,)).spoken} {self.where}"

    @property
    def where(self) -> str:
        return f"in namespace {self.namespace}" if self.namespace else "in the whole cluster"

    def of(self, verbs: tuple[str, ...]) -> Right:
        """The same resource with these verbs."""
        return Right(verbs, self.right.resource, self.right.group, self.right.subresource)


def grouped(missing: Collection[MissingRight]) -> list[str]:
    """One text for each place: `in namespace a: list,watch pods, create pods/binding`."""
    places: dict[str, dict[Right, list[str]]] = {}
    for each in missing:
        places.setdefault(each.where, {}).setdefault(each.of(()), []).append(each.verb)
    return [
        f"{where}: "
        + ", ".join(replace(right, verbs=tuple(verbs)).spoken for right, verbs in rights.items())
        for where, rights in places.items()
    ]


async def missing_rights(
    client: ApiVerbs,
    *,
    namespace: str = "",
    lease: tuple[str, str] | None = None,
    plugins: Collection[Plugin] = (),
    more: Collection[Right] = (),
) -> list[MissingRight]:
    """Ask the API server which permissions we lack.

    `lease` is (namespace, name), or None without leader election. `more` are rights of options.
    """
    wanted = [
        MissingRight(right, verb, "" if right.cluster_wide else namespace)
        for right in (*rights_for(plugins), *more)
        for verb in right.verbs
    ]
    names = [""] * len(wanted)
    if lease is not None:
        for right in LEASE_RIGHTS:
            for verb in right.verbs:
                wanted.append(MissingRight(right, verb, lease[0]))
                names.append("" if verb == "create" else lease[1])
    turns = asyncio.Semaphore(_AT_A_TIME)
    answers = await asyncio.gather(
        *(_may(client, each, name, turns) for each, name in zip(wanted, names, strict=True))
    )
    return [each for each, allowed in zip(wanted, answers, strict=True) if not allowed]


async def _may(client: ApiVerbs, wanted: MissingRight, name: str, turns: asyncio.Semaphore) -> bool:
    try:
        async with turns:
            return await client.can_i(
                wanted.verb,
                wanted.right.resource,
                group=wanted.right.group,
                namespace=wanted.namespace,
                subresource=wanted.right.subresource,
                name=name,
            )
    except StowplanError:
        # The question itself may be forbidden or the server away: then the real request decides.
        return True
