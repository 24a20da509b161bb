"""Does each pod get a node, and each node some of the pods?"""

from typing import Any

from stowplan.learn.checking import Mistake, play
from stowplan.learn.stage import Stage
from stowplan.scenarios import Cluster

NODES = tuple(f"node{number}" for number in range(3))
#: So many that no node is left out by mere chance.
PODS = tuple(f"pod{number}" for number in range(40))
TEAM = "team-a"


def check(work: Any, on: str) -> None:
    async def scenario(cluster: Cluster) -> None:
        stage = Stage(work, cluster)
        schedule_one, bind = stage.method("schedule_one"), stage.method("bind")
        await stage.create_pods("early")
        await cluster.sleep(2)
        if stage.program.has_ended:
            raise Mistake("stopped_without_nodes", at=schedule_one, pod="early")

        await stage.create_nodes(*NODES)
        await stage.create_pods(*PODS)
        await stage.create_pods("lonely", namespace=TEAM)
        await cluster.create_pod("visitor")
        nodes = await stage.placed(*PODS)
        for pod, node in nodes.items():
            if not node:
                raise Mistake("not_bound", at=schedule_one, pod=pod, count=len(NODES))
            if node not in NODES:
                raise Mistake("no_such_node", at=bind, pod=pod, node=node)
        if not await cluster.node_of("lonely", namespace=TEAM):
            own = cluster.namespace
            raise Mistake("other_namespace", at=bind, own=own, namespace=TEAM, pod="lonely")
        if unused := sorted(set(NODES) - set(nodes.values())):
            used = ", ".join(sorted(set(nodes.values())))
            raise Mistake(
                "not_random", at=schedule_one, count=len(PODS), unused=", ".join(unused), used=used
            )
        if node := await cluster.node_of("visitor"):
            raise Mistake("taken", at=stage.method("add_pod"), pod="visitor", node=node)

    play(scenario, on)
