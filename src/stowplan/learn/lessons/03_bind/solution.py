"""Lesson 3, bind the pod: `stowplan learn read 3`, then `stowplan learn check 3`."""

import asyncio
import sys

from stowplan import NODES, PODS, ApiClient, StowplanError, follow, load_cluster_config

SCHEDULER_NAME = "PrgContSched"


async def schedule(api: ApiClient, namespace: str) -> None:
    """Watch the pods of a namespace for ever, print each change, bind who waits for us."""
    async for event in follow(api, PODS, namespace=namespace):
        pod = event.object
        print(f"pod: '{pod.metadata.name}', phase: '{pod.status.phase}' {pod.spec.scheduler_name}.")
        is_ours = pod.spec.scheduler_name == SCHEDULER_NAME
        if is_ours and pod.status.phase == "Pending" and not pod.spec.node_name:
            node = await choose_node(api)
            await api.bind(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node)


async def choose_node(api: ApiClient) -> str:
    """The first node that is ready and not cordoned."""
    nodes = (await api.list_all(NODES)).items
    for node in nodes:
        if node.is_ready and not node.spec.unschedulable:
            return node.name
    raise StowplanError("no node is ready; add one (stowplan apiserver --nodes 3) and start again")


async def main() -> None:
    async with ApiClient(load_cluster_config()) as api:
        await schedule(api, api.config.namespace)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (StowplanError, KeyboardInterrupt) as problem:
        sys.exit(str(problem) or 130)  # Ctrl-C has no text
