"""The cluster on which a mixture is played: brings nodes and pods, and sees what becomes of them.

Part of it is what kubelets do: pods that are bound start, and pods that are evicted for another end
when the play has seen them go. All by what the watch says, so that nothing depends on timing.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import aiohttp

from stowplan.clock import rfc3339
from tests.e2e.live_mixture import Change
from tests.e2e.live_nodes import LAST_NEWS
from tests.e2e.live_storage import Request
from tests.e2e.live_wakeups import Act
from tests.e2e.scheduler_play import Stage, condition_of, is_settled, masked_object, node_of

Json = dict[str, Any]

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST_START = 1_700_000_000
_EVENTS = "/apis/events.k8s.io/v1/events"
_PATIENCE_S = 60.0


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
    #: The nodes that were promised to it: by preemption, or while its volumes are made ready.
    nominated: tuple[str, ...] = ()
    #: The condition with which it preempted others.
    refusal: Json = field(default_factory=dict)
    #: By name, pods that the scheduler evicted for it, as they were when they went.
    victims: dict[str, Json] = field(default_factory=dict)
    #: (type, reason, action, note) of each event, the first of each reason. What an event is
    #: related to is left out: kube-scheduler 1.36 fails to name the pod that preempted another.
    events: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def has_preempted(self) -> bool:
        return bool(self.refusal)

    @property
    def is_gated(self) -> bool:
        return self.reason == "SchedulingGated"


class LiveStage(Stage):
    """A whole cluster as the stage; pods of all namespaces are watched."""

    watched: ClassVar = "/api/v1/pods"

    def __init__(
        self, session: aiohttp.ClientSession, scheduler_name: str, *, leaving_takes_s: float = 0.0
    ) -> None:
        super().__init__(session, scheduler_name)
        self._leaving_takes_s = leaving_takes_s
        #: By pod, the first version with the scheduler's word, and all nodes promised to it.
        self._first_words: dict[str, Json] = {}
        self._nominations: dict[str, list[str]] = {}
        #: By pod, the last version before it went, of those that the scheduler evicted.
        self._victims: dict[str, Json] = {}
        self._started = 0

    def heard(self, pod: Json) -> None:
        name, nominated = pod["metadata"]["name"], pod["status"].get("nominatedNodeName")
        if is_settled(pod):
            self._first_words.setdefault(name, pod)
        if nominated and nominated not in self._nominations.setdefault(name, []):
            self._nominations[name].append(nominated)
        if _is_leaving(pod) and condition_of(pod, "DisruptionTarget") is not None:
            self._victims.setdefault(name, pod)

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
        before, victims = set(self.pods), set(self._victims)
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.send("POST", path, pod)
        await self._make_room(name)
        shown = self.pods[name]
        condition = condition_of(shown) or {}
        if node_of(shown):
            await self._start(pod)
        else:
            await self.send("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
            await self.gone(name)
        first = self._first_words[name]
        has_preempted = not node_of(first) and "nominatedNodeName" in first["status"]
        return Outcome(
            node=node_of(shown),
            status=condition.get("status", ""),
            reason=condition.get("reason", ""),
            message=condition.get("message", ""),
            evicted=tuple(sorted(before - set(self.pods))),
            pod=masked_object(shown),
            nominated=tuple(self._nominations.get(name, ())),
            refusal=masked_object(condition_of(first) or {}) if has_preempted else {},
            victims={
                victim: masked_object(self._victims[victim])
                for victim in sorted(self._victims.keys() - victims)
            },
        )

    async def _start(self, pod: Json) -> None:
        """As kubelets do, but each pod a second after the one before.

        Of pods with the same priority those are evicted that began last. On the pods' one watch it
        is before the next pod.
        """
        self._started += 1
        began = rfc3339(_FIRST_START + self._started)
        await self.send("PATCH", f"{_path(pod)}/status", {"status": {"startTime": began}})

    async def _make_room(self, name: str) -> None:
        """Until a pod is bound or refused; pods that leave the node promised to it may go.

        That is the kubelets' part, and that of whoever's finalizer keeps a pod.
        """
        going: set[str] = set()

        def leaving() -> list[Json]:
            nodes = self._nominations.get(name, ())
            return [
                pod
                for other, pod in self.pods.items()
                if other not in going and node_of(pod) in nodes and _is_leaving(pod)
            ]

        async with asyncio.timeout(_PATIENCE_S):
            while True:
                async with self._changed:
                    await self._changed.wait_for(
                        lambda: leaving() or (name in self.pods and _is_final(self.pods[name]))
                    )
                pods = leaving()
                if not pods:
                    break
                await asyncio.sleep(self._leaving_takes_s)
                for pod in pods:
                    going.add(pod["metadata"]["name"])
                    await self._let_go(pod)
        for other in going:
            await self.gone(other)

    async def _let_go(self, pod: Json) -> None:
        if pod["metadata"].get("finalizers"):
            # Its grace is over: without finalizers it is gone.
            await self.send("PATCH", _path(pod), {"metadata": {"finalizers": None}})
        else:
            await self.send("DELETE", _path(pod), {"gracePeriodSeconds": 0})

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
        for name, outcome in outcomes.items():
            wanted |= {(victim, "Preempted") for victim in outcome.victims}
            if outcome.has_preempted:
                wanted.add((name, "FailedScheduling"))
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
                note = _UID.sub("UID", event.get("note", ""))
                what = (event["type"], reason, event["action"], note)
                outcomes[name].events.append(what)

    async def storage(self) -> dict[str, Json]:
        found = {}
        for kind in ("persistentvolumes", "persistentvolumeclaims"):
            for item in (await self.send("GET", f"/api/v1/{kind}"))["items"]:
                found[f"{kind} {_key(item)}"] = masked_object(item)
        return found


def _key(thing: Json) -> str:
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _is_leaving(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_final(pod: Json) -> bool:
    """Bound, or refused without a promise."""
    return is_settled(pod) and bool(node_of(pod) or not pod["status"].get("nominatedNodeName"))
