"""A console with the page Try: an embedded API server, a scheduler on it, and nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.apiserver.cluster import EmbeddedCluster
from stowplan.apiserver.in_process import SERVER, InProcess
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.config.defaults import default_config
from stowplan.console.mirror import MirroringHandlers, mirror_of
from stowplan.console.serving import Console
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.process import SchedulerProcess


@asynccontextmanager
async def try_stage() -> AsyncIterator[str]:
    """The address of the console of an empty cluster."""
    kubelet = KubeletOptions(start_delay_s=0.1, stop_delay_s=0.1)
    cluster = EmbeddedCluster(kubelet=kubelet, device_claims=True)
    client = ApiClient(ClusterConfig(server=SERVER), transport=InProcess(cluster))
    mirror = mirror_of(default_config())
    mirror.is_synced = lambda: True
    engine = build_engine(default_config())
    process = SchedulerProcess(
        engine, client, identity="try", handlers=partial(MirroringHandlers, mirror=mirror)
    )
    console, stop = Console(mirror, engine, embedded=cluster), asyncio.Event()
    cluster.start_controllers()
    running = asyncio.create_task(process.run(stop))
    await console.start(socket.create_server(("127.0.0.1", 0)))
    try:
        yield console.url
    finally:
        await console.stop()
        stop.set()
        await running
        await cluster.stop_controllers()
