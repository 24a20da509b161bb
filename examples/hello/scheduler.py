import asyncio
import sys

from stowplan import NODES, PODS, ApiClient, Pod, follow, load_cluster_config


async def bind(api: ApiClient, pod: Pod, node: str) -> None:
    """Bind a pod to the node, or to the first that is ready; after an error, try again."""
    meta = pod.metadata
    while True:
        try:
            nodes = [] if node else (await api.list_all(NODES)).items
            ready = [n.name for n in nodes if n.is_ready and not n.spec.unschedulable]
            assert node or ready, "no node is ready"
            return await api.bind(meta.namespace, meta.name, meta.uid, node or ready[0])
        except Exception as error:
            print(f"pod: '{meta.name}' is not bound, next try in 2 s: {error}", flush=True)
            await asyncio.sleep(2)


async def main(namespace: str = "", node: str = "") -> None:
    """The workshop's scheduler: watch, print, bind. Usage: scheduler.py [NAMESPACE [NODE]]"""
    tries: dict[str, asyncio.Task[None]] = {}
    async with ApiClient(load_cluster_config()) as api:
        async for event in follow(api, PODS, namespace=namespace or api.config.namespace):
            meta, spec, phase = event.object.metadata, event.object.spec, event.object.status.phase
            print(f"pod: '{meta.name}', phase: '{phase}' {spec.scheduler_name}.", flush=True)
            waits = phase == "Pending" and not spec.node_name and not meta.deletion_timestamp
            if event.type == "DELETED" or not waits:
                if meta.uid in tries:
                    tries.pop(meta.uid).cancel()
            elif spec.scheduler_name == "PrgContSched" and meta.uid not in tries:
                tries[meta.uid] = asyncio.create_task(bind(api, event.object, node))


try:
    asyncio.run(main(*sys.argv[1:]))
except (Exception, KeyboardInterrupt) as error:
    sys.exit(str(error) or 130)  # Ctrl-C has no text
