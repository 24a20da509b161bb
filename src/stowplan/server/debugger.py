"""On SIGUSR2, compare the cache with the API server and log the result, as kube-scheduler does.

`serving` calls `start` on the signal. Only reads. What must stay true: the scheduler goes on
meanwhile, so an update still on its way must not be reported as a difference. Only a difference
found in every comparison is reported.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import TYPE_CHECKING

from stowplan.api.client import ApiClient
from stowplan.api.resources import NODES, PODS
from stowplan.cluster.table import CPU_ROW, MEMORY_ROW, NodeTable
from stowplan.errors import StowplanError
from stowplan.logs import Block, get_logger, kv
from stowplan.scheduler.engine import Engine

if TYPE_CHECKING:
    from stowplan.cluster.compare import Comparison

log = get_logger(__name__)

#: Comparisons with the API server before a difference is reported.
_LOOKS = 3
#: Seconds between two comparisons: watches rarely lag further behind.
_PAUSE_S = 1.0
_MIB = 1 << 20


class CacheDebugger:
    """Compares and logs, one comparison at a time."""

    def __init__(
        self, engine: Engine, client: ApiClient, namespace: str = "", *, pause_s: float = _PAUSE_S
    ) -> None:
        self._engine = engine
        self._client = client
        self._namespace = namespace
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start a comparison in the background, unless one is under way or `stop` was called."""
        if not self._is_stopped and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="debugger")

    def stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    async def compare(self) -> Comparison:
        """The differences that every comparison shows."""
        found = await self._look()
        for _ in range(_LOOKS - 1):
            if found.agrees:
                break
            await asyncio.sleep(self._pause_s)
            found = (await self._look()).confirming(found)
        return found

    async def _run(self) -> None:
        try:
            found = await self.compare()
        except StowplanError as problem:
            log.warning("Cannot compare the cache with the API server", extra=kv(err=problem))
        else:
            if found.agrees:
                counted = kv(nodes=found.node_count, pods=found.pod_count)
                log.info("Cache and API server agree", extra=counted)
            else:
                log.error("Cache and API server differ", extra=kv(differences=Block(found)))
        self._dump()

    async def _look(self) -> Comparison:
        from stowplan.cluster.compare import compare  # few are ever asked for it

        nodes = await self._client.list_all(NODES)
        pods = await self._client.list_all(PODS, namespace=self._namespace)
        return compare(self._engine.cache, nodes.items, pods.items)

    def _dump(self) -> None:
        log.info("Dump of cached nodes", extra=kv(nodes=_nodes_text(self._engine.cache.table)))
        pending = self._engine.queue.pending()
        lines = [
            f"{queued.pod.key} ({field.name})"
            for field in fields(pending)
            for queued in getattr(pending, field.name)
        ]
        summary = pending.counts._asdict()
        log.info(
            "Dump of scheduling queue", extra=kv(summary=summary, pods=Block("\n".join(lines)))
        )


def _nodes_text(table: NodeTable) -> Block:
    lines: list[str] = []
    for name, row in sorted(table.row_of.items()):
        requested, offered = table.requested[:, row], table.allocatable[:, row]
        state = "" if table.live_row(name) is not None else ", deleted"
        lines.append(
            f"{name}: {table.pod_count[row]} of {table.allowed_pods[row]} pods, "
            f"cpu {requested[CPU_ROW]}m of {offered[CPU_ROW]}m, memory "
            f"{requested[MEMORY_ROW] // _MIB} of {offered[MEMORY_ROW] // _MIB} MiB{state}"
        )
    return Block("\n".join(lines))
