"""The API resources that Stowplan reads or writes, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from stowplan.api import objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One served resource and the struct its objects decode into."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path; without a namespace a namespaced resource means all of them."""
        parts = ["/api" if not self.group else f"/apis/{self.group}", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Resource("", "v1", "pods", "Pod", True, objects.Pod)
NODES = Resource("", "v1", "nodes", "Node", False, objects.Node)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, objects.Namespace)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, objects.Lease)
