"""Play a scenario on a target: open the target, start a scheduler there, and return the outcome.

Used by `stowplan simulate`, the lessons, the testing kit and tests. The scheduler runs in this
process on every target, so that its decisions are seen as they are made.
"""

from __future__ import annotations

import asyncio
import random
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stowplan.api.informer import Informer
from stowplan.api.objects import Node, Pod
from stowplan.api.resources import NODES, PODS
from stowplan.apiserver import kinds
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.clock import SystemClock
from stowplan.config.defaults import default_config
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import StowplanError
from stowplan.framework.registry import Registry
from stowplan.present.tables import counted
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.informers import Means
from stowplan.scheduler.metric_families import Family, Value
from stowplan.scheduler.process import SchedulerProcess
from stowplan.sim.results.observing import RunObserver
from stowplan.sim.scenarios.actions import Json
from stowplan.sim.scenarios.cluster import Cluster
from stowplan.sim.scenarios.explanation import Explainer
from stowplan.sim.scenarios.facts import node_of
from stowplan.sim.scenarios.own_names import under_own_names
from stowplan.sim.scenarios.quiet import Quiet
from stowplan.sim.scenarios.recording import Recording, Witness
from stowplan.sim.scenarios.targets import (
    Target,
    embedded_target,
    existing_target,
    real_target,
    virtual_target,
)
from stowplan.sim.scenarios.timeline import Entry, Outcome
from stowplan.sim.virtual.time_loop import run_virtually

if TYPE_CHECKING:
    from stowplan.sim.scenarios.console import ConsoleOptions, ScenarioConsole

Scenario = Callable[[Cluster], Awaitable[None]]
#: Code of ours that plays files.
_PLAYERS: Final = tuple(f"{Path(__file__).parents[2] / each}/" for each in ("cli", "sim"))


@dataclass(frozen=True, slots=True)
class Options:
    """How a scenario is played."""

    name: str = ""
    #: None: the defaults of kube-scheduler.
    config: KubeSchedulerConfiguration | None = None
    #: None: the in-tree plugins and those of installed distributions.
    registry: Registry | None = None
    #: False: there is no scheduler unless the scenario starts one.
    with_scheduler: bool = True
    seed: int = 0
    #: How long the cluster must be quiet where the scheduler is not ours and may still have work.
    settle_s: float = 0.0
    #: How long, in the cluster's time, it may take to become quiet.
    patience_s: float = 600.0
    #: Of the stand-ins on virtual and embedded clusters.
    kubelet: KubeletOptions = field(default_factory=KubeletOptions)
    #: False saves a sixth of the time where they are not needed.
    writes_events: bool = True
    on_entry: Callable[[Entry], None] | None = None
    keeps_entries: bool = True
    #: The cluster is set up as scheduler_perf sets up its own: no kubelets, pods say their
    #: priority themselves, and a real API server gets these feature gates.
    as_scheduler_perf: bool = False
    #: Beside `as_scheduler_perf`: a real control plane makes claims from templates.
    device_claims: bool = False
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    #: For a kubeconfig.
    context: str | None = None
    allow_remote: bool = False
    #: Every N-th decision is made again on a rebuilt cluster and compared; 0: none.
    verify_decisions: int = 10
    #: `on_entry` gets decisions with all scores and reasons; kept entries do not have them.
    explains: bool = False
    #: The outcome has what a page needs to draw the cluster over time.
    draws: bool = False
    #: The outcome has a `run`, to be compared with others; `prices` of nodes are per hour.
    observes: bool = False
    prices: Mapping[str, float] = field(default_factory=dict)
    #: Show the cluster in the web console, and keep it until Ctrl-C; only in real time.
    console: ConsoleOptions | None = None


def run_scenario(
    scenario: Scenario, *, on: str = "virtual", options: Options | None = None
) -> Outcome:
    """Play it to its end. What fails in the scenario is in the outcome; StowplanError is raised
    where it cannot be played at all.
    """
    options = options or Options()
    if on != "virtual":
        return asyncio.run(_play(scenario, on, options))
    # Pauses between retries and the like are drawn from the common source.
    state = random.getstate()
    random.seed(options.seed)
    try:
        return run_virtually(lambda _: _play(scenario, on, options))
    finally:
        random.setstate(state)


def _open(on: str, options: Options) -> AbstractAsyncContextManager[Target]:
    match on:
        case "virtual":
            return virtual_target(
                options.kubelet,
                seed=options.seed,
                compute_priority=not options.as_scheduler_perf,
            )
        case "embedded":
            return embedded_target(options.kubelet, compute_priority=not options.as_scheduler_perf)
        case "real":
            return real_target(
                as_scheduler_perf=options.as_scheduler_perf,
                device_claims=options.device_claims,
                feature_gates=options.feature_gates,
            )
    return existing_target(on, context=options.context, allow_remote=options.allow_remote)


async def _play(scenario: Scenario, on: str, options: Options) -> Outcome:
    began = time.monotonic()
    outcome = Outcome(options.name or getattr(scenario, "__name__", ""), on, options.seed)
    async with _open(on, options) as target:
        monotonic = target.clock.monotonic
        started_at = monotonic()

        def now() -> float:
            return monotonic() - started_at

        observer = None
        if options.observes:
            observer = RunObserver(outcome.name, now, options.prices)
        recording = Recording(
            now,
            on_entry=options.on_entry,
            keeps_entries=options.keeps_entries,
            prefix=target.prefix,
            draws=options.draws,
            observer=observer,
        )
        console = _console(target, options)
        async with _scheduler(target, options, recording, console) as process:
            quiet = Quiet(
                target,
                process,
                calm_s=max(target.calm_s, options.settle_s),
                patience_s=options.patience_s,
            )
            cluster = Cluster(target, recording, quiet, process, seed=options.seed)
            async with cluster.kept_apart():
                await _run(scenario, cluster, outcome)
                outcome.nodes = await _final(cluster, kinds.NODES)
                outcome.pods = await _final(cluster, kinds.PODS)
                outcome.figures = recording.measurement.figures()
                if process is not None:
                    _tell_unserved(cluster, process, outcome.pods)
                outcome.counts = dict(recording.counts)
                outcome.warnings = recording.warnings
                outcome.cluster_s = now()
                outcome.drawing = recording.drawing
                recording.close()
                if console is not None and process is not None:
                    await console.until_stopped()
            outcome.expectations = recording.expectations
            outcome.run = None if observer is None else observer.finish()
            if process is not None:
                outcome.counts["verified"] = _sum(process.engine.metrics.decision_checks)
                outcome.plugin_failure = process.engine.failures.latest
                _name_plugin(outcome, outcome.plugin_failure)
                outcome.problem = outcome.problem or process.engine.mismatches()
        outcome.entries = recording.entries
    outcome.placements = {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["spec"].get("nodeName", "")
        for pod in outcome.pods
    }
    outcome.took_s = time.monotonic() - began
    return outcome


def _console(target: Target, options: Options) -> ScenarioConsole | None:
    if options.console is None:
        return None
    from stowplan.sim.scenarios.console import ScenarioConsole  # takes long to load

    config = options.config or default_config()
    return ScenarioConsole(options.console, config, options.registry, target.pretend)


def _tell_unserved(cluster: Cluster, process: SchedulerProcess, pods: list[Json]) -> None:
    """Say which pods no scheduler will ever try: they would wait without a reason."""
    asked = Counter(
        name
        for pod in pods
        if not node_of(pod)
        and (name := pod["spec"].get("schedulerName", "")) not in process.engine.profiles
    )
    known = ", ".join(process.engine.profiles)
    for name, number in asked.most_common():
        cluster.warn(
            f"{counted(number, 'pod')} of schedulerName {name or '(none)'} cannot be placed: the"
            f" configuration has profiles for {known} only"
        )


async def _final(cluster: Cluster, kind: kinds.Kind) -> list[Json]:
    """All objects of a kind, at the end; those of this process are neither encoded nor copied."""
    pretend = cluster.target.pretend
    if pretend is None:
        return await cluster.list(kind.kind, namespace="*")
    return [record.object for record in pretend.store.records(kind)]


def _sum(family: Family[Value]) -> int:
    return round(sum(child.value for child in family.children.values()))


async def _run(scenario: Scenario, cluster: Cluster, outcome: Outcome) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            cluster.group = group
            await scenario(cluster)
            cluster.end_companions()
    except BaseExceptionGroup as problems:
        outcome.problem = explain(problems.exceptions[0], scenario)
    # Errors of a scenario are reported, not raised: the cluster must be cleaned up.


def _name_plugin(outcome: Outcome, failure: str) -> None:
    """Name the plugin that failed, as the likely cause, if the scenario did."""
    if failure and not outcome.is_ok and failure not in outcome.problem:
        told = f"a plugin failed: {failure}"
        outcome.problem = f"{outcome.problem}\n{told}" if outcome.problem else told


@asynccontextmanager
async def _scheduler(
    target: Target, options: Options, recording: Recording, console: ScenarioConsole | None
) -> AsyncIterator[SchedulerProcess | None]:
    """Our scheduler, running and synced; or only a recorder, where none is wanted."""
    if not options.with_scheduler:
        async with _eyes(target, recording):
            yield None
        return
    config = options.config or default_config()
    engine = build_engine(
        under_own_names(config, target.prefix) if target.is_shared else config,
        registry=options.registry,
        clock=target.clock,
        stopwatch_clock=SystemClock(),
        # Only the console shows metrics.
        observes_durations=console is not None or not target.is_virtual,
        rng=random.Random(options.seed),
    )
    engine.verify_decisions(options.verify_decisions)
    if options.explains:
        recording.explainer = engine.on_decision = Explainer(engine)
    process = SchedulerProcess(
        engine,
        target.scheduler_client,
        identity="scenario",
        clock=target.clock,
        on_outcome=recording.decided,
        handlers=partial(Witness if console is None else console.handlers, recording=recording),
        means=Means(writes_events=options.writes_events),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop), name="scheduler")
    starting = asyncio.create_task(process.scheduling.wait())
    try:
        await asyncio.wait([running, starting], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        async with nullcontext() if console is None else console.served(engine):
            yield process
    finally:
        starting.cancel()
        stop.set()
        await running


@asynccontextmanager
async def _eyes(target: Target, recording: Recording) -> AsyncIterator[None]:
    informers: list[Informer[Pod] | Informer[Node]] = [
        Informer(
            target.client,
            PODS,
            on_add=recording.pod_added,
            on_update=recording.pod_updated,
            on_delete=recording.pod_removed,
            clock=target.clock,
        ),
        Informer(
            target.client,
            NODES,
            on_add=recording.node_added,
            on_update=recording.node_updated,
            on_delete=recording.node_removed,
            clock=target.clock,
        ),
    ]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        for informer in informers:
            await informer.synced.wait()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def explain(problem: BaseException, scenario: Scenario) -> str:
    """What went wrong in a scenario, and on which of its lines."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    code = getattr(scenario, "__code__", None)
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    if own and own[-1].filename.startswith(_PLAYERS):
        own = []  # the line of our code would not help
    where = f"{own[-1].filename}:{own[-1].lineno}: " if own else ""
    if isinstance(problem, AssertionError):
        line = (own[-1].line or "") if own else ""
        said = str(problem) or line.removeprefix("assert ").strip()
        return f"{where}not so: {said}"
    if isinstance(problem, StowplanError):
        return f"{where}{problem}"
    return f"{where}{type(problem).__name__}: {problem}"
