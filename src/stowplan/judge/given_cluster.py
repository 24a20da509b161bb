"""The cluster that objects build, ready to be asked about a pod.

A pod with a node occupies it; a finished pod takes no room; a pending pod counts only if it is
nominated to a node. Here pods are identified by namespace and name, as in the API; the cache below
identifies them by UID. Unknown nodes that hold pods are kept, as in the live scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from stowplan.api.objects import Pod
from stowplan.api.quantity import InvalidQuantity
from stowplan.api.resources import NODES, PODS
from stowplan.clock import SystemClock
from stowplan.cluster.cache import ClusterCache
from stowplan.cluster.pod_info import PodInfo, compile_pod
from stowplan.framework.handle import Handle
from stowplan.framework.profile import Profile
from stowplan.judge.objects import Key, Thing, with_uid
from stowplan.judge.refusal import QuestionRefused
from stowplan.judge.template_claims import Supposed, supposing, with_template_claims
from stowplan.queue.nominator import Nominator
from stowplan.scheduler.cycle import judge
from stowplan.scheduler.decision import Decision

#: The extension points that a judgement passes, and the one that says what eviction would change.
_POINTS = ("preFilter", "filter", "preScore", "score")


class GivenCluster:
    """A cluster built from given objects: nodes, pods and everything that plugins look up."""

    def __init__(self) -> None:
        self.cache = ClusterCache()
        self._nominated = Nominator()
        self.things: dict[Key, Thing] = {}
        self._by_uid: dict[str, Key] = {}
        #: Plurals of kinds that could not be read: no object of them is known, but some may exist.
        self.unread: set[str] = set()

    def settle(self, profile: Profile, *, preempts: bool = False) -> Profile:
        """The same profile with plugins that look at this cluster; PostFilter only if asked for."""
        handle = Handle(
            profile=profile.name,
            table=self.cache.table,
            catalog=self.cache.catalog,
            clock=SystemClock(),
            rng=Random(0),
        )
        plugins = {name: type(each)(each.args, handle) for name, each in profile.plugins.items()}
        weights = {step.name: step.weight for step in profile.scores}
        return Profile(
            profile.name,
            {
                point: [
                    (plugins[each.name], weights.get(each.name, 0)) for each in profile.at(point)
                ]
                for point in (*_POINTS, *(["postFilter"] if preempts else []))
            },
        )

    def put(self, thing: Thing) -> None:
        """Add an object, or replace the one of its name."""
        old = self.things.get(thing.key)
        if thing.resource is PODS:
            self._put_pod(old.struct if old is not None else None, thing)
        elif thing.resource is NODES:
            try:
                self.cache.set_node(thing.struct)
            except InvalidQuantity as problem:
                raise QuestionRefused(f"node {thing.name}: {problem}") from None
        elif thing.resource is not None:
            self.cache.catalog[thing.resource].set(thing.struct)
        self.things[thing.key] = thing

    def remove(self, key: Key) -> None:
        thing = self.things.pop(key)
        if thing.resource is PODS:
            self._take_away(thing.struct)
        elif thing.resource is NODES:
            self.cache.remove_node(thing.name)
        elif thing.resource is not None:
            self.cache.catalog[thing.resource].remove(thing.name, thing.namespace)

    def judge(
        self, thing: Thing, profile: Profile, is_served: Callable[[Pod], bool] = lambda pod: True
    ) -> Decision:
        """What every node has to say to a pending pod.

        Room is kept for nominated pods only if they wait in the same scheduler's queue.
        """
        nominated, catalog = self.nominees(is_served), self.cache.catalog
        supposed = self.supposed(thing)
        with supposing(catalog, supposed.claims):
            info = compile_pod(supposed.pod)
            return judge(self.cache.table, info, profile, nominated=nominated)

    def asked(self, thing: Thing) -> PodInfo:
        """The pending pod, compiled under the UID that it has in this cluster."""
        known = self.things.get(thing.key)
        return compile_pod(asked_pod(thing, None if known is None else known.struct))

    def supposed(self, thing: Thing) -> Supposed:
        """The pending pod with claims from the templates of this cluster."""
        known = self.things.get(thing.key)
        pod = asked_pod(thing, None if known is None else known.struct)
        return with_template_claims(pod, self.cache.catalog)

    def nominees(self, is_served: Callable[[Pod], bool]) -> Nominator | None:
        """The nominated pods that wait in a scheduler's queue; None if there are none."""
        nominated = Nominator()
        for name in self._nominated.nodes():
            for other in self._nominated.for_node(name):
                if is_served(other):
                    nominated.add(other)
        return nominated if len(nominated) else None

    def _put_pod(self, old: Pod | None, thing: Thing) -> None:
        pod: Pod = thing.struct
        owner = self._by_uid.get(pod.uid, thing.key)
        if owner != thing.key:
            raise QuestionRefused(
                f"{thing}: metadata.uid: Duplicate value: also of {self.things[owner]}"
            )
        if old is not None and (old.uid != pod.uid or not _stands(pod)):
            self._take_away(old)
        self._by_uid[pod.uid] = thing.key
        self._nominated.delete(pod)
        if _stands(pod):
            self.cache.add_pod(pod)
        elif not (pod.is_finished or pod.spec.node_name or pod.spec.scheduling_gates):
            # A gated pod is in no queue yet, even if it is nominated.
            self._nominated.add(pod)

    def _take_away(self, pod: Pod) -> None:
        del self._by_uid[pod.uid]
        self._nominated.delete(pod)
        self.cache.remove_pod(pod.uid)


def asked_pod(thing: Thing, known: Pod | None) -> Pod:
    """The pod that a question is about; `known` is the one of its name in the cluster."""
    pod: Pod = thing.struct
    if known is not None and not thing.has_uid and not _stands(known):
        # The same pod: its own nomination must not take room from it.
        pod = with_uid(pod, known.uid)
    return pod


def _stands(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_finished
