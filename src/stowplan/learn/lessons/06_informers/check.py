"""Does it know all nodes, and are the pods that wait for it in the queue, each once?"""

from typing import Any

from stowplan.api.informer import Informer
from stowplan.learn.checking import Mistake, logged, play
from stowplan.learn.rehearsal import SCHEDULER_NAME, Rehearsal
from stowplan.scenarios import Cluster


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        rehearsal = Rehearsal(work, cluster)
        await cluster.create_node("alpha")
        await cluster.create_pod("early", schedulerName=SCHEDULER_NAME)
        await cluster.create_pod("visitor")
        await cluster.create_pod("placed", schedulerName=SCHEDULER_NAME, nodeName="alpha")
        with logged() as messages:
            await rehearsal.begin()
            rehearsal.program.must_go_on()
            must_know(rehearsal, messages, "alpha")
            must_hold(rehearsal, ["early"])
            await cluster.patch("Pod", "early", {"metadata": {"labels": {"seen": "yes"}}})
            await cluster.create_node("bravo")
            await rehearsal.create_pod("late")
            rehearsal.program.must_go_on()
            must_know(rehearsal, messages, "bravo")
            must_hold(rehearsal, ["early", "late"])
        await rehearsal.end()

    play(scenario, on)


def must_know(rehearsal: Rehearsal, messages: list[str], node: str) -> None:
    if node not in rehearsal.attribute("nodes", Informer).store:
        raise Mistake("node_not_known", at=rehearsal.method("run"), node=node)
    if not any("New node is added" in message and node in message for message in messages):
        raise Mistake("node_not_told", at=rehearsal.method("add_node"), node=node)


def must_hold(rehearsal: Rehearsal, expected: list[str]) -> None:
    if not rehearsal.attribute("pods", Informer).synced.is_set():
        raise Mistake("pods_not_known", at=rehearsal.method("run"))
    add_pod = rehearsal.method("add_pod")
    queued = rehearsal.queued()
    for pod in queued:
        if pod == "visitor":
            raise Mistake("not_ours", at=add_pod, pod=pod)
        if pod == "placed":
            raise Mistake("has_a_node", at=add_pod, pod=pod)
        if queued.count(pod) > 1:
            raise Mistake("twice", at=add_pod, pod=pod)
        if pod not in expected:
            raise Mistake("no_pod", at=add_pod, found=pod)
    for pod in expected:
        if pod not in queued:
            raise Mistake("not_queued", at=add_pod, pod=pod)
