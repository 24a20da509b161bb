"""Where kube-scheduler and Stowplan play the same scenario with the same extenders.

`compared` starts one scheduler after the other from one configuration, lets each play the scenario
and compares all that came of it, pod for pod: the pod as the API server has it, its events, and
what every extender was asked, with the bodies of the requests. The scenario's pods come one at a
time, so that the order of decisions is fixed, and no two nodes are equal, so that no choice is
chance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import yaml

from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.api_access import ApiError
from tests.e2e.go_extender import GoExtender
from tests.e2e.parity import differences
from tests.e2e.scheduler_play import condition_of, is_settled, masked_object, node_of
from tests.e2e.schedulers import kube_scheduler, stowplan
from tests.waiting import wait_for

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
#: Each with more room than the one before it.
CPUS = {"a-1": 4, "a-2": 5, "b-1": 6, "b-2": 7}
COUNTED = "example.com/counted"
PRIORITIES = {"low-1": 10, "low-2": 20, "low-3": 30, "low-4": 40, "urgent": 1000}
#: In the order of their start. What the second does is compared with the first.
SCHEDULERS = (kube_scheduler, stowplan)
#: What is part of the answer to how often, or when, a pod was tried.
_TIMELY = ("conditions", "nominatedNodeName")


def configuration(extenders: Sequence[Json], ignored: Sequence[str] = ()) -> str:
    """A KubeSchedulerConfiguration with them; `ignored` is what NodeResourcesFit is to ignore."""
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": list(ignored)}}
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "parallelism": 1,
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": "{kubeconfig}", "qps": 5000, "burst": 5000},
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "pluginConfig": [fit],
                }
            ],
            "extenders": list(extenders),
        }
    )


@dataclass(frozen=True)
class Seen:
    """What came of one pod."""

    pod: Json
    events: list[list[str]]  # type, reason and message of each
    requests: dict[str, list[Json]]  # by extender; each once, however often it was repeated

    @property
    def outcome(self) -> str:
        """Where it stands, or why nowhere."""
        return node_of(self.pod) or str((condition_of(self.pod) or {}).get("message", ""))

    def asked(self, extender: str, verb: str) -> list[list[str]]:
        """The nodes of each of an extender's requests."""
        return [line["nodes"] for line in self.requests[extender] if line["verb"] == verb]

    def body(self, extender: str, verb: str) -> Json:
        """Of the one request with this verb."""
        (line,) = [line for line in self.requests[extender] if line["verb"] == verb]
        body: Json = line["body"]
        return body


Scenario = Callable[["Play"], None]


class Play:
    """One scheduler's turn: makes pods and records what comes of them."""

    def __init__(self, plane: ControlPlane, extenders: Sequence[GoExtender]) -> None:
        self._api = plane.api
        self.extenders = extenders
        self._earlier = {extender.name: len(extender.requests()) for extender in extenders}
        self._names: dict[str, str] = {}  # of pods, by UID
        self.seen: dict[str, Seen] = {}
        #: What should come of the pods, by name.
        self.expected: dict[str, str] = {}

    def pod(self, name: str, then: str, *, keep: bool = False, **asks: Any) -> None:
        """Create a pod, record what becomes of it, and remove it unless it is kept.

        `asks` is for `create` and for `becomes`.
        """
        waiting = {key: asks.pop(key) for key in ("until", "vague") if key in asks}
        self.create(name, **asks)
        self.becomes(name, then, **waiting)
        if not keep:
            self.remove(name)

    def becomes(
        self, name: str, then: str, *, until: Callable[[Json], Any] = is_settled, vague: str = ""
    ) -> None:
        """Wait for what becomes of a pod, and record it.

        `then` is the node that it should get, or why it should get none. Where the words of an
        error are another matter in Go than in Python, `vague` is a pattern for them, and ``...``
        is put in their place.
        """
        uid = self._uid(name)
        found = wait_for(
            f"the scheduler's word about {name}",
            lambda: pod if until(pod := self._api.get(f"{PODS}/{name}")) else None,
        )
        events = self._events(uid, "Scheduled" if node_of(found) else "FailedScheduling")
        requests = {
            extender.name: self._comparable(extender.requests(uid)) for extender in self.extenders
        }
        pod = json.loads(self._named(json.dumps(masked_object(found))))
        if vague:
            condition = condition_of(pod) or {}
            condition["message"] = re.sub(vague, "...", condition["message"])
            events = [[kind, why, re.sub(vague, "...", text)] for kind, why, text in events]
        self.seen[name] = Seen(pod, events, requests)
        self.expected[name] = then

    def tried_again(self, name: str, after: Callable[[], object]) -> None:
        """Wait until extenders are asked once more, because of what is done."""
        uid = self._uid(name)

        def count() -> int:
            return sum(len(extender.requests(uid)) for extender in self.extenders)

        before = count()
        after()
        wait_for(f"{name} to be tried again", lambda: count() > before)

    def lands(self, name: str, then: str, **asks: Any) -> None:
        """A pod of which only the node is of interest."""
        self.create(name, **asks)
        path = f"{PODS}/{name}"
        node = wait_for(f"{name} to be bound", lambda: node_of(self._api.get(path)))
        self.seen[name] = Seen({"spec": {"nodeName": node}}, [], {})
        self.expected[name] = then
        self.remove(name)

    def evicted(self, name: str, by: str) -> None:
        """What was said to one that had to go, the newest of this name."""
        self.seen[f"evicted by {by}"] = Seen({}, self._events(self._uid(name), "Preempted"), {})

    def outcomes(self) -> dict[str, str]:
        """What came of the pods of which something was expected."""
        return {name: self.seen[name].outcome for name in self.expected}

    def connections(self, extender: GoExtender) -> tuple[int, int]:
        """How many an extender has seen in this play, and how many requests."""
        lines = extender.requests()[self._earlier[extender.name] :]
        return len({line["from"] for line in lines}), len(lines)

    def create(
        self,
        name: str,
        *,
        cpu: str = "1",
        resource: str = "",
        rules: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A pod that nobody waits for.

        `rules` is by ``EXTENDER.RULE``. One unit of `resource` is asked for, beside `cpu`.
        """
        container = {
            "name": "main",
            "image": "example.test/main:1",
            "resources": {
                "requests": {"cpu": cpu, **({resource: "1"} if resource else {})},
                "limits": {resource: "1"} if resource else {},
            },
        }
        metadata = {"name": name, "annotations": _annotations(rules), "labels": labels or {}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        created = self._api.create(PODS, {"metadata": metadata, "spec": spec})
        self._names[created["metadata"]["uid"]] = name

    def change(self, name: str, rules: dict[str, str], **labels: str) -> None:
        """Other rules for a pod, and labels, which schedulers mind more."""
        metadata = {"annotations": _annotations(rules), "labels": labels}
        self._api.patch(f"{PODS}/{name}", {"metadata": metadata})

    def change_node(self, name: str, **labels: str | None) -> None:
        self._api.patch(f"{NODES}/{name}", {"metadata": {"labels": labels}})

    def remove(self, *names: str) -> None:
        for name in names:
            try:
                self._api.delete(f"{PODS}/{name}", grace_seconds=0)
            except ApiError as problem:
                if problem.status != 404:
                    raise

    def pods(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self._api.get(PODS)["items"]}

    def _uid(self, name: str) -> str:
        """Of the newest pod of this name."""
        return [uid for uid, other in self._names.items() if other == name][-1]

    def _events(self, uid: str, wanted: str) -> list[list[str]]:
        path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid={uid}"

        def look() -> list[list[str]] | None:
            items = self._api.get(path)["items"]
            told = {(e["type"], e["reason"], self._named(e["message"])) for e in items}
            enough = any(event["reason"] == wanted for event in items)
            return sorted(map(list, told)) if enough else None

        return wait_for(f"the event {wanted} of {self._names[uid]}", look)

    def _comparable(self, lines: list[Json]) -> list[Json]:
        """Without what two plays cannot have in common, and each once."""
        found = {}
        for line in lines:
            assert line["contentType"] == "application/json"
            body = masked_object(json.loads(self._named(json.dumps(line["body"]))))
            comparable = {
                "verb": line["verb"],
                "path": line["path"],
                "client": line.get("client", ""),
                "form": line.get("form", ""),
                "nodes": sorted(line.get("nodes", [])),
                "body": _without_order(body),
            }
            found[json.dumps(comparable, sort_keys=True)] = comparable
        return [found[key] for key in sorted(found)]

    def _named(self, text: str) -> str:
        """Names instead of what is new in every run."""
        for uid, name in self._names.items():
            text = text.replace(uid, name)
        for extender in self.extenders:
            text = text.replace(extender.url, f"<{extender.name}>")
        return text


def _annotations(rules: dict[str, str] | None) -> dict[str, str]:
    pairs = ((rule.split("."), value) for rule, value in (rules or {}).items())
    return {f"{extender}.example.com/{rule}": value for (extender, rule), value in pairs}


def _without_order(body: Json) -> Json:
    """The nodes sorted; the pod without what its earlier attempts left on it."""
    if "NodeNames" in body and body["NodeNames"] is not None:
        body = {**body, "NodeNames": sorted(body["NodeNames"])}
    if body.get("Nodes") is not None:
        items = [_as_object(node) for node in body["Nodes"]["items"]]
        body = {**body, "Nodes": {"items": sorted(items, key=lambda n: str(n["metadata"]["name"]))}}
    for victims in (body.get("NodeNameToVictims") or {}).values():
        victims["Pods"] = [_as_object(pod) for pod in victims["Pods"]]
    if "Pod" in body:
        pod = _as_object(body["Pod"])
        status = {key: value for key, value in pod["status"].items() if key not in _TIMELY}
        body = {**body, "Pod": {**pod, "status": status}}
    return body


def _as_object(thing: Json) -> Json:
    """Whether its kind is said depends on whether a list or a watch brought it."""
    return {key: value for key, value in thing.items() if key not in ("kind", "apiVersion")}


class Stage:
    """A control plane with nodes, extenders, and no scheduler yet."""

    def __init__(self, plane: ControlPlane, *extenders: GoExtender) -> None:
        self.plane = plane
        self.extenders = extenders
        for name, cpu in CPUS.items():
            plane.api.create(NODES, _node(name, cpu))
        for name, value in PRIORITIES.items():
            path = "/apis/scheduling.k8s.io/v1/priorityclasses"
            plane.api.create(path, {"metadata": {"name": name}, "value": value})

    def nodes(self) -> list[Json]:
        """As the API server has them, as far as extenders are to be told."""
        items = self.plane.api.get(NODES)["items"]
        return [_as_object(masked_object(node)) for node in items]

    def compared(
        self,
        config: str,
        scenario: Scenario,
        extenders: Sequence[GoExtender] = (),
        before: Scenario = lambda play: None,
    ) -> dict[str, Seen]:
        """What came of the scenario, the same with each scheduler.

        What is to be done `before` is done when no scheduler runs.
        """
        extenders = extenders or self.extenders
        plays: list[Play] = []
        for scheduler in SCHEDULERS:
            play = Play(self.plane, extenders)
            before(play)
            with scheduler(self.plane, config):
                self.perform(play, scenario)
            plays.append(play)
        theirs = plays[0]
        _assert_alike("expected", theirs.expected, "kube-scheduler", theirs.outcomes())
        recorded = {name: asdict(seen) for name, seen in theirs.seen.items()}
        for play in plays[1:]:
            ours = {name: asdict(seen) for name, seen in play.seen.items()}
            _assert_alike("kube-scheduler", recorded, "stowplan", ours)
        return theirs.seen

    def perform(self, play: Play, scenario: Scenario) -> None:
        """With whichever scheduler runs."""
        try:
            scenario(play)
        finally:
            play.remove(*play.pods())
        for extender in play.extenders:
            assert not extender.problems()


def _assert_alike(left: str, these: Json, right: str, those: Json) -> None:
    found = differences(these, those)
    assert not found, f"left is {left}, right is {right}:\n" + "\n".join(found)


@contextmanager
def budget(stage: Stage, name: str, **labels: str) -> Iterator[None]:
    """A disruption budget that allows nothing."""
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    stage.plane.api.create(path, {"metadata": {"name": name}, "spec": spec})
    try:
        yield
    finally:
        stage.plane.api.delete(f"{path}/{name}")


def _node(name: str, cpu: int) -> Json:
    """With facts that no scheduler looks at, but an extender may."""
    offers = {"cpu": str(cpu), "memory": "16Gi", "pods": "110"}
    if name in ("a-2", "b-1"):
        offers[COUNTED] = "2"
    return {
        "metadata": {
            "name": name,
            "labels": {"row": name[0], "place": name},
            "annotations": {"example.com/serial": f"№ {name}"},
        },
        "spec": {"podCIDR": f"10.0.{cpu}.0/24", "providerID": f"test://{name}"},
        "status": {
            "capacity": offers,
            "allocatable": offers,
            "addresses": [{"type": "InternalIP", "address": f"10.1.0.{cpu}"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": [{"names": [f"example.test/{name}:1"], "sizeBytes": 1000 + cpu}],
            "nodeInfo": {
                "machineID": name,
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "6.1",
                "osImage": "test",
                "containerRuntimeVersion": "test://1",
                "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
