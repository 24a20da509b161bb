"""Runs one task, in any process: a worker of a pool or of Dask, or this one.

Invariant: the same task gives the same bytes everywhere.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import logging
import os
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import msgspec

from stowplan import __version__
from stowplan.errors import ConfigError
from stowplan.plugin_failures import shown_from
from stowplan.server.memory import grow_without_collecting, keep_freed_memory
from stowplan.sim.results.comparing import figures_of
from stowplan.sim.results.conditions import unpriced_types
from stowplan.sim.results.run import Run
from stowplan.sim.scenarios import Cluster, Options, Outcome, play_trace, run_scenario
from stowplan.sim.scenarios.report import DecisionLog
from stowplan.sim.scenarios.scheduling import read_scheduling
from stowplan.sim.sweep.inputs import read_scenario, read_trace
from stowplan.sim.sweep.tasks import Task, Workload, inputs_of, plugin_hash

#: Every N-th decision is verified on a rebuilt cluster.
_VERIFIED: Final = 100
#: A simulation seeds Python's global random numbers, so a process runs one at a time.
_alone = Lock()


class Played(msgspec.Struct, frozen=True):
    """The result of a task."""

    key: str
    row: dict[str, Any]
    #: CPU seconds that it took; for measurements, not for the results.
    cpu_s: float = 0.0
    #: Gzipped; empty unless requested.
    run: bytes = b""
    decisions: bytes = b""


class _Sink:
    """Hashes the lines of a decision log, and optionally keeps them."""

    def __init__(self, keeps: bool) -> None:
        self._hash = hashlib.sha256()
        self._lines: list[bytes] | None = [] if keeps else None

    def write(self, text: str) -> None:
        line = text.encode()
        self._hash.update(line)
        if self._lines is not None:
            self._lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def packed(self) -> bytes:
        return _packed(b"".join(self._lines)) if self._lines is not None else b""


def play(task: Task, keeps_run: bool = False, keeps_decisions: bool = False) -> Played:
    """Run a task. Raises ConfigError if this process has another version or other files."""
    if task.version != __version__:
        raise ConfigError(
            f"a worker has Stowplan {__version__}, and the sweep is of {task.version}. "
            "Fix: install the same version on all workers"
        )
    with _alone:
        _prepare()
        _check_inputs(task.workload)
        began = time.process_time()
        sink = _Sink(keeps_decisions)
        token = shown_from.set(Path(task.folder))
        try:
            outcome = _outcome(task, DecisionLog(sink.write))
        finally:
            shown_from.reset(token)
        assert outcome.run is not None
        run = outcome.run
        played = Played(
            task.key,
            _row(task, outcome, run, sink.digest),
            time.process_time() - began,
            _packed(msgspec.json.encode(run)) if keeps_run else b"",
            sink.packed(),
        )
        del outcome, run
        gc.collect()  # free the cluster before the next task
        return played


@cache
def _prepare() -> None:
    # The row of a task has its problem, also the failure of a plugin.
    logging.getLogger("stowplan").setLevel(logging.CRITICAL)
    keep_freed_memory()
    grow_without_collecting()


def _check_inputs(workload: Workload) -> None:
    """Raise ConfigError if the files differ from those that were hashed into the key."""
    nodes = Path(workload.nodes) if workload.nodes else None
    layouts = (workload.columns, workload.node_columns)
    if inputs_of(workload.kind, Path(workload.file), nodes, layouts) != workload.inputs:
        raise _changed(workload.file)


def _check_plugins(task: Task) -> None:
    """Raise ConfigError if the code of a loaded plugin differs likewise."""
    for named, expected in task.plugins.items():
        if plugin_hash(named, Path(task.folder)) != expected:
            raise _changed(named)


def _changed(what: str) -> ConfigError:
    return ConfigError(
        "or a file that it refers to has other contents than when the sweep began, or on another"
        " machine. Fix: leave inputs alone while a sweep runs, and give all workers the same files",
        where=what,
    )


def _outcome(task: Task, log: DecisionLog) -> Outcome:
    workload = task.workload
    options = Options(
        name=task.label,
        seed=task.seed,
        on_entry=log,
        writes_events=workload.file.endswith(".py"),
        # Expectations of scenarios read the entries.
        keeps_entries=workload.kind == "scenario",
        verify_decisions=_VERIFIED,
        observes=True,
        prices=task.prices,
    )
    scheduling = read_scheduling(
        task.config,
        list(task.plugins),
        folder=Path(task.folder),
        where_config=task.label,
        where_plugins="plugins",
    )
    _check_plugins(task)
    if workload.kind == "scenario":
        playable = read_scenario(workload, task.seed, task.plugins)
        options = playable.prepare(options)
        if task.config is not None:
            options = replace(options, config=scheduling.config)
        playable.prepare = lambda options: options
        return playable.play("virtual", options)
    trace = read_trace(workload, task.seed)

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace)

    options = replace(options, config=scheduling.config, registry=scheduling.registry)
    return run_scenario(scenario, options=options)


def _row(task: Task, outcome: Outcome, run: Run, decisions: str) -> dict[str, Any]:
    unmet = [each.text for each in outcome.expectations if not each.is_met]
    problem = outcome.problem or (f"not met: {'; '.join(unmet)}" if unmet else "")
    if problem and task.workload.kind != "scenario" and not problem.startswith(task.workload.file):
        problem = f"{task.workload.file}: {problem}"
    if not problem and outcome.plugin_failure:
        problem = f"a plugin failed: {outcome.plugin_failure}"
    return {
        "task": task.key,
        "run": task.label,
        "workload": task.workload.name,
        "configuration": task.configuration,
        **task.parameters,
        "seed": task.seed,
        "seconds": run.seconds,
        **{name: round(number, 6) for name, number in figures_of(run).items()},
        **({"unpriced": unpriced_types(run)} if task.prices else {}),
        "decisions": decisions,
        "warnings": "; ".join(outcome.warnings),
        "problem": _shown(problem, task),
    }


def _shown(problem: str, task: Task) -> str:
    """A problem in one line, with paths that are the same on every machine."""
    text = "; ".join(problem.splitlines())
    for file in (task.workload.file, *(each.rpartition(":")[0] for each in task.plugins)):
        if file.startswith("/"):
            text = text.replace(file, os.path.relpath(file, task.folder))
    return text.replace(f"{task.folder}/", "")


def _packed(data: bytes) -> bytes:
    # Without a time in the header, equal contents are equal files.
    return gzip.compress(data, 6, mtime=0)
