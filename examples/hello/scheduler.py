import asyncio
import sys

from stowplan.api import client, kubeconfig, resources
from stowplan.api.follow import follow


async def main(namespace: str = "", node: str = "") -> None:
    """The workshop's scheduler: watch, print, bind. Usage: scheduler.py [NAMESPACE [NODE]]"""
    bound: set[str] = set()
    async with client.ApiClient(kubeconfig.load_cluster_config()) as api:
        async for event in follow(api, resources.PODS, namespace=namespace or api.config.namespace):
            meta, spec, phase = event.object.metadata, event.object.spec, event.object.status.phase
            print(f"pod: '{meta.name}', phase: '{phase}' {spec.scheduler_name}.", flush=True)
            wanted = spec.scheduler_name == "PrgContSched" and not meta.deletion_timestamp
            if wanted and phase == "Pending" and not spec.node_name and meta.uid not in bound:
                try:
                    nodes = [] if node else (await api.list_all(resources.NODES)).items
                    ready = [n.name for n in nodes if n.is_ready and not n.spec.unschedulable]
                    assert node or ready, "no node is ready"
                    await api.bind(meta.namespace, meta.name, meta.uid, node or ready[0])
                    bound.add(meta.uid)
                except Exception as error:
                    print(error, flush=True)


try:
    asyncio.run(main(*sys.argv[1:]))
except (Exception, KeyboardInterrupt) as error:
    sys.exit(str(error))
