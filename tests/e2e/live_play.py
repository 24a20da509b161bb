"""Plays a mixture to one scheduler on a fresh control plane, and records what became of each pod.

The order of decisions is fixed: what plugins look up is there before the scheduler starts, then
nodes come one by one, then pods, each when the one before is bound, or refused and deleted again.
kube-controller-manager's persistent volume controller completes what volume plugins begin.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import yaml

from stowplan.config.defaults import DEFAULT_MULTI_POINT
from stowplan.plugins.registry import IN_TREE
from tests.e2e.live_mixture import Change, Mixture
from tests.e2e.live_nodes import LAST_NEWS
from tests.e2e.live_storage import Request
from tests.e2e.live_wakeups import Act, epilogue
from tests.e2e.scheduler_play import (
    Stage,
    condition_of,
    is_settled,
    masked_object,
    node_of,
    session_with,
)
from tests.e2e.schedulers import kube_scheduler, stowplan
from tools.controlplane import ControlPlane

Json = dict[str, Any]

KUBE_SCHEDULER, STOWPLAN = "kube-scheduler", "stowplan"
_OURS = {plugin.name for plugin in IN_TREE}
#: Plugins of kube-scheduler's default profile that Stowplan has too; it grows by itself.
SHARED = [ref.name for ref in DEFAULT_MULTI_POINT if ref.name in _OURS]
_EVENTS = "/apis/events.k8s.io/v1/events"
_PATIENCE_S = 60.0
_SCORED = re.compile(
    r'"Plugin scored node for pod" pod="[^"]*/([^"]+)" plugin="([^"]+)" node="([^"]+)" score=(\d+)'
)


@dataclass
class Outcome:
    """What a scheduler did with one pod."""

    node: str
    status: str
    reason: str
    message: str
    #: Pods that had to go for it.
    evicted: tuple[str, ...]
    #: The pod as the scheduler left it, without what two runs cannot have in common.
    pod: Json
    #: (type, reason, action, note) of each event, the first of each reason.
    events: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def is_gated(self) -> bool:
        return self.reason == "SchedulingGated"


@dataclass
class Play:
    """Everything that is compared, and the scores where a scheduler tells them."""

    pods: dict[str, Outcome] = field(default_factory=dict)
    #: Pods of the epilogue: the first refusal, and the node in the end.
    woken: dict[str, Outcome] = field(default_factory=dict)
    #: Volumes and claims as they were in the end.
    storage: dict[str, Json] = field(default_factory=dict)
    #: By pod, plugin and node.
    scores: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)


def configuration(*, preemption: bool) -> str:
    """The default profile, without plugins that only kube-scheduler has, and without PostFilter."""
    plugins: Json = {
        "multiPoint": {
            "disabled": [
                {"name": ref.name} for ref in DEFAULT_MULTI_POINT if ref.name not in SHARED
            ]
        }
    }
    if not preemption:
        plugins["postFilter"] = {"disabled": [{"name": "*"}]}
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": 1,
            # kube-scheduler's default, which is not Stowplan's: it matters from 100 nodes on.
            "percentageOfNodesToScore": 0,
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": "{kubeconfig}", "qps": 5000, "burst": 5000},
            "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
        }
    )


async def play(
    scheduler: str,
    mixture: Mixture,
    *,
    preemption: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Play:
    """The mixture, played to kube-scheduler or to Stowplan, and an epilogue."""
    after = epilogue()
    with ControlPlane() as plane:
        plane.start_controller_manager(
            # A claim that found no volume is looked at again only then.
            "--pvclaimbinder-sync-period=1s",
            controllers="persistentvolume-binder-controller",
        )
        async with _stage(plane) as stage:
            objects = mixture.preparations + after.preparations
            await stage.prepare(objects, mixture.phases | after.phases)
            tell(f"{scheduler}: {len(objects)} objects are there")
            with _running(scheduler, plane, configuration(preemption=preemption)) as log:
                await stage.bring_nodes(mixture.nodes)
                tell(f"{scheduler}: {len(mixture.nodes)} nodes are known")
                result = Play()
                for number, pod in enumerate(mixture.pods, 1):
                    result.pods[pod["metadata"]["name"]] = await stage.place(pod)
                    if number in mixture.changes:
                        await stage.change(mixture.changes[number])
                    if number % 100 == 0 or number == len(mixture.pods):
                        tell(f"{scheduler}: {number} pods")
                await stage.collect_events(result.pods)
                await stage.bring_nodes(after.nodes)
                for act in after.acts:
                    result.woken[act.pod["metadata"]["name"]] = await stage.wake(act)
                tell(f"{scheduler}: {len(after.acts)} pods were refused and woken")
                result.storage = await stage.storage()
                result.scores = _scores(log)
    return result


def _running(scheduler: str, plane: ControlPlane, config: str) -> AbstractContextManager[Path]:
    if scheduler == STOWPLAN:
        return stowplan(plane, config)
    gates = "WatchListClient=false"
    if "PodTopologySpread" not in SHARED:
        # Opportunistic batching does nothing in the default profile, but would in one without
        # PodTopologySpread: there it saves work by not looking at all nodes.
        gates += ",OpportunisticBatching=false"
    return kube_scheduler(plane, config, f"--feature-gates={gates}", "--vmodule=schedule_one=10")


@asynccontextmanager
async def _stage(plane: ControlPlane) -> AsyncIterator[_LiveStage]:
    ca_file = str(plane.certificate_authority)
    async with session_with(plane.url, ca_file, plane.admin_token) as session:
        stage = _LiveStage(session, "default-scheduler")
        watching = asyncio.create_task(stage.watch())
        try:
            yield stage
        finally:
            watching.cancel()


class _LiveStage(Stage):
    """A whole cluster as the stage; pods of all namespaces are watched."""

    watched: ClassVar = "/api/v1/pods"

    async def prepare(self, requests: list[Request], phases: dict[str, str]) -> None:
        """Create what plugins look up, and wait until claims are what they are to be."""
        creating = [request for request in requests if request.method == "POST"]
        namespaces = [request for request in creating if request.path == "/api/v1/namespaces"]
        others = [request for request in requests if request not in creating]
        rest = [request for request in creating if request not in namespaces]
        for wave in (namespaces, rest, others):
            await asyncio.gather(
                *(self.send(request.method, request.path, request.body) for request in wave)
            )
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                if await self._are_ready(phases):
                    return
                await asyncio.sleep(0.1)

    async def _are_ready(self, phases: dict[str, str]) -> bool:
        """Whether the controller has looked at every volume and claim."""
        volumes = (await self.send("GET", "/api/v1/persistentvolumes"))["items"]
        claims = (await self.send("GET", "/api/v1/persistentvolumeclaims"))["items"]
        return all(
            volume["status"].get("phase") in ("Available", "Bound") for volume in volumes
        ) and all(claim["status"].get("phase") == phases[_key(claim)] for claim in claims)

    async def bring_nodes(self, nodes: list[Json]) -> None:
        """One by one; then each is told of again.

        kube-scheduler's view of a node keeps how many others had an image when the node itself
        last changed. With the second round it is the same for all.
        """
        for node in nodes:
            await self.send("POST", "/api/v1/nodes", node)
        for node in nodes:
            body = {"metadata": {"annotations": {"seen": "twice"}, "labels": {"seen": "twice"}}}
            await self.send("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", body)
        last = nodes[-1]
        news = f"{LAST_NEWS}-{len(nodes)}"
        offers = last["status"]["capacity"] | {news: "1"}
        status = {"capacity": offers, "allocatable": offers}
        name = last["metadata"]["name"]
        await self.change_node(name, {"status": status})
        await self._wait_for(news)

    async def _wait_for(self, news: str) -> None:
        """Until the scheduler knows the newest version of the last node, hence all of them.

        The probe does not name its node: each attempt would move the place where the search for
        nodes begins, and how many attempts it takes is a matter of timing.
        """
        amounts = {news: "1"}
        container = {
            "name": "main",
            "image": "main",
            "resources": {"requests": amounts, "limits": amounts},
        }
        probe = {
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }
        await self.pod("probe", probe)
        await self.bound("probe", {})
        await self.delete_pod("probe", {})

    async def place(self, pod: Json) -> Outcome:
        """Create a pod and wait for the scheduler's word; a refused pod is deleted at once."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        before = set(self.pods)
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.send("POST", path, pod)
        shown = await self.until(name, _is_final)
        condition = condition_of(shown) or {}
        if not node_of(shown):
            await self.send("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
            await self.gone(name)
        return Outcome(
            node=node_of(shown),
            status=condition.get("status", ""),
            reason=condition.get("reason", ""),
            message=condition.get("message", ""),
            evicted=tuple(sorted(before - set(self.pods))),
            pod=masked_object(shown),
        )

    async def change(self, change: Change) -> None:
        """Something happens to a placed pod; on the pods' one watch it is before the next pod."""
        pod = self.pods.get(change.name)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        path = f"/api/v1/namespaces/{change.namespace}/pods/{change.name}"
        if change.what == "relabel":
            await self.send("PATCH", path, {"metadata": {"labels": change.labels}})
            return
        if change.what == "linger":
            await self.send("PATCH", path, {"metadata": {"finalizers": ["example.com/later"]}})
        await self.send("DELETE", path, {"gracePeriodSeconds": 0})
        if change.what == "linger":
            await self.until(change.name, lambda pod: "deletionTimestamp" in pod["metadata"])
        else:
            await self.gone(change.name)

    async def wake(self, act: Act) -> Outcome:
        """How a pod was refused, and the node that it got after the change."""
        for helper in act.helpers:
            outcome = await self.place(helper)
            assert outcome.node, outcome.message
        name = act.pod["metadata"]["name"]
        await self.send("POST", "/api/v1/namespaces/default/pods", act.pod)
        refused = await self.until(name, is_settled)
        await self.send(act.change.method, act.change.path, act.change.body)
        try:
            woken = await self.until(name, node_of)
        except TimeoutError:
            woken = self.pods[name]
        condition = condition_of(refused) or {}
        return Outcome(
            node=node_of(woken),
            status=condition["status"],
            reason=condition.get("reason", ""),
            message=condition.get("message", ""),
            evicted=(),
            pod=masked_object(woken),
        )

    async def collect_events(self, outcomes: dict[str, Outcome]) -> None:
        """Every pod's events, once there is one for each pod that must have one."""
        wanted = {
            (name, "Scheduled" if outcome.node else "FailedScheduling")
            for name, outcome in outcomes.items()
            if not outcome.is_gated
        }
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                found: dict[tuple[str, str], Json] = {}
                for event in (await self.send("GET", _EVENTS))["items"]:
                    found.setdefault((event["regarding"].get("name", ""), event["reason"]), event)
                if wanted <= found.keys():
                    break
                await asyncio.sleep(0.1)
        for (name, reason), event in sorted(found.items(), key=lambda item: item[0]):
            if name in outcomes:
                what = (event["type"], reason, event["action"], event.get("note", ""))
                outcomes[name].events.append(what)

    async def storage(self) -> dict[str, Json]:
        found = {}
        for kind in ("persistentvolumes", "persistentvolumeclaims"):
            for item in (await self.send("GET", f"/api/v1/{kind}"))["items"]:
                found[f"{kind} {_key(item)}"] = masked_object(item)
        return found


def _key(thing: Json) -> str:
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def _is_final(pod: Json) -> bool:
    """Bound, or refused without a promise."""
    return is_settled(pod) and bool(node_of(pod) or not pod["status"].get("nominatedNodeName"))


def _scores(log: Path) -> dict[str, dict[str, dict[str, int]]]:
    """From kube-scheduler's log; Stowplan's has no such lines."""
    scores: dict[str, dict[str, dict[str, int]]] = {}
    for pod, plugin, node, score in _SCORED.findall(log.read_text(errors="replace")):
        scores.setdefault(pod, {}).setdefault(plugin, {})[node] = int(score)
    return scores
