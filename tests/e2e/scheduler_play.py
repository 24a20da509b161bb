"""Plays a scenario to whichever scheduler runs on a control plane, and records what it did.

Steps are played one at a time, and a pod is created only when the one before is bound or refused,
so that the order of decisions is fixed. What remains is a race between two watches: a scheduler
might hear of a new pod before it hears of an older change of a node. `barrier` ends it: once a pod
stands on the beacon node that needs a resource which only the beacon's newest version offers, all
older changes of nodes have been heard.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import aiohttp

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MERGE = {"Content-Type": "application/merge-patch+json"}
BEACON = "beacon"
BEACON_TAINT = {"key": "example.com/beacon", "effect": "NoSchedule"}
_PATIENCE_S = 30.0
_TIMES = {
    "lastTransitionTime",
    "lastPhaseTransitionTime",
    "startTime",
    "creationTimestamp",
    "deletionTimestamp",
}


@dataclass(frozen=True)
class Step:
    """`do` is one of the methods of `Stage`; `show` names the step in a difference."""

    do: str
    name: str = ""
    body: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.do} {self.name}"


class Stage:
    """The API server, watched, and the pods as they are now."""

    #: The pods that are watched; no two of them may have the same name.
    watched: ClassVar = PODS

    def __init__(self, session: aiohttp.ClientSession, scheduler_name: str) -> None:
        self._session = session
        self._scheduler_name = scheduler_name
        self.pods: dict[str, Json] = {}
        self._changed = asyncio.Condition()
        self._epoch = 0
        self._uids: set[str] = set()

    async def play(self, steps: list[Step]) -> list[Any]:
        """What each step showed: a pod as the scheduler left it, or nothing."""
        return [await getattr(self, step.do)(step.name, step.body) for step in steps]

    # Steps

    async def node(self, name: str, body: Json) -> None:
        metadata = {"name": name, **body.get("metadata", {})}
        await self.send("POST", "/api/v1/nodes", {**body, "metadata": metadata})

    async def change_node(self, name: str, body: Json) -> None:
        """A merge patch; what it says of the status goes to the status."""
        rest = {key: value for key, value in body.items() if key != "status"}
        if rest:
            await self.send("PATCH", f"/api/v1/nodes/{name}", rest)
        if "status" in body:
            await self.send("PATCH", f"/api/v1/nodes/{name}/status", {"status": body["status"]})

    async def delete_node(self, name: str, _: Json) -> None:
        await self.send("DELETE", f"/api/v1/nodes/{name}")

    async def barrier(self, _name: str, _: Json) -> None:
        """Wait until the scheduler has heard of every change of nodes so far."""
        self._epoch += 1
        resource = f"example.com/epoch-{self._epoch}"
        offers = {"pods": "1000", resource: "1"}
        await self.change_node(BEACON, {"status": {"capacity": offers, "allocatable": offers}})
        container = {
            "name": "main",
            "image": "main",
            "resources": {"requests": {resource: "1"}, "limits": {resource: "1"}},
        }
        await self._create("probe", {"containers": [container], "tolerations": [{**BEACON_TAINT}]})
        await self.until("probe", node_of)
        await self.delete_pod("probe", {})

    async def pod(self, name: str, body: Json) -> Json:
        """Create a pod; as it is once the scheduler (or admission) has spoken."""
        await self._create(name, body)
        return masked_object(await self.until(name, is_settled))

    async def bound(self, name: str, _: Json) -> Json:
        """Wait until a pod that was refused has found its node."""
        return masked_object(await self.until(name, node_of))

    async def change_pod(self, name: str, body: Json) -> None:
        await self.send("PATCH", f"{PODS}/{name}", body)

    async def delete_pod(self, name: str, _: Json) -> None:
        await self.send("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        await self.gone(name)

    async def forget_pending(self, name: str, _: Json) -> None:
        """Delete a pod that was refused, so that nobody tries it again."""
        if not node_of(self.pods[name]):
            await self.delete_pod(name, {})

    async def delete_if_there(self, name: str, _: Json) -> None:
        if name in self.pods:
            await self.delete_pod(name, {})

    # What remains

    async def events(self, wanted: set[tuple[str, str]]) -> dict[str, list[Any]]:
        """Every pod's events, once there are those that are wanted (pod, reason)."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                found: dict[str, list[Any]] = {}
                seen = set()
                items = (await self.send("GET", EVENTS))["items"]
                for event in sorted(items, key=lambda item: str(item["eventTime"])):
                    name = event["regarding"].get("name")
                    # Late events may still come of the scenario before, whose names were the same.
                    if name != "probe" and event["regarding"]["uid"] in self._uids:
                        # How often a pod is tried again, and told of, is a matter of timing.
                        if (name, event["reason"]) not in seen:
                            found.setdefault(name, []).append(_masked_event(event))
                        seen.add((name, event["reason"]))
                if wanted <= seen:
                    return {name: sorted(found[name], key=str) for name in found}
                await asyncio.sleep(0.1)

    async def clean(self) -> None:
        for path in (PODS, EVENTS, "/api/v1/nodes"):
            await self.send("DELETE", path, {"gracePeriodSeconds": 0})
        async with asyncio.timeout(_PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: not self.pods)

    # Inside

    async def _create(self, name: str, spec: Json) -> None:
        spec = {"schedulerName": self._scheduler_name, **spec}
        created = await self.send("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        self._uids.add(created["metadata"]["uid"])

    async def gone(self, name: str) -> None:
        async with asyncio.timeout(_PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: name not in self.pods)

    async def until(self, name: str, condition: Callable[[Json], Any]) -> Json:
        async with asyncio.timeout(_PATIENCE_S), self._changed:
            await self._changed.wait_for(lambda: name in self.pods and condition(self.pods[name]))
            return self.pods[name]

    async def send(self, method: str, path: str, body: Json | None = None) -> Json:
        headers = MERGE if method == "PATCH" else None
        async with self._session.request(method, path, json=body, headers=headers) as response:
            answer: Json = await response.json()
            assert response.status < 300, f"{method} {path}: {answer}"
            return answer

    def heard(self, pod: Json) -> None:
        """Every version of every pod, for those to whom the newest is not enough."""

    async def watch(self) -> None:
        """Follow the pods; an ended stream is a failed test."""
        async with self._session.get(
            self.watched, params={"watch": "1"}, timeout=aiohttp.ClientTimeout(total=None)
        ) as stream:
            async for line in stream.content:
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                async with self._changed:
                    if event["type"] == "DELETED":
                        self.pods.pop(name, None)
                    else:
                        self.pods[name] = event["object"]
                        self.heard(event["object"])
                    self._changed.notify_all()
        raise AssertionError("the watch of the test ended")


def session_with(url: str, ca_file: str, token: str) -> aiohttp.ClientSession:
    """Requests to an API server, and watches with long lines."""
    return aiohttp.ClientSession(
        url,
        connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_file)),
        headers={"Authorization": f"Bearer {token}"},
        read_bufsize=1 << 22,
    )


@asynccontextmanager
async def stage(url: str, ca_file: str, token: str, scheduler_name: str) -> AsyncIterator[Stage]:
    """An empty stage with its beacon; cleaned when the play is over."""
    async with session_with(url, ca_file, token) as session:
        play = Stage(session, scheduler_name)
        watching = asyncio.create_task(play.watch())
        try:
            await play.node(BEACON, {"spec": {"taints": [BEACON_TAINT]}})
            # Where the search for nodes begins depends on all attempts before, even those that were
            # made while the last stage was cleared; with a single node it begins anew.
            await play.barrier("", {})
            yield play
        finally:
            await play.clean()
            watching.cancel()


def node_of(pod: Json) -> str:
    node: str = pod["spec"].get("nodeName", "")
    return node


def condition_of(pod: Json, kind: str = "PodScheduled") -> Json | None:
    conditions = pod["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), None)


def is_settled(pod: Json) -> bool:
    return bool(node_of(pod)) or condition_of(pod) is not None


def masked_object(thing: Json) -> Json:
    masked: Json = _masked(thing)
    return masked


def _masked(value: Any) -> Any:
    """Without what two runs cannot have in common."""
    if isinstance(value, dict):
        return {
            key: "TIME" if key in _TIMES else _masked(item)
            for key, item in value.items()
            if key not in ("uid", "resourceVersion", "managedFields")
        }
    return [_masked(item) for item in value] if isinstance(value, list) else value


def _masked_event(event: Json) -> Json:
    """Everything but times, names that hold a time, and how often it was repeated."""
    regarding = {k: v for k, v in event["regarding"].items() if k not in ("uid", "resourceVersion")}
    return {
        key: event.get(key)
        for key in (
            "type",
            "reason",
            "action",
            "note",
            "reportingController",
            "reportingInstance",
            "related",
        )
    } | {"regarding": regarding, "namespace": event["metadata"]["namespace"]}
