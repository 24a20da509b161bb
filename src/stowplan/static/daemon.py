"""`stowplan static --daemon`: place pods as they come and as nodes are labelled, until a signal.

Watches report changes at once. Every `--delay` seconds all pending pods are retried from the cache,
without a request. If the role does not allow watch, the daemon lists at that interval instead.
"""

from __future__ import annotations

import asyncio

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.queue.events import UNSCHEDULABLE_TIMEOUT
from stowplan.queue.queue import SchedulingQueue
from stowplan.scheduler.informers import Means
from stowplan.scheduler.process import SchedulerProcess
from stowplan.server.serving import stop_on_signals
from stowplan.static.credentials import find_cluster
from stowplan.static.events_only import EventsOnly
from stowplan.static.exporter import Exporter
from stowplan.static.lines import log
from stowplan.static.narrator import Narrator
from stowplan.static.rights import check_rights
from stowplan.static.settings import StaticSettings, make_engine

USER_AGENT = f"static-scheduler/{__version__}"


async def run_daemon(settings: StaticSettings) -> None:
    """Until SIGTERM or Ctrl-C; errors go to the command line."""
    engine, binder = make_engine(settings)
    cluster = find_cluster(settings.kubeconfig, settings.incluster_base_path)
    stop = asyncio.Event()
    stop_on_signals(stop)
    exporter = Exporter(binder.counters)
    async with ApiClient(cluster, user_agent=USER_AGENT) as client:
        process = SchedulerProcess(
            engine,
            client,
            on_outcome=Narrator(engine, settings.labels),
            reporter=EventsOnly,
            means=means(settings),
        )
        if settings.prometheus_port is not None:
            await exporter.start(
                settings.bind_address, settings.prometheus_port, where=settings.where_port
            )
        rounds = asyncio.create_task(_try_again(engine.queue, process, settings), name="rounds")
        try:
            await process.run(stop, check=check_rights(client, engine))
        finally:
            rounds.cancel()
            await exporter.stop()


def means(settings: StaticSettings) -> Means:
    """Few rights, and fewer where the role is the original's: told once, whatever is missing."""
    missing: list[str] = []

    def on_refused(right: str) -> None:
        missing.append(right)
        if len(missing) > 1:
            log.debug("The role does not allow to %s either", right)
            return
        log.warning(
            "The role does not allow to %s: nodes and pods are listed every %s seconds where they "
            "cannot be watched, and no events are written where they cannot be created; "
            "deploy/static has a role that allows both",
            right,
            settings.round_s,
        )

    return Means(
        # Pods of other schedulers matter only if node state is respected.
        pods="" if settings.respect_node_state else f"spec.schedulerName={settings.name}",
        poll_s=settings.round_s,
        creates_events_only=True,
        on_refused=on_refused,
    )


async def _try_again(
    queue: SchedulingQueue, process: SchedulerProcess, settings: StaticSettings
) -> None:
    await process.scheduling.wait()
    log.debug("Running scheduler")
    while True:
        log.debug("Scheduler finished. Sleeping for %s", settings.round_s)
        await asyncio.sleep(settings.round_s)
        log.debug("Running scheduler")
        queue.move_all(UNSCHEDULABLE_TIMEOUT, None, None)
