"""Do plugins prepare once an attempt, and keep their notes in its cycle?"""

from typing import Any

from stowplan import Node, Pod
from stowplan.learn.checking import Mistake, call, play
from stowplan.learn.stage import Stage, needed
from stowplan.scenarios import Cluster

NODES = ("node1", "node2", "node3")
CORDONED = "node4"
FAVOURITES = {"pod1": "node1", "pod2": "node2", "pod13": "node3"}


class PlantedDiary:
    """Scores nothing, and writes down how it is called."""

    name = "PlantedDiary"

    def __init__(self) -> None:
        #: By pod: the nodes that pre_score was shown, once for each call.
        self.prepared: dict[str, list[list[str]]] = {}
        #: By pod: whose note was found in a cycle that should have been new.
        self.leftover: dict[str, str] = {}
        #: By pod: the nodes that were scored without the pod's note.
        self.without_note: dict[str, list[str]] = {}

    def pre_score(self, cycle: dict[str, str], pod: Pod, nodes: list[Node]) -> None:
        name = pod.metadata.name
        if self.name in cycle and name not in self.prepared:
            self.leftover[name] = cycle[self.name]
        self.prepared.setdefault(name, []).append([node.name for node in nodes])
        cycle[self.name] = name

    def score(self, cycle: dict[str, str], pod: Pod, node: Node) -> int:
        if cycle.get(self.name) != pod.metadata.name:
            self.without_note.setdefault(pod.metadata.name, []).append(node.name)
        return 0


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        diary = PlantedDiary()
        stage.plugins("pre_scorers").append(diary)
        stage.plugins("scorers").append(diary)
        await stage.create_nodes(*NODES)
        await stage.create_nodes(CORDONED, unschedulable=True)
        await stage.create_pods(*FAVOURITES)
        await notes_are_kept_in_the_cycle(stage)
        placed = await stage.placed(*FAVOURITES)
        schedule_one = stage.method("schedule_one")
        for pod in FAVOURITES:
            look_into(diary, pod, schedule_one)
        for pod, favourite in FAVOURITES.items():
            if not placed[pod]:
                raise Mistake("not_bound", at=schedule_one, pod=pod, count=len(NODES))
            if placed[pod] != favourite:
                told = {"pod": pod, "node": placed[pod], "favourite": favourite}
                raise Mistake("wrong_node", at=schedule_one, **told)

    play(scenario, on)


async def notes_are_kept_in_the_cycle(stage: Stage) -> None:
    number = stage.plugin("scorers", "NodeNumber")
    pre_score, score_of = needed(number, "pre_score"), needed(number, "score")
    first, second = await stage.pod("pod1"), await stage.pod("pod2")
    nodes = [await stage.node(name) for name in NODES]
    cycle: dict[str, str] = {}
    other: dict[str, str] = {}
    call(pre_score, cycle, first, nodes)
    if not cycle:
        raise Mistake("no_note", at=pre_score, pod="pod1")
    call(pre_score, other, second, nodes)
    score = call(score_of, cycle, first, nodes[0])
    if score != 10:
        raise Mistake("mixed_up", at=pre_score, score=score)
    score = call(score_of, cycle, second, nodes[0])
    if score != 10:
        raise Mistake("not_read", at=score_of, score=score)


def look_into(diary: PlantedDiary, pod: str, schedule_one: Any) -> None:
    calls = diary.prepared.get(pod, [])
    if not calls:
        raise Mistake("not_prepared", at=schedule_one, pod=pod)
    if len(calls) > 1:
        told = {"pod": pod, "count": len(calls), "nodes": len(NODES)}
        raise Mistake("too_often", at=schedule_one, **told)
    if extra := sorted(set(calls[0]) - set(NODES)):
        told = {"pod": pod, "shown": ", ".join(calls[0]), "extra": ", ".join(extra)}
        raise Mistake("all_nodes", at=schedule_one, **told)
    if pod in diary.leftover:
        raise Mistake("old_notes", at=schedule_one, pod=pod, other=diary.leftover[pod])
    if pod in diary.without_note:
        raise Mistake("other_cycle", at=schedule_one, pod=pod, node=diary.without_note[pod][0])
