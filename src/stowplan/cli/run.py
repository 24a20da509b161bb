"""`stowplan run`: schedule the pods of a real cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import uuid
from dataclasses import dataclass

import click
import msgspec

from stowplan import __version__
from stowplan.cli.options import duration, kubeconfig_options, logging_options
from stowplan.config.durations import Duration
from stowplan.config.types import KubeSchedulerConfiguration

DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_LEASE = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line, after defaults."""

    config: KubeSchedulerConfiguration
    kubeconfig: str | None
    context: str | None
    namespace: str
    bind_address: str
    port: int
    where: str


@click.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as kube-scheduler takes it.",
)
@kubeconfig_options
@click.option(
    "--scheduler-name",
    metavar="NAME",
    help="Serve pods with this schedulerName; only for a configuration with one profile.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    default="",
    help="Serve this namespace only; needs no cluster-wide rights on pods.",
)
@click.option(
    "--leader-elect",
    type=bool,
    default=None,
    is_flag=False,
    flag_value=True,
    help="Hold a Lease while scheduling, so that replicas do not get in each other's way. "
    "[default: true]",
)
@click.option("--leader-elect-lease-duration", type=duration, default=None, help="[default: 15s]")
@click.option("--leader-elect-renew-deadline", type=duration, default=None, help="[default: 10s]")
@click.option("--leader-elect-retry-period", type=duration, default=None, help="[default: 2s]")
@click.option("--leader-elect-resource-name", metavar="NAME", default=None)
@click.option("--leader-elect-resource-namespace", metavar="NS", default=None)
@click.option("--bind-address", default="0.0.0.0", show_default=True)  # noqa: S104 - as upstream
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=10251,
    show_default=True,
    help="Port of /healthz, /readyz and /metrics; 0 turns them off.",
)
@logging_options
def run(
    config_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    scheduler_name: str | None,
    namespace: str,
    leader_elect: bool | None,
    leader_elect_lease_duration: Duration | None,
    leader_elect_renew_deadline: Duration | None,
    leader_elect_retry_period: Duration | None,
    leader_elect_resource_name: str | None,
    leader_elect_resource_namespace: str | None,
    bind_address: str,
    port: int,
) -> None:
    """Schedule the pods of a cluster.

    Serves the pods whose schedulerName is one of the configured profiles ("default-scheduler"
    without a configuration), in or out of the cluster. Ends with exit code 0 on SIGTERM or Ctrl-C,
    after the binds under way.
    """
    from stowplan.config.load import default_config, load_config

    config = load_config(config_file) if config_file else default_config()
    if scheduler_name:
        config = _rename_profile(config, scheduler_name)
    election = {
        "leader_elect": leader_elect,
        "lease_duration": leader_elect_lease_duration,
        "renew_deadline": leader_elect_renew_deadline,
        "retry_period": leader_elect_retry_period,
        "resource_name": leader_elect_resource_name,
        "resource_namespace": leader_elect_resource_namespace,
    }
    if namespace and leader_elect_resource_namespace is None:
        # Whoever has rights in one namespace only keeps the lease there too.
        election["resource_namespace"] = namespace
    first = config.profiles[0].scheduler_name
    lease = leader_elect_resource_name or config.leader_election.resource_name
    if lease == DEFAULT_LEASE and first != DEFAULT_SCHEDULER:
        # DIVERGES: a second scheduler that asked for kube-scheduler's own lease would never lead,
        # or stop the first from leading, so it gets one by its own name.
        election["resource_name"] = first
    chosen = {field: value for field, value in election.items() if value is not None}
    config = msgspec.structs.replace(
        config, leader_election=msgspec.structs.replace(config.leader_election, **chosen)
    )
    options = RunOptions(
        config=config,
        kubeconfig=kubeconfig or config.client_connection.kubeconfig or None,
        context=context,
        namespace=namespace,
        bind_address=bind_address,
        port=port,
        where=config_file or "",
    )
    _run_on_best_loop(options)


def _rename_profile(config: KubeSchedulerConfiguration, name: str) -> KubeSchedulerConfiguration:
    if len(config.profiles) != 1:
        raise click.UsageError(
            f"--scheduler-name names one profile, but the configuration has {len(config.profiles)}"
        )
    profile = msgspec.structs.replace(config.profiles[0], scheduler_name=name)
    return msgspec.structs.replace(config, profiles=(profile,))


def _run_on_best_loop(options: RunOptions) -> None:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serve(options))
    else:
        uvloop.run(serve(options))


async def serve(options: RunOptions) -> None:
    """Run until a signal; errors go to the command line."""
    from stowplan.api.client import ApiClient
    from stowplan.api.kubeconfig import load_cluster_config
    from stowplan.config.load import to_object
    from stowplan.logs import get_logger, kv
    from stowplan.scheduler.assembly import build_engine
    from stowplan.scheduler.process import Election, SchedulerProcess
    from stowplan.server.http import HttpServer

    log = get_logger(__name__)
    config = options.config
    engine = build_engine(config, where=options.where)
    cluster = load_cluster_config(kubeconfig=options.kubeconfig, context=options.context)
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
    _stop_on_signals(stop)
    log.info("Starting", extra=kv(version=__version__, server=cluster.server))
    async with ApiClient(cluster, user_agent=f"stowplan/{__version__}") as client:
        await _check_rights(client, options)
        process = SchedulerProcess(
            engine,
            client,
            identity=f"{next(iter(engine.profiles))}-{host}",
            namespace=options.namespace,
            election=election,
        )
        server = HttpServer(
            engine.metrics,
            healthz={"leaderElection": lambda: None if process.is_alive() else "lease ran out"},
            readyz={"sched-handler-sync": lambda: None if process.is_synced() else "not synced"},
            configz=lambda: to_object(config),
        )
        if options.port:
            await server.start(options.bind_address, options.port)
        try:
            await process.run(stop)
        finally:
            await server.stop()
    log.info("Stopped")


async def _check_rights(client: object, options: RunOptions) -> None:
    """Say in one go what the credentials lack, instead of failing request by request."""
    from stowplan.api.client import ApiClient
    from stowplan.errors import Forbidden
    from stowplan.logs import get_logger, kv
    from stowplan.scheduler.access import missing_rights

    assert isinstance(client, ApiClient)
    election = options.config.leader_election
    lease = (election.resource_namespace, election.resource_name) if election.leader_elect else None
    missing = await missing_rights(client, namespace=options.namespace, lease=lease)
    for right in missing:
        if right.is_optional:
            get_logger(__name__).warning("A right is missing", extra=kv(right=str(right)))
    needed = [str(right) for right in missing if not right.is_optional]
    if needed:
        raise Forbidden(
            "the credentials may not: " + "; ".join(needed) + ". See deploy/scheduler for the "
            "roles that stowplan needs"
            + ("" if options.namespace else ", or serve one namespace with --namespace")
        )


def _stop_on_signals(stop: asyncio.Event) -> None:
    """The first signal ends in good order, the second at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
