"""The scenario of the mini-kube-scheduler: no node can take pod1 until node10 arrives.

stowplan simulate mini_kube_scheduler.py
"""

from stowplan.scenarios import Cluster


async def scenario(cluster: Cluster) -> None:
    # create node0 ~ node8, but all nodes are unschedulable
    for i in range(9):
        await cluster.create_node(f"node{i}", unschedulable=True)
    await cluster.settle()
    cluster.say("all nodes created")

    await cluster.create_pod("pod1")
    cluster.say("pod1 created")

    # wait to schedule
    await cluster.settle()
    assert await cluster.node_of("pod1") == "", "pod1 should not be bound yet"

    await cluster.create_node("node10")
    cluster.say("node10 created")

    await cluster.settle()
    node = await cluster.node_of("pod1")
    assert node == "node10", f"pod1 is bound to {node!r}"
    cluster.say(f"pod1 is bound to {node}")
