"""Our answers to questions about devices, in the form in which the oracle gives its own.

Beside what `stowplan decide` says: which devices Reserve allocates on every feasible node, what
PreEnqueue and PostFilter say, and which node the live scheduler's cycle chooses. A pod can be held
between Reserve and PreBind, so that its claims are in flight for those that come next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan.api.device_objects import ResourceClaim
from stowplan.api.objects import Pod
from stowplan.framework.cycle import Cycle
from stowplan.framework.profile import Profile
from stowplan.framework.status import SUCCESS, Status
from stowplan.judge import Stream
from stowplan.judge.configuration import Configuration
from stowplan.judge.given_cluster import GivenCluster
from stowplan.judge.objects import Thing
from stowplan.judge.verdicts import verdicts
from stowplan.plugins.dra.facts import DeviceFacts
from stowplan.scheduler.cycle import decide
from stowplan.scheduler.decision import Decision
from tests.parity.choosing import room, told
from tests.parity.compare import Difference, difference
from tests.parity.generate.dice import Json

NAME = "DynamicResources"
#: Members of a line that `stowplan decide` does not know.
_OURS = ("devices", "hold", "release", "choose")


def device_difference(ours: Json, theirs: Json) -> Difference | None:
    """None if the answers say the same, also about devices."""
    found = difference(ours, theirs)
    if found is not None or "error" in ours:
        return found
    we, they = _comparable(ours), _comparable(theirs)
    for name in ("preenqueue", "nodes", "postfilter"):
        if we.get(name) != they.get(name):
            lines = [f"we say    {we.get(name)}", f"upstream  {they.get(name)}"]
            return Difference(f"devices: {name}", lines)
    return None


def _comparable(answer: Json) -> Json:
    """What an answer says of devices. A claim of extended resources that a device plugin serves has
    none: upstream has it in flight all the same.
    """
    said: Json = _pruned(answer.get("devices") or {})
    nodes = {
        node: [one for one in allocated if "allocation" in one or "error" in one]
        for node, allocated in said.pop("nodes", {}).items()
    }
    said["nodes"] = {node: allocated for node, allocated in nodes.items() if allocated}
    return said


def _pruned(value: Any) -> Any:
    """The value without empty members, which Go leaves out by rules of its own."""
    if isinstance(value, dict):
        pruned = {name: _pruned(inner) for name, inner in value.items()}
        return {name: inner for name, inner in pruned.items() if inner not in (None, [], {}, "")}
    return [_pruned(inner) for inner in value] if isinstance(value, list) else value


@dataclass
class _Held:
    """A pod between Reserve and PreBind."""

    plugin: Any
    cycle: Cycle
    pod: Pod
    node: str


class DeviceStream(Stream):
    """A stream of lines about devices."""

    def __init__(self) -> None:
        super().__init__(check=False)
        self._held: list[_Held] = []
        self._cursor = 0
        self._node_to_hold = ""

    def respond(self, line: Json) -> Json:
        """The answer to a line of a history."""
        self._node_to_hold = line.get("hold", "")
        for one in [one for one in self._held if one.pod.uid in line.get("release", ())]:
            self._held.remove(one)
            one.plugin.unreserve(one.cycle, one.pod, one.node)
        start = self._cursor
        plain = {name: value for name, value in line.items() if name not in _OURS}
        said = self.answer(plain)
        if "error" in said:
            # The oracle does not choose where a plugin breaks.
            self._cursor = start
        table = self._cluster.cache.table
        order = [table.names[row] for row in table.order.tolist()]
        return {"choices": [], **said, "order": order, "start": start}

    def _go_back_to(self, before: object) -> None:
        """Keep what a line changed although it failed, as the oracle does."""

    def _judged(
        self, cluster: GivenCluster, pod: Thing, profile: Profile, config: Configuration
    ) -> Json:
        def judged() -> Decision:
            return cluster.judge(pod, profile, config.serves)

        said = verdicts(judged())
        plugin: Any = profile.plugins[NAME]
        said["devices"] = _devices(judged, plugin, cluster.cache.catalog.shared(DeviceFacts))
        info = cluster.asked(pod)
        start, said["choices"] = self._cursor, []
        for _ in range(2):
            choice = decide(cluster.cache.table, info, profile, cursor=start)
            said["choices"].append(told(choice) | room(choice, cluster))
            self._cursor = choice.cursor
        if self._node_to_hold:
            cycle = judged().cycle
            refused = plugin.reserve(cycle, info.pod, self._node_to_hold)
            assert refused is None, refused
            self._held.append(_Held(plugin, cycle, info.pod, self._node_to_hold))
        return said


def _devices(judged: Callable[[], Decision], plugin: Any, facts: DeviceFacts) -> Json:
    """`judged` decides anew: a decision is no longer good when devices were reserved."""
    decision = judged()
    table, pod = decision.cycle.table, decision.cycle.pod
    said: Json = {"preenqueue": _verdict(plugin.pre_enqueue(pod))}
    if decision.scores is not None:
        names = [table.names[row] for row in decision.scores.rows.tolist()]
        said["nodes"] = {name: _allocated_on(name, judged().cycle, plugin, facts) for name in names}
    elif len(table):
        answer = plugin.post_filter(decision.cycle, decision.diagnosis)
        said["postfilter"] = _verdict(getattr(answer, "status", answer))
    return said


def _allocated_on(node: str, cycle: Cycle, plugin: Any, facts: DeviceFacts) -> list[Json]:
    before = set(facts.in_flight)
    refused = plugin.reserve(cycle, cycle.pod, node)
    try:
        if refused is not None:
            return [{"claim": "", "error": _verdict(refused)}]
        claims = [claim for uid, claim in facts.in_flight.items() if uid not in before]
        return [_allocated(claim) for claim in claims]
    finally:
        plugin.unreserve(cycle, cycle.pod, node)


def _allocated(claim: ResourceClaim) -> Json:
    allocation = _plain(claim.status.allocation)
    for result in allocation.get("devices", {}).get("results", ()):
        if result.get("shareID"):
            # It is random.
            result["shareID"] = "share"
    said: Json = {"claim": claim.metadata.name, "allocation": allocation}
    if (claim.metadata.annotations or {}).get("resource.kubernetes.io/extended-resource-claim"):
        said["requests"] = _plain(claim.spec.devices.requests)
    return said


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _verdict(status: Status | None) -> Json:
    status = status or SUCCESS
    return {"code": status.code.label, "reasons": list(status.reasons)}
