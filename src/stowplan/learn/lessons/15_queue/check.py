"""Do failed pods pause longer and longer, and refused ones stay aside?"""

from itertools import pairwise
from typing import Any

from stowplan import SUCCESS, Node, Pod, Status, unschedulable
from stowplan.learn.checking import Mistake, play
from stowplan.learn.stage import TOLERANCE_S, PlantedCounter, Stage, needed
from stowplan.scenarios import Cluster

NODE = "node0"
PAUSES = (1, 2, 4, 8, 10, 10)
WHILE_S = 30
AT_ONCE_S = 0.2


class PlantedOnce:
    """Refuses a pod called moody at its first attempt."""

    name = "PlantedOnce"
    events: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def filter(self, pod: Pod, node: Node) -> Status:
        name = pod.metadata.name
        if not name.startswith("moody") or name in self._refused:
            return SUCCESS
        self._refused.add(name)
        return unschedulable("not at the first attempt")


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        await stage.create_nodes(NODE)
        await pauses_grow(stage)
        counter = PlantedCounter(NODE)
        stage.plugins("filters").insert(0, counter)
        await cluster.cordon(NODE)
        await cluster.sleep(1)
        await refused_pods_stay_aside(stage, counter)
        await refusals_are_those_of_the_last_attempt(stage)
        await cluster.uncordon(NODE)
        await cluster.sleep(1)
        await stage.create_pods("after0")
        if not (await stage.placed("after0"))["after0"]:
            raise Mistake("not_bound", at=stage.method("run"), pod="after0")

    play(scenario, on)


async def pauses_grow(stage: Stage) -> None:
    pop, add_failed, add_backoff = methods(stage)
    stage.api.failures["flaky0"] = len(PAUSES)
    await stage.create_pods("flaky0")
    await stage.placed("flaky0", within_s=sum(PAUSES) + 3)
    times = stage.api.times("flaky0")
    pauses = [after - before for before, after in pairwise(times)]
    if not pauses:
        after = sum(PAUSES) + 3
        raise Mistake("forgotten", at=add_failed, pod="flaky0", after=after)
    is_right = len(pauses) == len(PAUSES) and all(
        -0.1 < pause - wanted < TOLERANCE_S for pause, wanted in zip(pauses, PAUSES, strict=True)
    )
    if is_right:
        return
    told = {
        "pod": "flaky0",
        "count": len(times) - 1,
        "pauses": ", ".join(f"{pause:.1f}" for pause in pauses),
        "wanted": ", ".join(map(str, PAUSES)),
    }
    if len(pauses) > 1 and max(pauses) - min(pauses) < TOLERANCE_S:
        key = "no_pauses" if max(pauses) < AT_ONCE_S else "pauses_same"
        raise Mistake(key, at=add_backoff if key == "no_pauses" else pop, **told)
    if max(pauses) > max(PAUSES) + TOLERANCE_S:
        raise Mistake("pauses_too_long", at=add_backoff, **told)
    raise Mistake("pauses_wrong", at=add_backoff, **told)


async def refused_pods_stay_aside(stage: Stage, counter: PlantedCounter) -> None:
    _, add_failed, _ = methods(stage)
    await stage.create_pods("pod1")
    await stage.cluster.sleep(WHILE_S)
    if (count := counter.attempts["pod1"]) > 1:
        raise Mistake("in_vain", at=add_failed, pod="pod1", count=count, after=WHILE_S)
    stage.must_run()
    await must_be_refused_by(stage, "pod1", "NodeUnschedulable", "wrong_refusal")


async def refusals_are_those_of_the_last_attempt(stage: Stage) -> None:
    """Refused by one plugin, brought back by hand, and refused by the other."""
    stage.plugins("filters").append(PlantedOnce())
    await stage.cluster.uncordon(NODE)
    await stage.cluster.sleep(1)
    await stage.create_pods("moody0")
    await stage.cluster.sleep(1)
    await must_be_refused_by(stage, "moody0", "PlantedOnce", "wrong_refusal")
    await stage.cluster.cordon(NODE)
    await stage.cluster.sleep(1)
    queued = needed(stage.queue, "unschedulable").pop((await stage.pod("moody0")).uid)
    needed(stage.queue, "add")(queued)
    await stage.cluster.sleep(1)
    await must_be_refused_by(stage, "moody0", "NodeUnschedulable", "old_refusal")


async def must_be_refused_by(stage: Stage, pod: str, plugin: str, otherwise: str) -> None:
    pop, add_failed, _ = methods(stage)
    queued = needed(stage.queue, "unschedulable").get((await stage.pod(pod)).uid)
    if queued is None:
        raise Mistake("not_remembered", at=add_failed, pod=pod)
    refused_by = needed(queued, "refused_by")
    if refused_by != {plugin}:
        found = ", ".join(sorted(refused_by)) or "no plugin"
        at = pop if otherwise == "old_refusal" else add_failed
        raise Mistake(otherwise, at=at, pod=pod, wanted=plugin, found=found)


def methods(stage: Stage) -> tuple[Any, Any, Any]:
    """Those of the queue that the learner writes."""
    pop, add_failed, add_backoff = (
        needed(stage.queue, name) for name in ("pop", "add_failed", "add_backoff")
    )
    return pop, add_failed, add_backoff
