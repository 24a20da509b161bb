"""Is the best of the nodes chosen that pass all predicates?"""

from typing import Any

from stowplan import Node, Pod
from stowplan.api.informer import Informer
from stowplan.learn.checking import Mistake, call, logged, play
from stowplan.learn.rehearsal import Rehearsal
from stowplan.scenarios import Cluster

NODES = ("alpha", "bravo", "charlie", "delta")
#: What two priorities give to bravo and charlie, and which has the higher sum. By the first alone
#: it would be bravo each time, by the last alone charlie.
POINTS = {
    "first": ({"bravo": 10, "charlie": 1}, {"bravo": 5, "charlie": 8}, "bravo"),
    "second": ({"bravo": 10, "charlie": 8}, {"bravo": 1, "charlie": 8}, "charlie"),
}
ALL_EQUAL, UNWANTED, AFTER = "zeros", "unwanted", "after"


def not_delta(node: Node, pod: Pod) -> bool:
    return node.name != "delta" and pod.metadata.name != UNWANTED


def not_alpha(node: Node, pod: Pod) -> bool:
    return node.name != "alpha"


def first_points(node: Node, pod: Pod) -> int:
    return points(node, pod, 0)


def more_points(node: Node, pod: Pod) -> int:
    return points(node, pod, 1)


def points(node: Node, pod: Pod, number: int) -> int:
    if node.name in ("alpha", "delta"):
        return 1000  # for those that must be left out before anybody looks at points
    row = POINTS.get(pod.metadata.name)
    given = row[:2][number] if row else {}
    return given.get(node.name, 0)


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        for name in NODES:
            await cluster.create_node(name)
        rehearsal = Rehearsal(work, cluster)
        rehearsal.judge_by([not_delta, not_alpha], [first_points, more_points])
        with logged() as messages:
            await rehearsal.begin()
            for pod, (*_, best) in POINTS.items():
                await rehearsal.create_pod(pod)
                await must_be(rehearsal, pod, best)
            await rehearsal.create_pod(ALL_EQUAL)
            await must_fit(rehearsal, ALL_EQUAL)
            await rehearsal.create_pod(UNWANTED)
            await rehearsal.create_pod(AFTER)
            rehearsal.program.must_go_on()
            await must_fit_nowhere(rehearsal)
        if not any(AFTER in message and "is chosen" in message for message in messages):
            raise Mistake("not_told", at=rehearsal.method("schedule_one"), pod=AFTER)
        await rehearsal.end()

    play(scenario, on)


async def must_fit(rehearsal: Rehearsal, name: str) -> str:
    rehearsal.program.must_go_on()
    find_node = rehearsal.method("find_node")
    node = call(find_node, await rehearsal.pod(name))
    if node in ("alpha", "delta"):
        predicate = "not_alpha" if node == "alpha" else "not_delta"
        raise Mistake("does_not_fit", at=find_node, pod=name, node=node, predicate=predicate)
    if not node:
        key = "zero_is_nothing" if name == ALL_EQUAL else "none_chosen"
        raise Mistake(key, at=rehearsal.method("find_best_node"), pod=name, node=node)
    if node not in NODES:
        raise Mistake("no_name", at=find_node, pod=name, node=repr(node))
    return str(node)


async def must_be(rehearsal: Rehearsal, name: str, best: str) -> None:
    node = await must_fit(rehearsal, name)
    if node == best:
        return
    one, other, _ = POINTS[name]
    nodes = {each.name: each for each in rehearsal.attribute("nodes", Informer).store.values()}
    pod = await rehearsal.pod(name)
    sums = call(rehearsal.method("prioritize"), [nodes["bravo"], nodes["charlie"]], pod)
    right = {each: one[each] + other[each] for each in one}
    if sums != right:
        raise Mistake("wrong_sums", at=rehearsal.method("prioritize"), found=sums, right=right)
    told = {"pod": name, "node": node, "best": best, "sums": sums}
    raise Mistake("not_the_best", at=rehearsal.method("find_best_node"), **told)


async def must_fit_nowhere(rehearsal: Rehearsal) -> None:
    find_node = rehearsal.method("find_node")
    if node := call(find_node, await rehearsal.pod(UNWANTED)):
        raise Mistake("fits_nowhere", at=find_node, pod=UNWANTED, node=node)
