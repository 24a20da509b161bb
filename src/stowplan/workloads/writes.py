"""Requests that change a cluster, as data: what `objects` makes and a `Cluster` carries out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from stowplan.api.resources import Resource
from stowplan.workloads.templates import JsonObject


class Write(NamedTuple):
    """One request that changes the cluster.

    Parts of `object` are shared between writes: encode it, copy it, but never change it.
    """

    verb: Literal["create", "update", "delete"]
    resource: Resource[Any]
    #: With `metadata.name`, and `metadata.namespace` if namespaced; a delete has nothing else.
    object: JsonObject
    #: `status`, `resize`; an update of a subresource replaces it as PUT does.
    subresource: str = ""
    #: An object of that name that is there already is as good.
    may_exist: bool = False

    @property
    def name(self) -> str:
        name: str = self.object["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.object["metadata"].get("namespace", "")
        return namespace

    @property
    def path(self) -> str:
        """Where to send it: the collection for a create, else the object or its subresource."""
        name = "" if self.verb == "create" else self.name
        return self.resource.path(namespace=self.namespace, name=name, subresource=self.subresource)


#: Writes that must happen one after the other: a claim, its status, its volume, then its pod.
Chain: TypeAlias = Sequence[Write]


def deletion(resource: Resource[Any], namespace: str, name: str) -> Write:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return Write("delete", resource, {"metadata": metadata})
