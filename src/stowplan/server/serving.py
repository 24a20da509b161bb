"""A whole scheduler as a process: engine, API client, HTTP endpoints and signals.

`stowplan run` and the library's `stowplan.run` both end here. Nothing below this knows of signals
or ports; nothing above knows how a scheduler is put together.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.objects import Node
from stowplan.config.feature_gates import FeatureGates
from stowplan.config.kubernetes_version import ShownVersions
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.config.written import written_config
from stowplan.errors import ConfigError, Forbidden
from stowplan.framework.registry import Registry
from stowplan.logs import get_logger, kv
from stowplan.plugins.registry import in_tree_registry
from stowplan.redaction import redact, redact_url
from stowplan.scheduler.access import ANNOTATE_RIGHTS, grouped, missing_rights
from stowplan.scheduler.assembly import build_engine
from stowplan.scheduler.engine import Engine
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.ledger import Entry as Attempt
from stowplan.scheduler.ledger import Ledger, LedgerOptions
from stowplan.scheduler.metrics import SchedulerMetrics
from stowplan.scheduler.metrics_filter import MetricsFilter
from stowplan.scheduler.outcome import Failure
from stowplan.scheduler.process import Election, SchedulerProcess
from stowplan.server.debugger import CacheDebugger
from stowplan.server.decide_api import add_decide
from stowplan.server.explain_api import add_explain
from stowplan.server.health import HealthServer, Site
from stowplan.server.health_slis import Check
from stowplan.server.listen import open_port
from stowplan.server.memory import (
    grow_without_collecting,
    keep_freed_memory,
    spare_the_collector,
)
from stowplan.server.pod_resources import pod_resources
from stowplan.server.recording import RecordingProcess, RecordOptions
from stowplan.server.serving_options import ConsoleOptions, ServingOptions
from stowplan.server.standby import why_idle
from stowplan.server.tracing import start_tracing
from stowplan.server.v1 import V1
from stowplan.server.zpages import add_zpages

if TYPE_CHECKING:
    from stowplan.console.mirror import ClusterMirror

log = get_logger(__name__)

#: uvloop may report one signal twice if another arrives at the same moment. A signal within this
#: time of the last one is such a repeat: no user presses Ctrl-C that fast.
_ONE_SIGNAL_S = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of a running scheduler."""

    config: KubeSchedulerConfiguration
    #: None: the one that the configuration names, else where kubectl looks.
    kubeconfig: str | None = None
    context: str | None = None
    #: Replaces the address of the API server; "" for the kubeconfig's.
    master: str = ""
    #: Requests per second of each lane, and how many may exceed it for a moment; 0: no limit.
    qps: float = 0.0
    burst: int = 0
    #: "" means all namespaces.
    namespace: str = ""
    #: The endpoints; None: no ports.
    serving: ServingOptions | None = None
    #: None: no console.
    console: ConsoleOptions | None = None
    #: kube-scheduler's feature gates, for metrics.
    gates: FeatureGates = field(default_factory=FeatureGates)
    versions: ShownVersions = field(default_factory=ShownVersions)
    #: What /metrics leaves out; None: nothing.
    metrics_filter: MetricsFilter | None = None
    #: The configuration's file, for messages.
    where: str = ""
    #: None: the in-tree plugins and those of installed distributions.
    registry: Registry | None = None
    ledger: LedgerOptions = field(default_factory=LedgerOptions)
    #: None: no recording.
    record: RecordOptions | None = None
    #: Write the results of attempts into pods.
    annotate: bool = False
    #: Make every N-th decision again on a rebuilt cluster and compare; 0: never.
    verify_decisions: int = 0
    #: Retry a pod that was unschedulable for this long.
    max_in_unschedulable_s: float = 300.0
    #: Called with every node that joins the cluster.
    on_node: Callable[[Node], None] | None = None
    #: Called with every failed attempt to schedule or bind a pod.
    on_failure: Callable[[Failure], None] | None = None
    #: Write the event `Scheduled` about every bind.
    scheduled_event: bool = True


def run_until_signal(options: ServeOptions) -> None:
    """Serve on uvloop where it is installed, until SIGTERM or Ctrl-C."""
    keep_freed_memory()
    grow_without_collecting()
    run_on_loop(serve(options))


def run_on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop if it is installed, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


async def serve(options: ServeOptions) -> None:
    """Run a scheduler until a signal; errors are raised to the command line."""
    config = options.config
    engine = build_engine(
        config,
        registry=options.registry,
        where=options.where,
        max_in_unschedulable_s=options.max_in_unschedulable_s,
    )
    engine.metrics.shown = options.metrics_filter
    engine.metrics.versions = options.versions
    engine.metrics.feature_enabled.read = options.gates.effective
    engine.verify_decisions(options.verify_decisions)
    cluster = load_cluster_config(
        kubeconfig=options.kubeconfig or config.client_connection.kubeconfig or None,
        context=options.context,
        master=options.master,
    )
    host = socket.gethostname()
    lease = config.leader_election
    election = None
    if lease.leader_elect:
        election = Election(
            name=lease.resource_name,
            namespace=lease.resource_namespace,
            identity=f"{host}_{uuid.uuid4()}",
            lease_duration_s=lease.lease_duration,
            renew_deadline_s=lease.renew_deadline,
            retry_period_s=lease.retry_period,
        )
    stop = asyncio.Event()
    stop_on_signals(stop)
    version = f"v{options.versions.with_own(__version__)}"
    server_url = redact_url(cluster.server)
    log.info("Starting Kubernetes Scheduler", extra=kv(version=version, server=server_url))
    async with (
        ApiClient(
            cluster,
            user_agent=f"stowplan/{__version__}",
            qps=options.qps,
            burst=options.burst,
            observer=engine.metrics.requests,
        ) as client,
        AsyncExitStack() as ports,
    ):
        _start_tracing(ports, engine)
        _start_ledger(ports, engine, options)
        handlers: Callable[[Engine], EventHandlers] = EventHandlers
        if options.on_node is not None:
            handlers = partial(_NodeWatcher, on_node=options.on_node)
        mirror = None
        if options.console is not None:
            # Loaded only if it is used: it needs the packages of `stowplan explain`.
            from stowplan.console.mirror import MirroringHandlers, mirror_of

            mirror = mirror_of(config, options.registry)
            handlers = partial(MirroringHandlers, mirror=mirror)
        process = SchedulerProcess(
            engine,
            client,
            namespace=options.namespace,
            election=election,
            handlers=handlers,
            annotates=options.annotate,
        )
        names = (options.registry or in_tree_registry()).names
        watchdog: dict[str, Check] = {}
        if election is not None:
            watchdog["leaderElection"] = lambda: None if process.is_alive() else "lease ran out"
        process.reporter.on_failed = options.on_failure
        process.reporter.writes_scheduled = options.scheduled_event
        server = HealthServer(
            engine.metrics,
            healthz=watchdog,
            readyz={
                **watchdog,
                "shutdown": lambda: "process is shutting down" if stop.is_set() else None,
                "sched-handler-sync": lambda: (
                    None if process.is_synced() else "handlers are not fully synchronized"
                ),
            },
            configz=lambda: redact(written_config(config, names)),
        )
        server.site.routes["/metrics/resources"] = pod_resources(
            process.informers["pods"].store.values, process.scheduling.is_set
        )
        if options.serving is not None and options.serving.secure_port:
            _add_v1(server.site, process, options.registry)
        await _open_ports(ports, server, options.serving, client, engine.metrics)
        if mirror is not None and options.console is not None:
            mirror.is_synced = process.is_synced
            await _open_console(ports, mirror, process, options, client)
        debugger = CacheDebugger(engine, client, options.namespace)
        _on_debug_signal(debugger.start)
        settling = asyncio.create_task(_settle(process), name="gc")
        try:
            # Only now: with an API server that does not answer, health must be served already.
            await process.run(stop, check=_check_rights(client, options, engine))
        finally:
            settling.cancel()
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)
            debugger.stop()
    log.info("Requested to terminate, exiting")
    log.info("Stopped")


def _start_tracing(until: AsyncExitStack, engine: Engine) -> None:
    export = start_tracing("stowplan", engine.clock)
    if export is None:
        return
    from stowplan.server.attempt_spans import AttemptSpans  # the SDK is loaded only if it is used

    until.push_async_callback(export.close)
    engine.tracer = AttemptSpans(export)
    engine.metrics.spans_exported.read = lambda: {(): export.exported}
    engine.metrics.spans_dropped.read = lambda: {(k,): v for k, v in export.dropped.items()}


def _start_ledger(until: AsyncExitStack, engine: Engine, options: ServeOptions) -> None:
    """Keep attempts where a reader can get at them: secure port, console or a file."""
    chosen = options.ledger
    has_port = options.serving is not None and options.serving.secure_port
    has_reader = has_port or options.console is not None or options.record is not None
    if chosen.file and not chosen.memory:
        raise ConfigError("needs memory. Fix: leave out --ledger-memory=0", where="--ledger")
    recording = _start_recording(until, engine, options)
    if not chosen.memory or not (has_reader or chosen.file):
        return
    ledger = engine.ledger = Ledger(engine.clock, chosen.memory)
    engine.metrics.ledger_bytes.read = lambda: {(): ledger.size}
    if chosen.file:
        from stowplan.scheduler.ledger_file import LedgerFile  # SQLite is loaded only if it is used

        file = LedgerFile(chosen.file, chosen.file_size)
        ledger.on_ended = file.put
        engine.metrics.ledger_dropped.read = lambda: {(): file.dropped}
        until.push_async_callback(asyncio.to_thread, file.close)
    if recording is not None:
        ledger.on_ended = _both(ledger.on_ended, recording.put)


def _both(
    first: Callable[[Attempt], None] | None, second: Callable[[Attempt], None]
) -> Callable[[Attempt], None]:
    if first is None:
        return second

    def call(attempt: Attempt) -> None:
        first(attempt)
        second(attempt)

    return call


def _start_recording(
    until: AsyncExitStack, engine: Engine, options: ServeOptions
) -> RecordingProcess | None:
    if options.record is None:
        return None
    kubeconfig = options.kubeconfig or options.config.client_connection.kubeconfig
    access = {"kubeconfig": kubeconfig, "context": options.context, "master": options.master}
    recording = RecordingProcess(options.record, access)
    engine.metrics.recording.read = lambda: {(): int(recording.is_recording)}
    engine.metrics.recording_failures.read = lambda: {(): recording.failures}
    engine.metrics.recording_dropped.read = lambda: {(): recording.dropped}
    until.push_async_callback(asyncio.to_thread, recording.close)
    return recording


async def _open_ports(
    ports: AsyncExitStack,
    server: HealthServer,
    options: ServingOptions | None,
    client: ApiClient,
    metrics: SchedulerMetrics,
) -> None:
    if options is None:
        return
    version = metrics.versions.with_own(__version__)
    add_zpages(server.site, options.flags, version=version, profiling=options.profiling)
    if options.plain_port:
        await server.start(options.bind_address, options.plain_port)
        ports.push_async_callback(server.stop)
    if options.secure_port:
        from stowplan.server.https import https_port  # few milliseconds, that others need not spend

        await ports.enter_async_context(https_port(server.site, options, client, metrics))


async def _open_console(
    ports: AsyncExitStack,
    mirror: ClusterMirror,
    process: SchedulerProcess,
    options: ServeOptions,
    client: ApiClient,
) -> None:
    from stowplan.console.serving import Console

    console = Console(mirror, process.engine)
    console.why_idle = partial(why_idle, process)
    chosen = options.console or ConsoleOptions()
    access = None
    if chosen.has_sign_in:
        from stowplan.server.console_access import console_access

        serving = replace(options.serving or ServingOptions(), bind_address=chosen.address)
        access = await ports.enter_async_context(console_access(chosen, serving, client))
    ports.push_async_callback(console.stop)
    await console.start(open_port(chosen.address, chosen.port, flag="--console"), access)
    log.info("Serving the console", extra=kv(url=console.url))


def _add_v1(site: Site, process: SchedulerProcess, registry: Registry | None) -> None:
    """Add the JSON API, which only the HTTPS port serves."""
    v1 = V1(site)
    add_decide(v1, process, registry)
    add_explain(v1, process)


class _NodeWatcher(EventHandlers):
    """Passes new nodes on to a function of the user's own, too."""

    def __init__(self, engine: Engine, on_node: Callable[[Node], None]) -> None:
        super().__init__(engine)
        self._on_node = on_node

    def add_node(self, node: Node) -> None:
        self._on_node(node)
        super().add_node(node)


async def _settle(process: SchedulerProcess) -> None:
    await process.scheduling.wait()
    spare_the_collector()


async def _check_rights(client: ApiClient, options: ServeOptions, engine: Engine) -> None:
    """Report all missing permissions at once, instead of failing request by request."""
    console = options.console
    if console is not None and console.has_sign_in:
        from stowplan.server.console_access import check_delegation

        await check_delegation(console, client)
    election = options.config.leader_election
    lease = (election.resource_namespace, election.resource_name) if election.leader_elect else None
    missing = await missing_rights(
        client,
        namespace=options.namespace,
        lease=lease,
        plugins=engine.plugins(),
        more=ANNOTATE_RIGHTS if options.annotate else (),
    )
    for right in missing:
        if right.is_optional:
            log.warning("A permission is missing", extra=kv(right=str(right)))
    needed = [right for right in missing if not right.is_optional]
    if needed:
        raise Forbidden(
            f"the credentials do not allow: {'; '.join(grouped(needed))}. See deploy/scheduler for "
            "the roles that stowplan needs"
            + ("" if options.namespace else ", or serve one namespace with --namespace")
        )


def _on_debug_signal(start: Callable[[], None]) -> None:
    """Call `start` on SIGUSR2, by a signal handler of our own.

    The loop removes its handlers on its way out. For a moment the default applies, and a signal to
    any thread would then end the process. This handler is replaced in one step.
    """
    loop = asyncio.get_running_loop()
    signal.signal(signal.SIGUSR2, lambda *_: loop.call_soon_threadsafe(start))


def stop_on_signals(stop: asyncio.Event) -> None:
    """Stop in good order at the first signal, exit at once at the second."""
    loop = asyncio.get_running_loop()
    stopped_at = 0.0

    def on_signal() -> None:
        nonlocal stopped_at
        if not stop.is_set():
            stopped_at = loop.time()
            stop.set()
        elif loop.time() - stopped_at > _ONE_SIGNAL_S:
            os._exit(1)

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, on_signal)
