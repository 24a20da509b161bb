"""Play a scenario with a learner's scheduler in the place of ours: `stowplan learn play`.

The scheduler is a class `MiniScheduler` as in lessons 10 to 16: `MiniScheduler(api, name)` with a
coroutine `run()`. It runs in this process, so that virtual time works. Nothing is known about its
queue, so `cluster.settle()` waits for a fixed time.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError, StowplanError
from stowplan.framework.loading import load_module
from stowplan.learn.faults import LearnerErrors
from stowplan.sim.scenarios import Cluster, Entry, Options, Outcome, run_scenario
from stowplan.sim.scenarios.files import Playable, read_playables
from stowplan.sim.scenarios.run import explain

DEFAULT_SCENARIO: Final = Path(__file__).parent / "scenarios" / "mini_kube_scheduler.py"
SCHEDULER_NAME: Final = "default-scheduler"
#: The mini-kube-scheduler's own scenario sleeps for so long after each change.
_SETTLE_S: Final = 3.0


def play_with(
    file: Path,
    scenario: Path,
    on: str,
    *,
    on_entry: Callable[[Entry], None],
    errors: LearnerErrors,
) -> Outcome:
    """Play a scenario with the scheduler in `file`; its errors are added to `errors`."""
    scheduler = getattr(load_module(file), "MiniScheduler", None)
    if not inspect.isclass(scheduler):
        raise ConfigError(
            "has no class MiniScheduler, which the schedulers of lessons 10 to 16 have. "
            "Fix: name the file of such a lesson",
            where=str(file),
        )
    played = read_playables(scenario)
    if len(played) != 1:
        raise ConfigError("has several workloads; name a scenario", where=str(scenario))
    options = Options(
        name=played[0].name, with_scheduler=False, settle_s=_SETTLE_S, on_entry=on_entry
    )
    with errors.listening():
        return run_scenario(_Played(scheduler, played[0], errors), on=on, options=options)


class _Played:
    """The scenario, with the learner's scheduler beside it."""

    def __init__(
        self, scheduler: Callable[..., Any], played: Playable, errors: LearnerErrors
    ) -> None:
        self._scheduler = scheduler
        self._played = played
        self._errors = errors

    async def __call__(self, cluster: Cluster) -> None:
        _ = cluster.start(self._run(cluster), name="MiniScheduler")
        try:
            await self._played.scenario(cluster)
        except Exception as problem:
            raise StowplanError(explain(problem, self._played.scenario)) from problem

    async def _run(self, cluster: Cluster) -> None:
        try:
            run: Callable[[], Awaitable[None]]
            run = self._scheduler(cluster.client, SCHEDULER_NAME).run
            await run()
        except Exception as problem:
            self._errors.add(problem)
            raise StowplanError("the scheduler has failed") from problem
        raise StowplanError("MiniScheduler.run has ended, but a scheduler must go on")
