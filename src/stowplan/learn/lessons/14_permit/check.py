"""Is each pod held for as long as its node's digit says, and no other pod because of it?"""

import asyncio
from typing import Any

from stowplan import SUCCESS, Pod, Status, wait
from stowplan.learn.checking import Mistake, call, play
from stowplan.learn.stage import TOLERANCE_S, Stage, needed
from stowplan.scenarios import Cluster

NODES = ("node0", "node1", "node3", "node9")
#: The one that waits longest comes first.
DELAYS = {"pod9": 9, "pod1": 1, "pod0": 0}
PATIENCE_S = 14


class PlantedHolder:
    """Holds pods called stuck for ever, and those called both for five seconds."""

    name = "PlantedHolder"
    seconds = 5

    def __init__(self, waiting: dict[str, Any]) -> None:
        self._waiting = waiting

    def permit(self, pod: Pod, node: str) -> Status:
        if pod.metadata.name.startswith("both"):
            asyncio.get_running_loop().call_later(self.seconds, self.allow, pod.uid)
            return wait()
        return wait() if pod.metadata.name.startswith("stuck") else SUCCESS

    def allow(self, uid: str) -> None:
        if uid in self._waiting:
            self._waiting[uid].allow(self.name)


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        await stage.create_nodes(*NODES)
        await each_pod_waits_for_itself(stage)
        waiting = needed(stage.scheduler, "waiting")
        stage.plugins("permits").append(PlantedHolder(waiting))
        await time_is_up(stage)
        await both_must_allow(stage)
        if waiting:
            wait_on_permit = stage.method("wait_on_permit")
            raise Mistake("still_waiting", at=wait_on_permit, count=len(waiting))

    play(scenario, on)


async def each_pod_waits_for_itself(stage: Stage) -> None:
    began = stage.cluster.now()
    await stage.create_pods(*DELAYS)
    placed = await stage.placed(*DELAYS, within_s=PATIENCE_S)
    permit = needed(stage.plugin("permits", "NodeNumber"), "permit")
    for pod, wanted in sorted(DELAYS.items()):
        node = f"node{wanted}"
        times = stage.api.times(pod)
        if not times:
            told = {"pod": pod, "node": node, "wanted": wanted, "after": PATIENCE_S}
            raise Mistake("never_allowed", at=permit, **told)
        if placed[pod] != node:
            told = {"pod": pod, "node": placed[pod], "favourite": node}
            raise Mistake("wrong_node", at=stage.method("schedule_one"), **told)
        took = times[0] - began
        told = {"pod": pod, "node": node, "wanted": wanted, "took": f"{took:.1f}"}
        if took < wanted - 0.1:
            answer = call(permit, await stage.pod(pod), node)
            if not isinstance(answer, Status) or not answer.is_wait:
                said = answer.code.label if isinstance(answer, Status) else repr(answer)
                raise Mistake("not_held", at=permit, answer=said, **told)
            is_at_once = took < TOLERANCE_S
            at = stage.method("wait_on_permit") if is_at_once else permit
            raise Mistake("not_waited" if is_at_once else "wrong_delay", at=at, **told)
        if took > wanted + TOLERANCE_S:
            others = [other for other in DELAYS if DELAYS[other] > wanted]
            if others:
                raise Mistake("had_to_wait", at=stage.method("run"), other=others[0], **told)
            raise Mistake("wrong_delay", at=permit, **told)


async def time_is_up(stage: Stage) -> None:
    began = stage.cluster.now()
    await stage.create_pods("stuck0")
    node = (await stage.placed("stuck0", within_s=PATIENCE_S))["stuck0"]
    if node:
        took = f"{stage.api.times('stuck0')[0] - began:.1f}"
        told = {"pod": "stuck0", "node": node, "took": took}
        raise Mistake("late_is_fine", at=stage.method("wait_on_permit"), **told)


async def both_must_allow(stage: Stage) -> None:
    began = stage.cluster.now()
    await stage.create_pods("both3")
    await stage.placed("both3", within_s=PATIENCE_S)
    times = stage.api.times("both3")
    told: dict[str, Any] = {"pod": "both3", "first": 3, "second": PlantedHolder.seconds}
    wait_on_permit = stage.method("wait_on_permit")
    if not times:
        told = {"pod": "both3", "node": "node3", "wanted": 5, "after": PATIENCE_S}
        raise Mistake("never_allowed", at=wait_on_permit, **told)
    took = times[0] - began
    if took < PlantedHolder.seconds - 0.1:
        raise Mistake("one_of_two", at=wait_on_permit, took=f"{took:.1f}", **told)
