"""Runs tasks on a Dask cluster (the extra `stowplan[dask]`).

Workers need the same version of Stowplan and the same files at the same paths; both are checked
before a task runs. Dask itself retries the tasks of a lost worker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from stowplan.errors import ConfigError, StowplanError
from stowplan.sim.results.extras import needed
from stowplan.sim.sweep.playing import Played, play
from stowplan.sim.sweep.pool import Lost, uninterrupted
from stowplan.sim.sweep.tasks import Task

#: The address that starts a cluster of processes on this machine.
LOCAL: Final = "local"
_CONNECT_S: Final = 15
#: Dask's profiler, which samples the stack of a task a hundred times a second, is turned off.
_LOCAL_SETTINGS: Final = {"distributed.worker.profile.enabled": False}


class DaskRunner:
    """Runs tasks through a connected client."""

    def __init__(
        self, client: Any, distributed: Any, *, keeps_run: bool, keeps_decisions: bool
    ) -> None:
        self._client = client
        self._distributed = distributed
        self._keeps = (keeps_run, keeps_decisions)

    def play(self, tasks: Iterable[Task]) -> Iterator[Played | Lost]:
        by_key = {task.key: task for task in tasks}
        futures = [
            self._client.submit(play, task, *self._keeps, key=f"stowplan-{key}", pure=False)
            for key, task in by_key.items()
        ]
        try:
            for future in self._distributed.as_completed(futures):
                try:
                    yield future.result()
                except self._distributed.KilledWorker:
                    yield Lost(by_key[future.key.removeprefix("stowplan-")])
                except (OSError, self._distributed.CancelledError) as problem:
                    raise StowplanError(
                        f"the Dask cluster was lost: {problem}. Fix: run the same command again; "
                        "finished tasks are kept"
                    ) from None
                future.release()
        finally:
            self._client.cancel(futures, force=True)


@contextmanager
def connected(
    address: str, *, workers: int, keeps_run: bool, keeps_decisions: bool
) -> Iterator[DaskRunner]:
    """Connect to the cluster at an address, or start `workers` processes for `local`."""
    where = f"--dask {address}"
    distributed = needed("distributed", "dask", where=where)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    cluster = None
    try:
        if address == LOCAL:
            settings = needed("dask", "dask", where=where).config.set(_LOCAL_SETTINGS)
            # Threads and processes that start here never see Ctrl-C; this process handles it.
            with settings, uninterrupted():
                cluster = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    dashboard_address=None,
                    silence_logs=logging.ERROR,
                )
        client = distributed.Client(cluster or address, timeout=_CONNECT_S)
    except (OSError, ValueError, TimeoutError) as problem:
        raise ConfigError(
            f"cannot be reached: {problem}. Fix: give the address that `dask scheduler` prints, "
            "such as tcp://127.0.0.1:8786",
            where=where,
        ) from None
    try:
        with client:
            yield DaskRunner(
                client, distributed, keeps_run=keeps_run, keeps_decisions=keeps_decisions
            )
    finally:
        if cluster is not None:
            cluster.close()
