"""Are unschedulable nodes left alone, except by those who tolerate them?"""

from typing import Any

from msgspec.structs import replace

from stowplan import SUCCESS, Node, Pod, Status, unschedulable
from stowplan.learn.checking import Mistake, play
from stowplan.learn.stage import Stage, needed
from stowplan.scenarios import Cluster

CORDONED = tuple(f"node{number}" for number in range(9))
OPEN = "node9"
PODS = tuple(f"pod{number}" for number in range(10))


class PlantedEvenOnly:
    """Refuses nodes with an odd number."""

    name = "PlantedEvenOnly"

    def filter(self, pod: Pod, node: Node) -> Status:
        return SUCCESS if int(node.name[-1]) % 2 == 0 else unschedulable("node(s) were odd")


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        await stage.create_nodes(*CORDONED, unschedulable=True)
        await stage.create_nodes(OPEN)
        await only_open_nodes_are_taken(stage)
        await a_pod_need_not_have_tolerations(stage)
        await tolerations_count(stage)
        await all_plugins_count(stage)

    play(scenario, on)


async def only_open_nodes_are_taken(stage: Stage) -> None:
    run_filters = stage.method("run_filters")
    await stage.create_pods(*PODS)
    for pod, node in (await stage.placed(*PODS)).items():
        if not node:
            status = await answer(stage, pod, OPEN)
            if not status.is_success:
                told = {"pod": pod, "node": OPEN, "reason": status.message}
                raise Mistake("refuses_open", at=their_filter(stage), **told)
            raise Mistake("not_bound", at=run_filters, pod=pod, node=OPEN)
        if node != OPEN:
            await say_why_cordoned(stage, pod, node)
    await stage.cluster.cordon(OPEN)
    await stage.create_pods("stranded")
    if node := (await stage.placed("stranded"))["stranded"]:
        raise Mistake("none_feasible", at=stage.method("schedule_one"), pod="stranded", node=node)


async def say_why_cordoned(stage: Stage, pod: str, node: str) -> None:
    status = await answer(stage, pod, node)
    if status.is_success:
        raise Mistake("on_cordoned_filter", at=their_filter(stage), pod=pod, node=node)
    told = {"pod": pod, "node": node, "reason": status.message}
    raise Mistake("on_cordoned_run", at=stage.method("run_filters"), **told)


async def a_pod_need_not_have_tolerations(stage: Stage) -> None:
    """The API server adds tolerations to new pods, but need not; all nodes are cordoned."""
    pod = await stage.pod(PODS[0])
    bare = replace(pod, spec=replace(pod.spec, tolerations=None))
    try:
        status = their_filter(stage)(bare, await stage.node(OPEN))
    except (TypeError, AttributeError) as problem:
        raise Mistake("no_tolerations", at=their_filter(stage), why=problem) from None
    if must_be_status(stage, status, OPEN).is_success:
        raise Mistake("no_tolerations_accepted", at=their_filter(stage), node=OPEN)


async def tolerations_count(stage: Stage) -> None:
    """All nodes are cordoned."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    await stage.create_pods("tolerant", tolerations=[cordon])
    other = {"key": "example.com/other", "operator": "Exists"}
    await stage.create_pods("picky", tolerations=[other])
    placed = await stage.placed("tolerant", "picky")
    if not placed["tolerant"]:
        status = await answer(stage, "tolerant", OPEN)
        if status.is_success:
            raise Mistake("toleration_run", at=stage.method("run_filters"), pod="tolerant")
        told = {"pod": "tolerant", "reason": status.message}
        raise Mistake("toleration", at=their_filter(stage), **told)
    if node := placed["picky"]:
        raise Mistake("other_toleration", at=their_filter(stage), pod="picky", node=node)


async def all_plugins_count(stage: Stage) -> None:
    """Only node4 is open and even: node5 is odd, node6 is cordoned."""
    run_filters = stage.method("run_filters")
    stage.plugins("filters").append(PlantedEvenOnly())
    for name in ("node4", "node5"):
        await stage.cluster.uncordon(name)
    await stage.cluster.sleep(1)
    pods = tuple(f"even{number}" for number in range(20))
    await stage.create_pods(*pods)
    for pod, node in (await stage.placed(*pods)).items():
        if not node:
            raise Mistake("not_bound", at=run_filters, pod=pod, node="node4")
        if node == "node5":
            raise Mistake("one_refusal_is_enough", at=run_filters, pod=pod, node=node)
        if node != "node4":
            raise Mistake("first_is_asked_too", at=run_filters, pod=pod, node=node)


def their_filter(stage: Stage) -> Any:
    return needed(stage.plugin("filters", "NodeUnschedulable"), "filter")


async def answer(stage: Stage, pod: str, node: str) -> Status:
    """What the learner's plugin says about one pod and one node."""
    status = their_filter(stage)(await stage.pod(pod), await stage.node(node))
    return must_be_status(stage, status, node)


def must_be_status(stage: Stage, status: Any, node: str) -> Status:
    if not isinstance(status, Status):
        raise Mistake("not_a_status", at=their_filter(stage), answer=status, node=node)
    return status
