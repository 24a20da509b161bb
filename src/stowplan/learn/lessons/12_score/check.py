"""Does the node with the highest sum win, and chance among equals?"""

from dataclasses import dataclass
from typing import Any

from stowplan import Node, Pod
from stowplan.learn.checking import Mistake, play
from stowplan.learn.stage import Stage, needed
from stowplan.scenarios import Cluster

CORDONED = "node3"
#: Edge has no digit, and comes first.
NODES = ("edge", *(f"node{number}" for number in range(10) if number != 3))
FAVOURITES = {"pod1": "node1", "pod7": "node7", "pod12": "node2", "pod40": "node0"}
PLAIN = tuple(f"web-{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")


@dataclass
class PlantedFavourite:
    """Gives one node some points and others none."""

    name: str
    points: int
    node: str = "node5"

    def score(self, pod: Pod, node: Node) -> int:
        return self.points if node.name == self.node else 0


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        await stage.create_nodes(CORDONED, unschedulable=True)
        await stage.create_nodes(*NODES)
        await favourites_win(stage)
        await chance_decides_among_equals(stage)
        await scores_are_added_up(stage)

    play(scenario, on)


async def favourites_win(stage: Stage) -> None:
    await stage.create_pods(*FAVOURITES, "pod3")
    placed = await stage.placed(*FAVOURITES, "pod3")
    for pod, node in placed.items():
        if not node:
            raise Mistake("not_bound", pod=pod, count=len(NODES))
    for pod, favourite in FAVOURITES.items():
        if placed[pod] != favourite:
            await say_why(stage, pod, favourite, placed[pod])
    if placed["pod3"] == CORDONED:
        schedule_one = stage.method("schedule_one")
        raise Mistake("filtered_out", at=schedule_one, pod="pod3", node=CORDONED)


async def say_why(stage: Stage, pod: str, favourite: str, node: str) -> None:
    """The plugin, the sum or the choice: which of them went wrong?"""
    score = needed(stage.plugin("scorers", "NodeNumber"), "score")
    told = {"pod": pod, "favourite": favourite, "node": node}
    own, other = await stage.pod(pod), await stage.node(node)
    given = score(own, await stage.node(favourite))
    if given != 10:
        raise Mistake("score_of_match", at=score, score=given, **told)
    given = score(own, other)
    if given != 0:
        raise Mistake("score_of_other", at=score, score=given, **told)
    sums = await sums_of(stage, pod, favourite, node)
    if sums != {favourite: 10, node: 0}:
        raise Mistake("sum_of_match", at=stage.method("run_scorers"), sums=sums, **told)
    raise Mistake("highest_wins", at=stage.method("select_node"), sums=sums, **told)


async def chance_decides_among_equals(stage: Stage) -> None:
    await stage.create_pods(*PLAIN)
    placed = await stage.placed(*PLAIN)
    for pod, node in placed.items():
        if not node:
            raise Mistake("not_bound", pod=pod, count=len(NODES))
    if len(set(placed.values())) > 1:
        return
    pod, node = next(iter(placed.items()))
    score = needed(stage.plugin("scorers", "NodeNumber"), "score")
    if given := score(await stage.pod(pod), await stage.node(node)):
        told = {"pod": pod, "node": node, "count": len(PLAIN), "score": given}
        raise Mistake("without_digit", at=score, **told)
    select_node = stage.method("select_node")
    raise Mistake("always_the_same", at=select_node, count=len(PLAIN), node=node)


async def scores_are_added_up(stage: Stage) -> None:
    scorers, own = stage.plugins("scorers"), len(stage.plugins("scorers"))
    for number, (points, best) in enumerate(((5, "node1"), (50, "node5"))):
        scorers[own:] = [PlantedFavourite("PlantedFavourite", points)]
        pod = f"sum{number}1"
        await stage.create_pods(pod)
        node = (await stage.placed(pod))[pod]
        if node != best:
            told = {"pod": pod, "node": node, "points": points, "best": best}
            sums = await sums_of(stage, pod, "node1", "node5")
            run_scorers = stage.method("run_scorers")
            raise Mistake(
                "not_added_up", at=run_scorers, plugin=scorers[-1].name, sums=sums, **told
            )
    scorers[own:] = [PlantedFavourite("PlantedOne", 6), PlantedFavourite("PlantedOther", 6)]
    await stage.create_pods("sum21")
    node = (await stage.placed("sum21"))["sum21"]
    if node != "node5":
        sums = await sums_of(stage, "sum21", "node1", "node5")
        raise Mistake(
            "first_of_two", at=stage.method("run_scorers"), pod="sum21", node=node, sums=sums
        )


async def sums_of(stage: Stage, pod: str, *nodes: str) -> Any:
    """What the learner's `run_scorers` says."""
    shown = [await stage.node(name) for name in nodes]
    return stage.method("run_scorers")(await stage.pod(pod), shown)
