"""Names of the cluster for a shell that completes a command line: pods, nodes, namespaces.

The cluster is asked with the kubeconfig and the namespace that the line has so far. Whatever goes
wrong (no kubeconfig, no server, no rights, no answer within a second) there is nothing to offer: an
error would break the line that is being typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from stowplan.api.resources import Resource

_TIMEOUT_S: Final = 1.0
#: More names than this help as little as none.
_MOST: Final = 500

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def complete_pods(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Pods of the namespace, or of the one that the word begins with: `shop/we`."""
    from stowplan.api.resources import PODS

    namespace, slash, start = incomplete.rpartition("/")
    chosen = namespace if slash else ctx.params.get("namespace")
    names = _names(ctx, PODS, start, namespace=chosen)
    return [CompletionItem(f"{namespace}{slash}{name}") for name in names]


def complete_nodes(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    from stowplan.api.resources import NODES

    return [CompletionItem(name) for name in _names(ctx, NODES, incomplete)]


def complete_namespaces(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    from stowplan.api.resources import NAMESPACES

    return [CompletionItem(name) for name in _names(ctx, NAMESPACES, incomplete)]


def _names(
    ctx: click.Context, kind: Resource[Any], start: str, *, namespace: str | None = None
) -> list[str]:
    if ctx.params.get("filename"):
        return []  # the names are in a file, which may be large
    try:
        found = asyncio.run(_listed(ctx, kind, namespace))
    except Exception:
        return []
    return sorted(name for name in found if name.startswith(start) and name.isprintable())[:_MOST]


async def _listed(ctx: click.Context, kind: Resource[Any], namespace: str | None) -> list[str]:
    from stowplan.api.client import ApiClient
    from stowplan.api.kubeconfig import load_cluster_config

    params = ctx.params
    config = load_cluster_config(kubeconfig=params.get("kubeconfig"), context=params.get("context"))
    scope = (namespace or config.namespace) if kind.namespaced else ""
    async with asyncio.timeout(_TIMEOUT_S), ApiClient(config) as client:
        found = await client.list_all(kind, namespace=scope, timeout_s=_TIMEOUT_S)
    return [item.metadata.name for item in found.items]
