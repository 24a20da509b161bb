"""A leader that was away for longer than its lease changes nothing, and ends.

The whole scheduler in virtual time. Being frozen and deciding for too long are the same to it: the
clock jumps while none of its tasks runs. Meanwhile another leads, fills the node, and is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.objects import Pod
from stowplan.api.resources import LEASES, PODS, Resource
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.paths import parse_path
from stowplan.apiserver.rest import ApiRequest
from stowplan.cluster.views import NodeView
from stowplan.config.load import parse_config
from stowplan.errors import LeadershipLost
from stowplan.framework.plugin import Plugin
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.process import Election, SchedulerProcess
from stowplan.sim.virtual.time_loop import TimeLoop, run_virtually
from stowplan.testing import as_manifest, node, pod

ELECTION = Election(name="it", namespace="default", identity="a")
CONFIG = parse_config(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{plugins: {filter: {enabled: [{name: Muse}]}, preBind: {enabled: [{name: Muse}]},"
    " bind: {enabled: [{name: Muse}], disabled: [{name: DefaultBinder}]}}}]\n"
)


class Stage:
    """One scheduler and its API server."""

    def __init__(self, loop: TimeLoop, *, election: Election | None = ELECTION) -> None:
        self.loop = loop
        self.cluster = EmbeddedCluster(
            kubelet=KubeletOptions(enabled=False), clock=loop.clock, compute_priority=False
        )
        #: Called in the middle of each decision.
        self.on_filter: Callable[[], None] = lambda: None
        #: Called before each binding is sent.
        self.on_bind: Callable[[], None] = lambda: None
        stage = self

        class Muse(Plugin):
            name = "Muse"
            bind_is_idempotent = True

            def filter(self, pod: Pod, node: NodeView) -> bool:
                stage.on_filter()
                return True

            def pre_bind(self, cycle: Any, pod: Pod, node: str) -> None:
                stage.on_bind()

            async def bind(self, cycle: Any, pod: Pod, node: str) -> None:
                assert self.handle is not None
                meta = pod.metadata
                await self.handle.client.bind(meta.namespace, meta.name, pod.uid, node)

        registry = in_tree_registry()
        registry.register(Muse)
        engine = build_engine(CONFIG, registry=registry, clock=loop.clock)
        client = ApiClient(ClusterConfig(server=SERVER), transport=InProcess(self.cluster))
        self.process = SchedulerProcess(engine, client, election=election, clock=loop.clock)
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.process.run(self.stop))

    async def until_scheduling(self) -> None:
        await asyncio.wait_for(self.process.scheduling.wait(), 60)
        await self.loop.at_rest()

    async def end(self) -> BaseException | None:
        """How the scheduler ends within a while; None: it goes on."""
        await asyncio.wait({self.running}, timeout=600)
        if self.running.done():
            return self.running.exception()
        self.stop.set()
        await self.running
        return None

    def add_node(self, **fields: Any) -> None:
        self.cluster.create("", "v1", "nodes", as_manifest(node("n1", **fields)))

    def add_pod(self, built: Pod) -> None:
        manifest = as_manifest(built)
        manifest["metadata"].pop("uid", None)
        self.cluster.create("", "v1", "pods", manifest, namespace="default")

    def pod(self, name: str) -> Pod:
        return msgspec.convert(self._request("GET", PODS, name), Pod)

    def nothing_happens_for(self, seconds: float) -> None:
        self.loop.clock.advance(seconds)

    def another_leads_and_fills_the_node(self) -> None:
        lease = self._request("GET", LEASES, "it")
        for holder in ("b", ""):
            lease["spec"] |= {"holderIdentity": holder, "leaseTransitions": 1}
            lease = self._request("PUT", LEASES, "it", lease)
        self.add_pod(pod("others", cpu=1, node="n1"))

    def freeze(self) -> None:
        self.nothing_happens_for(100)
        self.another_leads_and_fills_the_node()

    def _request(
        self, method: str, resource: Resource[Any], name: str, body: Any = None
    ) -> dict[str, Any]:
        target = parse_path(resource.path(namespace="default", name=name))
        assert target is not None
        sent = b"" if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, target, {}, sent, "application/json", "", "b")
        answer: dict[str, Any] = msgspec.json.decode(self.cluster.rest.answer(request).body)
        return answer


def test_a_leader_that_was_frozen_binds_nothing() -> None:
    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop)
        stage.add_node(cpu=1)
        await stage.until_scheduling()
        stage.add_pod(pod("web", cpu=1))
        stage.freeze()
        assert isinstance(await stage.end(), LeadershipLost)
        assert stage.pod("web").spec.node_name == ""

    run_virtually(play)


@pytest.mark.parametrize("when", ["on_filter", "on_bind"])
def test_a_decision_longer_than_the_lease_is_not_carried_out(when: str) -> None:
    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop)
        stage.add_node(cpu=1)
        await stage.until_scheduling()
        setattr(stage, when, stage.freeze)
        stage.add_pod(pod("web", cpu=1))
        assert isinstance(await stage.end(), LeadershipLost)
        assert stage.pod("web").spec.node_name == ""
        assert stage.process.engine.cache.is_assumed(stage.pod("web").uid), "nothing is undone"

    run_virtually(play)


def test_it_evicts_nothing_either() -> None:
    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop)
        stage.add_node(cpu=1)
        stage.add_pod(pod("standing", cpu=1, node="n1"))
        await stage.until_scheduling()
        stage.on_filter = lambda: stage.nothing_happens_for(3)
        stage.add_pod(pod("important", cpu=1, priority=100))
        stage.nothing_happens_for(8)
        assert isinstance(await stage.end(), LeadershipLost)
        assert not stage.pod("standing").is_terminating
        assert not stage.pod("standing").status.conditions

    run_virtually(play)


def test_it_says_nothing_about_pods() -> None:
    """Another leader may have bound the pod, and such a word would call it unschedulable."""

    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop)
        stage.add_node(cpu=1)
        await stage.until_scheduling()
        stage.add_pod(pod("huge", cpu=8))
        stage.freeze()
        assert isinstance(await stage.end(), LeadershipLost)
        assert not stage.pod("huge").status.conditions

    run_virtually(play)


@pytest.mark.parametrize("election", [ELECTION, None])
def test_less_than_the_deadline_is_no_reason_to_end(election: Election | None) -> None:
    async def play(loop: TimeLoop) -> None:
        stage = Stage(loop, election=election)
        stage.add_node(cpu=1)
        await stage.until_scheduling()
        stage.add_pod(pod("web", cpu=1))
        stage.nothing_happens_for(7 if election is not None else 1000)
        assert await stage.end() is None
        assert stage.pod("web").spec.node_name == "n1"

    run_virtually(play)
