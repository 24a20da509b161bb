"""A node table that watches a cluster, for algorithms that are made of plugins.

`!Plugins` judges by it; `serving` starts it with the other parts. Nodes, pods of all namespaces and
the objects that plugins look up are listed and watched. Invariant: denied or failed requests are
retried, and meanwhile decisions use the data that is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Node, Pod
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.cluster.cache import ClusterCache
from stowplan.extender.background import Troubles, end
from stowplan.extender.metrics import Metric

_RETRY_S: Final = 5.0


class FollowedCluster:
    """A part that runs (see `background.Runs`)."""

    name = "plugins"

    def __init__(
        self, config: ClusterConfig, cache: ClusterCache, kinds: Sequence[Resource[Any]]
    ) -> None:
        self._config = config
        self._cache = cache
        self._kinds = kinds
        self._client: ApiClient | None = None
        self._informers: dict[str, Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._troubles = Troubles("following the cluster for plugins")

    async def start(self) -> None:
        if self._client is not None:
            return
        self._client = client = ApiClient(self._config, user_agent="stowplan-extender")
        cache = self._cache
        self._follow(
            Informer(
                client,
                NODES,
                on_add=cache.set_node,
                on_update=lambda _, node: cache.set_node(node),
                on_delete=self._remove_node,
            ),
            NODES,
        )
        self._follow(
            Informer(
                client,
                PODS,
                on_add=self._put_pod,
                on_update=lambda _, pod: self._put_pod(pod),
                on_delete=self._remove_pod,
            ),
            PODS,
        )
        for kind in self._kinds:
            self._follow(self._of_kind(client, kind), kind)

    async def stop(self) -> None:
        await end(*self._tasks)
        self._tasks.clear()
        if self._client is not None:
            await self._client.close()
            self._client = None

    def why_not_ready(self) -> str | None:
        if not self._informers:
            return "not started"
        missing = [what for what, each in self._informers.items() if not each.synced.is_set()]
        why = f" ({self._troubles.last})" if self._troubles.last else ""
        return f"not listed yet: {', '.join(missing)}{why}" if missing else None

    def note(self) -> str | None:
        if self._client is not None and self._client.reachability.is_away:
            return "the API server cannot be reached: using the last known state"
        return None

    def measures(self) -> Iterable[Metric]:
        return ()

    def _of_kind(self, client: ApiClient, kind: Resource[Any]) -> Informer[Any]:
        shelf = self._cache.catalog[kind]
        return Informer(
            client,
            kind,
            on_add=shelf.set,
            on_update=lambda _, thing: shelf.set(thing),
            on_delete=lambda thing: shelf.remove(thing.metadata.name, thing.metadata.namespace),
        )

    def _put_pod(self, pod: Pod) -> None:
        """A pod takes room from being bound until it has finished."""
        if pod.spec.node_name and not pod.is_finished:
            self._cache.add_pod(pod)
        else:
            self._cache.remove_pod(pod.uid)

    def _remove_pod(self, pod: Pod) -> None:
        self._cache.remove_pod(pod.uid)

    def _remove_node(self, node: Node) -> None:
        self._cache.remove_node(node.name)

    def _follow(self, informer: Informer[Any], kind: Resource[Any]) -> None:
        self._informers[kind.plural] = informer

        async def follow() -> None:
            while True:
                try:
                    await informer.run()
                except Exception as error:  # denied: an administrator may still grant access
                    self._troubles.add(f"{kind.plural}: {error}")
                await asyncio.sleep(_RETRY_S)

        self._tasks.append(asyncio.create_task(follow(), name=f"follow {kind.plural}"))
