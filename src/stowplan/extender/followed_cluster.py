"""A node table that watches a cluster, for algorithms that are made of plugins.

`!Plugins` judges by it; `serving` starts it with the other parts. Nodes, pods of all namespaces and
the objects that plugins look up are listed and watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.informer import Informer
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.cluster.cache import ClusterCache
from stowplan.extender.followers import Follower
from stowplan.extender.metrics import Metric


class FollowedCluster(Follower):
    name = "plugins"

    def __init__(
        self, config: ClusterConfig, cache: ClusterCache, kinds: Sequence[Resource[Any]]
    ) -> None:
        super().__init__(config, "following the cluster for plugins")
        self._cache = cache
        self._kinds = kinds

    def _follow_all(self, client: ApiClient) -> None:
        cache = self._cache
        nodes = Informer(
            client,
            NODES,
            on_add=cache.set_node,
            on_update=lambda _, node: cache.set_node(node),
            on_delete=lambda node: cache.remove_node(node.name),
        )
        self._follow(NODES.plural, nodes)
        pods = Informer(
            client,
            PODS,
            on_add=self._put_pod,
            on_update=lambda _, pod: self._put_pod(pod),
            on_delete=self._remove_pod,
        )
        self._follow(PODS.plural, pods)
        for kind in self._kinds:
            self._follow(kind.plural, self._of_kind(client, kind))

    def why_not_ready(self) -> str | None:
        if not self._informers:
            return "not started"
        missing = self._unlisted()
        why = f" ({self._troubles.last})" if self._troubles.last else ""
        return f"not listed yet: {', '.join(missing)}{why}" if missing else None

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
