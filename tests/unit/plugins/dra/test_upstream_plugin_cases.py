"""Upstream's own tables of DynamicResources, recorded by `python -m tools.device_tables`.

Every case whose result the default feature gates give is replayed: each call of the plugin must
return upstream's status, and leave the claims of the API server and those in flight as upstream's
does.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from stowplan.api.device_objects import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.api.objects import Node, Pod, Wire
from stowplan.api.resources import PODS, Resource
from stowplan.api.transport import Lane
from stowplan.clock import VirtualClock
from stowplan.cluster.views import NodeView
from stowplan.config.decode import decode
from stowplan.config.feature_gates import FeatureGates
from stowplan.config.plugin_args import DynamicResourcesArgs
from stowplan.errors import ApiError, PluginError
from stowplan.framework.forms import FilterStep
from stowplan.framework.status import SUCCESS, Status, error
from stowplan.plugins.dra.hints import DeviceHints
from stowplan.queue.events import Hint
from tests.unit.plugins.dra.device_kit import Scene, Server

Json: TypeAlias = dict[str, Any]
DATA = Path(__file__).parents[3] / "data/dra/plugin_cases.jsonl.gz"
ALL: list[Json] = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]

#: Cases that need a gate off its default, with that gate; docs/parity.md counts them.
GATED = {
    "DRA-disabled": "DynamicResourceAllocation",
    "claim-with-prioritized-list-feature-disabled": "DRAPrioritizedList",
    "dont-add-allocation-timestamp": "DRADeviceBindingConditions",
    "request-admin-access-without-DRAAdminAccess-featuregate": "DRAAdminAccess",
    "tainted-device-disabled": "DRADeviceTaints",
    "timeout_disabled": "DRASchedulerFilterTimeout",
    **dict.fromkeys(
        (
            "node-allocatable-resource-capacitykey",
            "node-allocatable-resource-capacitykey-and-multiplier",
            "node-allocatable-resource-insufficient-resources-with-multiplier",
            "node-allocatable-resource-insufficient-with-capacityKey",
            "node-allocatable-resource-multiplier",
        ),
        "DRANodeAllocatableResources",
    ),
    **dict.fromkeys(
        (
            "bind-podgroup-failure",
            "podgroup-claim-reference",
            "podgroup-claim-template",
            "podgroup-with-resources",
            "postfilter-deallocate-podgroup",
            "postfilter-skip-unreserve-podgroup-other-claim-deallocated",
            "postfilter-skip-unreserve-podgroup-when-pods-active",
            "postfilter-unreserve-podgroup",
            "reserved-okay-podgroup",
        ),
        "DRAWorkloadResourceClaims",
    ),
}
#: The caller of our Filter cancels it by not calling it again.
CANCELLED = {"canceled"}
SKIPPED = GATED.keys() | CANCELLED
#: Their claims have a zero time of allocation, which JSON does not show.
UNTIMED = {
    "bound-claim-with-succeeded-binding-conditions",
    "multi-claims-binding-conditions-all-success",
}
#: Not called for deletions.
UNCALLED = {"skip-deletes"}
_FILTERING = 'running "DynamicResources" filter plugin: '
CASES = {
    case["name"]: case for case in ALL if case["table"] == "plugin" and case["name"] not in SKIPPED
}
HINTS = [case for case in ALL if case["table"] != "plugin" and case["name"] not in UNCALLED]


class Ticking(VirtualClock):
    """A clock that moves when it is read, and by the time that is waited for, so nothing waits."""

    def monotonic(self) -> float:
        self.advance(1e-6)
        return super().monotonic()

    def ring(self) -> None:
        """Wake nobody."""

    async def wait(self, timeout_s: float) -> bool:
        self.advance(timeout_s)
        return True


class Storage(Server):
    """An API server that also creates and deletes claims, and knows the pod's status."""

    def __init__(self, case: Json, *claims: ResourceClaim) -> None:
        super().__init__(*claims)
        self._case = case
        self.pod_status: Json = {}

    async def create(
        self,
        resource: Resource[Any],
        obj: Wire | Mapping[str, Any] | bytes,
        *,
        namespace: str = "",
        subresource: str = "",
        name: str = "",
        lane: Lane = Lane.BIND,
        timeout_s: float = 30.0,
    ) -> bytes:
        if self._case["reactors"]:
            raise ApiError("claim creation errors")
        assert isinstance(obj, Mapping)
        metadata = {**obj["metadata"], "uid": "created", "resourceVersion": "7"}
        metadata["name"] = f"{metadata['generateName']}0"
        wire = msgspec.json.encode({**obj, "metadata": metadata})
        made = msgspec.json.decode(wire, type=ResourceClaim)
        self.store(made)
        for scene in self.scenes:
            scene.put(made)
        return wire

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        patch: Mapping[str, Any] | list[Any] | bytes,
        **more: Any,
    ) -> bytes:
        if resource is not PODS:
            return await super().patch(resource, name, patch, **more)
        if self._case["failPatch"]:
            raise ApiError("patch error")
        assert isinstance(patch, Mapping)
        self.pod_status |= patch["status"]
        return b""

    async def delete(self, resource: Resource[Any], name: str, **more: Any) -> None:
        del self.claims[name]
        for scene in self.scenes:
            scene.remove(name)


class Replay:
    """One case, call by call."""

    def __init__(self, case: Json) -> None:
        self.case = case
        self.pod = msgspec.convert(case["pod"], Pod)
        nodes = [msgspec.convert(node, Node) for node in case["nodes"]]
        # As they are stored: with UID and version.
        stored = [_claim(wire) for wire in case["steps"][0].get("claims", ())]
        things: list[Any] = [
            *stored,
            *(msgspec.convert(wire, DeviceClass) for wire in case.get("classes", ())),
            *(
                msgspec.convert(one["object"], ResourceSlice)
                for one in case.get("objects", ())
                if one["kind"] == "ResourceSlice"
            ),
        ]
        args = {name[0].lower() + name[1:]: value for name, value in case.get("args", {}).items()}
        clock = Ticking(epoch=datetime.fromisoformat(case["now"]).timestamp())
        self.at = Scene(
            nodes,
            *things,
            server=Storage(case, *stored),
            args=decode(args, DynamicResourcesArgs, []),
            clock=clock,
        )
        self.at.handle.wakeup = lambda: clock
        for wire in case.get("inFlight", ()):
            self.at.facts.reserve(_claim(wire))
        self.cycle = self.at.cycle(self.pod)
        self.node = nodes[0].metadata.name
        self.scores: dict[str, int] = {}

    async def call(self, step: str) -> Status:
        """What the plugin answers to a step."""
        plugin, pod = self.at.plugin, self.pod
        point, _, node = step.partition("/")
        match point:
            case "PreEnqueue":
                return plugin.pre_enqueue(pod) or SUCCESS
            case "prefilter":
                return plugin.pre_filter(self.cycle) or SUCCESS
            case "filter":
                row = self.at.cache.table.row_of[node]
                try:
                    return FilterStep(plugin).status_of_row(self.cycle, row)
                except PluginError as problem:
                    return error(str(problem).removeprefix(_FILTERING))
            case "score":
                table = self.at.cache.table
                view = NodeView(table, table.row_of[node])
                self.scores[node] = plugin.score(pod, view, self.cycle)
            case "reserve":
                if self.scores:
                    self.node = max(self.scores, key=lambda name: self.scores[name])
                return plugin.reserve(self.cycle, pod, self.node) or SUCCESS
            case "prebind":
                answer = await plugin.pre_bind(self.cycle, pod, self.node)
                return answer or SUCCESS
            case "unreserveBeforePreBind" | "unreserverAfterBindFailure":
                plugin.unreserve(self.cycle, pod, self.node)
                await self.at.settle()
            case "postfilter":
                found = plugin.post_filter(self.cycle, None)
                if isinstance(found, Status):
                    return found
                if found.effect is not None:
                    await found.effect()
                return found.status
        return SUCCESS


@pytest.mark.parametrize("name", sorted(CASES))
async def test_upstreams_case(name: str) -> None:
    case = CASES[name]
    replay = Replay(case)
    for step in case["steps"]:
        if step["step"] == "prepare":
            for wire in step["claims"]:
                replay.at.server.store(_claim(wire))
                replay.at.put(_claim(wire))
            continue
        status = await replay.call(step["step"])
        said = (status.code.label, list(status.reasons))
        assert said == (step["code"], step.get("reasons", [])), step["step"]
        stored = [replay.at.server.claim(name) for name in sorted(replay.at.server.claims)]
        timed = name not in UNTIMED
        expected = _plain(map(_claim, step.get("claims", ())), timed=timed)
        assert _plain(stored, timed=timed) == expected, step["step"]
        in_flight = list(replay.at.facts.in_flight.values())
        assert _plain(in_flight) == _plain(map(_claim, step.get("inFlight", ()))), step["step"]
        if status.code.label == "Skip":
            break
    assert replay.scores == (case.get("scores", {}) if replay.scores else {})


@pytest.mark.parametrize("case", HINTS, ids=lambda case: f"{case['table']}: {case['name']}")
def test_upstreams_hint(case: Json) -> None:
    at = Scene([], *(_claim(wire) for wire in case.get("claims", ())))
    hints = DeviceHints(at.facts)
    kind: Any = ResourceClaim if case["table"] == "hints of claim" else Pod
    ask = hints.after_claim if kind is ResourceClaim else hints.after_pod
    old, new = (_read(case.get(which), kind) for which in ("old", "new"))
    if kind is ResourceClaim and isinstance(new, ResourceClaim):
        at.put(new)
    wanted = {"Queue": Hint.QUEUE, "QueueSkip": Hint.SKIP}[case["hint"]]
    assert ask(msgspec.convert(case["pod"], Pod), old, new) is wanted


def test_every_case_is_replayed_or_skipped_for_a_reason() -> None:
    names = {case["name"] for case in ALL if case["table"] == "plugin"}
    assert len(names) == 86
    assert names == CASES.keys() | SKIPPED
    assert len(CASES) == 65


@pytest.mark.parametrize("name", GATED)
def test_a_skipped_case_has_its_gate_off_its_default(name: str) -> None:
    """As upstream's test sets it; so a default of 1.36.3 that changes is found, too."""
    (case,) = (each for each in ALL if each["table"] == "plugin" and each["name"] == name)
    gate = GATED[name]
    assert case["features"][f"Enable{gate}"] is not FeatureGates().is_enabled(gate)


def _claim(wire: Json) -> ResourceClaim:
    return msgspec.convert(wire, ResourceClaim)


def _read(wire: Any, kind: Any) -> Any:
    return msgspec.convert(wire, kind) if isinstance(wire, dict) else wire


def _plain(claims: Any, *, timed: bool = True) -> list[Json]:
    """Claims without what upstream's test leaves out, too: UID, version, time, and share IDs."""
    plain = []
    for claim in claims:
        wire = _pruned(msgspec.to_builtins(claim))
        for name in ("uid", "resourceVersion"):
            wire["metadata"].pop(name, None)
        allocation = wire.get("status", {}).get("allocation", {})
        if allocation.pop("allocationTimestamp", None) and timed:
            allocation["allocationTimestamp"] = "some time"
        for result in allocation.get("devices", {}).get("results", ()):
            if "shareID" in result:
                result["shareID"] = "share"
        plain.append(wire)
    return sorted(plain, key=lambda wire: str(wire["metadata"]["name"]))


def _pruned(value: Any) -> Any:
    """The value without empty members, which Go leaves out by rules of its own."""
    if isinstance(value, dict):
        pruned = {name: _pruned(inner) for name, inner in value.items()}
        return {name: inner for name, inner in pruned.items() if inner not in (None, "", {}, [], 0)}
    return [_pruned(inner) for inner in value] if isinstance(value, (list, tuple)) else value
