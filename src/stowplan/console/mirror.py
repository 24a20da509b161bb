"""The cluster as informers report it, kept apart from the state of a scheduler.

Explaining a pod that has a node takes it out of the cluster for a moment. In the scheduler's own
cache that could disturb a decision, so the console keeps a cache of its own; the objects are
shared. Everything here belongs to the thread of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import nsmallest
from http import HTTPStatus
from typing import Any

from stowplan.api.objects import Node, Pod
from stowplan.api.resources import NODES, PODS, Resource
from stowplan.cluster.table import NodeTable
from stowplan.cluster.work import DecisionDeferred
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.console.pieces import in_pieces
from stowplan.errors import BadRequest, ServerError
from stowplan.explain.reasoning import Explainer
from stowplan.explain.sources import pod_key
from stowplan.framework.registry import Registry
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Key, Thing, thing_of
from stowplan.judge.refusal import QuestionRefused
from stowplan.logs import V2, get_logger, kv
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers

log = get_logger(__name__)


class ClusterMirror:
    """Nodes, pods and what plugins look up; read by all pages."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.cluster = GivenCluster()
        self.explainer = Explainer(self.cluster, config)
        #: Pods without a node, by key.
        self.pending: dict[Key, Thing] = {}
        #: Pods that were seen to get a node.
        self.bound = 0
        #: Grows with every change of a pending pod.
        self.pending_version = 0
        #: Whether the first lists are complete.
        self.is_synced: Callable[[], bool] = lambda: False

    @property
    def table(self) -> NodeTable:
        return self.cluster.cache.table

    @contextmanager
    def limited(self, limit: float | None, too_expensive: str) -> Iterator[None]:
        """Decide on the mirror with at most this much work; ServerError above the limit."""
        work = self.table.work
        if limit is not None:
            work.limit(limit)
        try:
            yield
        except DecisionDeferred:
            raise ServerError(too_expensive, status=HTTPStatus.SERVICE_UNAVAILABLE) from None
        except QuestionRefused as problem:
            raise BadRequest(str(problem), status=HTTPStatus.UNPROCESSABLE_ENTITY) from None
        finally:
            work.unlimit()

    def put(self, kind: Resource[Any], item: Any) -> None:
        """Add or replace an object."""
        thing = thing_of(kind, item)
        try:
            self.cluster.put(thing)
        except QuestionRefused as problem:
            log.log(V2, "The console leaves out an object", extra=kv(err=str(problem)))
            return
        if kind is PODS:
            self._note_pod(thing)

    def remove(self, kind: Resource[Any], item: Any) -> None:
        key = thing_of(kind, item).key
        if key in self.cluster.things:
            self.cluster.remove(key)
        if self.pending.pop(key, None) is not None:
            self.pending_version += 1

    def find_pod(self, namespace: str, name: str) -> Thing | None:
        return self.cluster.things.get(pod_key(namespace, name))

    async def search_pods(self, text: str, most: int) -> list[Pod]:
        """Pods whose namespace/name contains a text, pending ones first."""
        found: list[Pod] = []
        async for waiting in in_pieces(list(self.pending.values())):
            matching = (each.struct for each in waiting if text in each.struct.key)
            found = nsmallest(most, [*found, *matching], key=lambda pod: pod.key)
        keys = {pod.key for pod in found}
        async for things in in_pieces(list(self.cluster.things.values())):
            if len(found) >= most:
                break
            pods = (each.struct for each in things if each.resource is PODS)
            found += (pod for pod in pods if text in pod.key and pod.key not in keys)
        return found[:most]

    def _note_pod(self, thing: Thing) -> None:
        pod: Pod = thing.struct
        was_pending = self.pending.pop(thing.key, None) is not None
        is_pending = not (pod.spec.node_name or pod.is_finished or pod.is_terminating)
        if is_pending:
            self.pending[thing.key] = thing
        if was_pending and pod.spec.node_name:
            self.bound += 1
        if was_pending or is_pending:
            self.pending_version += 1


def mirror_of(
    config: KubeSchedulerConfiguration, registry: Registry | None = None
) -> ClusterMirror:
    """An empty mirror whose explanations follow a configuration."""
    return ClusterMirror(Configuration(config, registry or default_registry()))


class MirroringHandlers(EventHandlers):
    """Handlers of a scheduler's informers that keep a mirror up to date, too."""

    def __init__(self, engine: Engine, mirror: ClusterMirror) -> None:
        super().__init__(engine)
        self._mirror = mirror

    def add_pod(self, pod: Pod) -> None:
        super().add_pod(pod)
        self._mirror.put(PODS, pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        super().update_pod(old, new)
        self._mirror.put(PODS, new)

    def delete_pod(self, pod: Pod) -> None:
        super().delete_pod(pod)
        self._mirror.remove(PODS, pod)

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self._mirror.put(NODES, node)

    def update_node(self, old: Node, new: Node) -> None:
        super().update_node(old, new)
        self._mirror.put(NODES, new)

    def delete_node(self, node: Node) -> None:
        super().delete_node(node)
        self._mirror.remove(NODES, node)

    def set_object(self, resource: Resource[Any], thing: Any) -> None:
        super().set_object(resource, thing)
        self._mirror.put(resource, thing)

    def delete_object(self, resource: Resource[Any], thing: Any) -> None:
        super().delete_object(resource, thing)
        self._mirror.remove(resource, thing)
