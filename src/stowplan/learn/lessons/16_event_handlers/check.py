"""Do events wake the pods that they may help, and no others?"""

from typing import Any

from stowplan import SUCCESS, Node, Pod, Status, unschedulable
from stowplan.learn.checking import Mistake, play
from stowplan.learn.stage import PlantedCounter, Stage, needed
from stowplan.scenarios import Cluster

CORDONED = tuple(f"node{number}" for number in range(9))
NEW = "node10"
ANOTHER = "node20"
#: NodeNumber holds no pod that goes there.
FIRST = "node0"


class PlantedPicky:
    """Refuses pods called picky, and waits for events that never happen."""

    name = "PlantedPicky"
    events = frozenset({"Planted/Event"})

    def filter(self, pod: Pod, node: Node) -> Status:
        is_picky = pod.metadata.name.startswith("picky")
        return unschedulable("pod(s) were picky") if is_picky else SUCCESS


class Told:
    """The events that the queue was told."""

    def __init__(self, queue: Any) -> None:
        self.events: set[str] = set()
        self._move = needed(queue, "move")
        queue.move = self._listen

    def _listen(self, event: str) -> None:
        self.events.add(event)
        self._move(event)


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        told = Told(stage.queue)
        counter = PlantedCounter(FIRST)
        stage.plugins("filters").insert(0, counter)
        await the_original_scenario(stage, told)
        await stage.cluster.cordon(NEW)
        await an_uncordoned_node(stage, told)
        await the_pause_before(stage)
        await other_news(stage, counter)

    play(scenario, on)


async def the_original_scenario(stage: Stage, told: Told) -> None:
    cluster = stage.cluster
    await stage.create_nodes(*CORDONED, unschedulable=True)
    cluster.say("all nodes created")
    await stage.create_pods("pod1")
    cluster.say("pod1 created")
    if node := (await stage.placed("pod1"))["pod1"]:
        raise Mistake("bound_too_early", at=stage.method("run_filters"), pod="pod1", node=node)
    cluster.say("pod1 is not bound yet")
    told.events.clear()
    await cluster.create_node(NEW)
    cluster.say(f"{NEW} created")
    node = (await stage.placed("pod1", within_s=5))["pod1"]
    if not node or not is_heard(stage, told, "Node/Add"):
        what = f"{NEW} was added"
        say_why(stage, told, "pod1", what=what, event="Node/Add", handler="add_node")
    must_be(stage, "pod1", node, NEW)
    cluster.say(f"pod1 is bound to {node}")
    if (await stage.pod("pod1")).uid in needed(stage.queue, "unschedulable"):
        raise Mistake("still_there", at=their_move(stage), pod="pod1", node=node)


async def an_uncordoned_node(stage: Stage, told: Told) -> None:
    await stage.create_pods("pod2")
    if node := (await stage.placed("pod2"))["pod2"]:
        raise Mistake("bound_too_early", at=stage.method("run_filters"), pod="pod2", node=node)
    told.events.clear()
    await stage.cluster.uncordon(FIRST)
    node = (await stage.placed("pod2", within_s=3))["pod2"]
    if not node or not is_heard(stage, told, "Node/Update"):
        what = f"{FIRST} was uncordoned"
        say_why(stage, told, "pod2", what=what, event="Node/Update", handler="update_node")
    must_be(stage, "pod2", node, FIRST)


async def the_pause_before(stage: Stage) -> None:
    cluster = stage.cluster
    await cluster.cordon(FIRST)
    await cluster.sleep(1)
    failed_at = cluster.now()
    await stage.create_pods("pod3")
    await cluster.sleep(0.2)
    news = cluster.now() - failed_at
    await cluster.uncordon(FIRST)
    node = (await stage.placed("pod3", within_s=5))["pod3"]
    must_be(stage, "pod3", node, FIRST)
    tried = stage.api.times("pod3")[0] - failed_at
    if tried < 0.9:
        said = {"pod": "pod3", "news": f"{news:.1f}", "tried": f"{tried:.1f}"}
        raise Mistake("skips_backoff", at=their_move(stage), **said)


async def other_news(stage: Stage, counter: PlantedCounter) -> None:
    cluster, picky = stage.cluster, PlantedPicky()
    stage.plugins("filters").append(picky)
    needed(stage.queue, "events")[picky.name] = picky.events
    # With all nodes open no other plugin refuses it.
    for name in (*CORDONED, NEW):
        await cluster.uncordon(name)
    await cluster.sleep(1)
    await stage.create_pods("picky1")
    await cluster.sleep(2)
    await cluster.create_node(ANOTHER)
    for name in (*CORDONED, NEW, ANOTHER):
        await cluster.cordon(name)
    await cluster.sleep(15)
    if (count := counter.attempts["picky1"]) > 1:
        raise Mistake("wakes_everybody", at=their_move(stage), pod="picky1", count=count)

    await stage.create_pods("pod4")
    await cluster.sleep(2)
    before = counter.attempts["pod4"]
    report = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "as before"}
    await cluster.patch("Node", FIRST, {"status": {"conditions": [report]}})
    await cluster.sleep(15)
    if (count := counter.attempts["pod4"]) > before:
        said = {"node": FIRST, "pod": "pod4", "count": count}
        raise Mistake("heartbeat", at=stage.method("update_node"), **said)
    stage.must_run()


def must_be(stage: Stage, pod: str, node: str, wanted: str) -> None:
    if not node:
        told = {"pod": pod, "what": f"{wanted} was opened", "after": 5}
        raise Mistake("not_tried_soon", at=their_move(stage), **told)
    if node != wanted:
        raise Mistake(
            "wrong_node", at=stage.method("run_filters"), pod=pod, node=node, wanted=wanted
        )


def is_heard(stage: Stage, told: Told, event: str) -> bool:
    """A new node changes soon after it came, so that another event may have helped the pod."""
    plugin = stage.plugin("filters", "NodeUnschedulable")
    return event in told.events and event in needed(plugin, "events")


def say_why(stage: Stage, told: Told, pod: str, *, what: str, event: str, handler: str) -> None:
    """The handler, the plugin's wish, or the move: which of them is missing?"""
    if event not in told.events:
        at = stage.method(handler)
        raise Mistake("not_told", at=at, what=what, event=event, handler=handler)
    plugin = stage.plugin("filters", "NodeUnschedulable")
    if event not in needed(plugin, "events"):
        raise Mistake("not_wished", at=type(plugin), what=what, event=event, pod=pod)
    raise Mistake("not_moved", at=their_move(stage), what=what, event=event, pod=pod)


def their_move(stage: Stage) -> Any:
    return type(stage.queue).move
