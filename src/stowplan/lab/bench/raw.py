"""The `raw` contestant: it binds every pod it finds to the next node in turn, without thinking.

Run by the benchmark as ``python -m stowplan.bench.raw``. Its rate is the limit of the machine, so
what must stay true is that it does nothing that a scheduler could do without: a watch of which only
names are decoded, and bindings over at least as many connections as Stowplan uses. Pods with
devices also cost it the writes of their claims (`raw_devices`).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from typing import Any

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import NODES
from stowplan.lab.bench.follow import Followed, Metadata, follow, session
from stowplan.lab.bench.raw_devices import PodWithDevices, RawDevices
from stowplan.lab.bench.sender import JSON, Sender, run_quickly

#: The log line that says that the watch runs.
READY = "ready to bind"


def binding(pod: Metadata, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }


def scheduled_event(pod: Metadata, node: str) -> dict[str, Any]:
    """What a scheduler writes for every pod it has bound."""
    name, namespace = pod.name, pod.namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": namespace},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "raw",
        "reportingInstance": "raw",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": f"Successfully assigned {namespace}/{name} to {node}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace}
        | {"uid": pod.uid},
    }


async def bind_everything(
    kubeconfig: str, *, pods: int | None, with_events: bool, with_devices: bool
) -> None:
    """Bind that many pods as they come, then stay until killed: the figures are read from outside.

    An event follows its bind at once, in the same queue, so that binds and events keep in step.
    """
    config = load_cluster_config(kubeconfig=kubeconfig)
    async with (
        ApiClient(config) as client,
        Sender(config) as sender,
        session(config, JSON) as watching,
        AsyncExitStack() as stack,
    ):

        def requests(pod: Metadata, node: str) -> Iterator[bytes]:
            space = f"namespaces/{pod.namespace}"
            yield sender.request(f"/api/v1/{space}/pods/{pod.name}/binding", binding(pod, node))
            if with_events:
                event = scheduled_event(pod, node)
                yield sender.request(f"/apis/events.k8s.io/v1/{space}/events", event)

        print(READY, flush=True)
        devices = RawDevices(sender, requests)
        nodes: list[str] = []
        seen: set[str] = set()
        kind = PodWithDevices if with_devices else Followed
        unbound = {"fieldSelector": "spec.nodeName="}
        changes = await stack.enter_async_context(
            aclosing(follow(watching, "/api/v1/pods", unbound, kind))
        )
        while pods is None or len(seen) < pods:
            change = await anext(changes)
            sender.check()
            pod = change.object
            if change.type == "DELETED" or pod.metadata.uid in seen:
                continue
            if isinstance(pod, PodWithDevices):
                if pod.lacks_claim:
                    continue  # A change of the pod tells when it has one.
                if not seen:
                    await stack.enter_async_context(devices.following(watching))
                devices.add(pod)
            else:
                if not nodes:  # there are none when it is started
                    nodes = [node.metadata.name for node in (await client.list_all(NODES)).items]
                sender.submit(requests(pod.metadata, nodes[len(seen) % len(nodes)]))
            seen.add(pod.metadata.uid)
        # A scheduler has to watch its bound pods; raw, which is the limit, does not.
        await changes.aclose()
        await sender.drain()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stowplan.bench.raw")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--devices", action="store_true")
    options = parser.parse_args()
    run_quickly(
        bind_everything(
            options.kubeconfig,
            pods=options.pods,
            with_events=options.events,
            with_devices=options.devices,
        )
    )


if __name__ == "__main__":
    main()
