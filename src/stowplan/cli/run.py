"""`stowplan run`: schedule the pods of a real cluster."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from stowplan.cli.options import (
    duration,
    kubeconfig_options,
    logging_options,
    plugin_option,
    verify_option,
)
from stowplan.config.durations import Duration
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError

if TYPE_CHECKING:
    from stowplan.framework.plugin import Plugin
    from stowplan.framework.registry import Registry

DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_LEASE = "kube-scheduler"


@click.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration file (kubescheduler.config.k8s.io/v1), as for kube-scheduler.",
)
@click.option(
    "--write-config-to",
    metavar="FILE",
    help="Write the complete effective configuration to FILE, including secrets, and exit.",
)
@plugin_option
@kubeconfig_options
@click.option(
    "--scheduler-name",
    metavar="NAME",
    help="Schedule pods with this schedulerName. Needs a configuration with one profile.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    default="",
    help="Schedule pods of this namespace only. Needs no cluster-wide access to pods.",
)
@click.option(
    "--leader-elect",
    type=bool,
    default=None,
    is_flag=False,
    flag_value=True,
    help="Schedule only while holding a Lease, so that one of several replicas is active. "
    "[default: true]",
)
@click.option(
    "--leader-elect-lease-duration",
    type=duration,
    default=None,
    help="How long a Lease is valid without renewal. [default: 15s]",
)
@click.option(
    "--leader-elect-renew-deadline",
    type=duration,
    default=None,
    help="How long the leader tries to renew its Lease before it gives up. [default: 10s]",
)
@click.option(
    "--leader-elect-retry-period",
    type=duration,
    default=None,
    help="Time between attempts to acquire or renew the Lease. [default: 2s]",
)
@click.option(
    "--leader-elect-resource-name",
    metavar="NAME",
    default=None,
    help="Name of the Lease. [default: kube-scheduler, or the schedulerName of the first profile "
    "if that is not default-scheduler]",
)
@click.option(
    "--leader-elect-resource-namespace",
    metavar="NS",
    default=None,
    help="Namespace of the Lease. [default: --namespace if given, else kube-system]",
)
# DIVERGES: kube-scheduler listens on all interfaces by default; every command of ours listens on
# loopback unless a flag opens it.
@click.option(
    "--bind-address",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address of the health and metrics ports; 0.0.0.0 or :: for all interfaces.",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=None,
    help="HTTPS port of /healthz, /readyz, /metrics and more, with authentication and "
    "authorization; 0 turns it off. [default: 10259, or 0 if --port is given]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Plain HTTP port of the same endpoints, without authentication; 0 turns it off. "
    "[default: 0]",
)
@verify_option(0)
@logging_options
def run(
    config_file: str | None,
    write_config_to: str | None,
    plugins: Sequence[str],
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
    secure_port: int | None,
    port: int | None,
    verify_decisions: int,
) -> None:
    """Schedule the pods of a cluster.

    Schedules the pods whose schedulerName is one of the configured profiles ("default-scheduler"
    without a configuration). Runs inside or outside the cluster.

    \b
      $ stowplan run --plugin my_plugin.py:SsdOnly --scheduler-name ssd-scheduler

    On SIGTERM or Ctrl-C it finishes the binds in progress and exits with code 0. On SIGUSR2 it
    compares its cache with the API server, then logs the differences and the cache, as
    kube-scheduler does.
    """
    from stowplan.server.memory import grow_without_collecting

    grow_without_collecting()  # the imports below make nothing but what stays
    from stowplan.config.fields import raise_errors
    from stowplan.config.load import default_config, load_config
    from stowplan.config.validation import validate
    from stowplan.plugins.registry import in_tree_registry
    from stowplan.scheduler.assembly import plugin_errors
    from stowplan.server.library import check_enabled, config_with

    registry = in_tree_registry()
    registry.load_entry_points()
    own = _register(plugins, registry)
    config = default_config()
    if config_file:
        config = load_config(config_file, check=partial(plugin_errors, registry=registry))
        check_enabled(own, config, where=config_file)
    elif own:
        config = config_with(own, scheduler_name=DEFAULT_SCHEDULER)
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
        # A scheduler with access to one namespace can hold a Lease only there.
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
    raise_errors(validate(config), where=config_file or "")
    if write_config_to is not None:
        _write(config, write_config_to, registry.names)
        return
    from stowplan.server.serving import ServeOptions, run_until_signal
    from stowplan.server.serving_options import SECURE_PORT, ServingOptions

    if secure_port is None:
        secure_port = SECURE_PORT if port is None else 0

    run_until_signal(
        ServeOptions(
            config=config,
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            serving=ServingOptions(
                bind_address=bind_address, secure_port=secure_port, plain_port=port or 0
            ),
            where=config_file or "",
            registry=registry,
            verify_decisions=verify_decisions,
        )
    )


def _register(plugins: Sequence[str], registry: Registry) -> list[type[Plugin]]:
    """Load the plugins of `--plugin`, and make them known to configurations."""
    if not plugins:
        return []
    from stowplan.framework.loading import find_plugin

    chosen = [find_plugin(each, registry, folder=Path(), where="--plugin") for each in plugins]
    for plugin in chosen:
        registry.register(plugin)
    return chosen


def _write(config: KubeSchedulerConfiguration, file: str, plugins: Collection[str]) -> None:
    from stowplan.cli.tables import format_object
    from stowplan.config.written import written_config

    text = format_object(written_config(config, plugins), "yaml")
    try:
        # This file keeps its secrets, so that it can be used as --config; only the owner may read.
        with open(file, "w", encoding="utf-8", opener=partial(os.open, mode=0o600)) as out:
            out.write(text)
    except OSError as problem:
        raise ConfigError(f"cannot be written: {problem.strerror}", where=file) from None


def _rename_profile(config: KubeSchedulerConfiguration, name: str) -> KubeSchedulerConfiguration:
    if len(config.profiles) != 1:
        raise click.UsageError(
            f"--scheduler-name names one profile, but the configuration has {len(config.profiles)}"
        )
    profile = msgspec.structs.replace(config.profiles[0], scheduler_name=name)
    return msgspec.structs.replace(config, profiles=(profile,))
