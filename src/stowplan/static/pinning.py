"""Read and change pins in a cluster, for the commands `pin`, `unpin`, `pins` and `move`.

Invariant: concurrent changes are never lost. Each label has its own key and is patched alone. The
annotation is one value for many pods, so its patch names the node's resourceVersion and is retried
after a conflict.
"""

from __future__ import annotations

from typing import Final

from stowplan.api.client import ApiClient, PatchKind
from stowplan.api.objects import Node, Pod
from stowplan.api.pod_names import PodName
from stowplan.api.resources import NODES, PODS
from stowplan.errors import Conflict, NotFound
from stowplan.plugins.static_placement.labels import PinLabels
from stowplan.static.pins import NodeEdit, Wish, edit_for

#: A kubelet writes its node several times a minute; so many writes in our way are no accident.
_ATTEMPTS: Final = 20


async def read_nodes(client: ApiClient) -> list[Node]:
    """All nodes, by name."""
    listed = await client.list_all(NODES)
    return sorted(listed.items, key=lambda node: node.name)


async def find_pod(client: ApiClient, pod: PodName) -> Pod | None:
    try:
        return await client.get(PODS, pod.name, namespace=pod.namespace)
    except NotFound:
        return None


async def apply_wish(
    client: ApiClient, node: Node, labels: PinLabels, pod: PodName, wish: Wish
) -> NodeEdit | None:
    """Make a node say about the pod what is wished; what was changed, None if nothing had to be.

    `node` may be old: where that matters the server says so, and its newest version counts.
    """
    for _ in range(_ATTEMPTS):
        edit = edit_for(node, labels, pod, wish)
        if edit is None:
            return None
        patch = edit.as_patch()
        try:
            if edit.needs_same_version:
                version = node.metadata.resource_version
                await client.amend(NODES, node.name, patch, resource_version=version)
            else:
                await client.patch(NODES, node.name, patch, kind=PatchKind.MERGE)
            return edit
        except NotFound:
            if wish is Wish.UNPINNED:  # and its pins are gone with it
                return None
            raise
        except Conflict:
            node = await _read_again(client, node)
    raise Conflict(f"node {node.name!r} changed during each of {_ATTEMPTS} attempts; try again")


async def _read_again(client: ApiClient, node: Node) -> Node:
    """By a list, so that no further right is needed."""
    listed = await client.list_all(NODES, field_selector=f"metadata.name={node.name}")
    if not listed.items:
        raise NotFound(f"node {node.name!r} is gone")
    return listed.items[0]
