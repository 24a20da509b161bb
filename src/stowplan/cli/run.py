"""`stowplan run`: schedule the pods of a real cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec
from click.core import ParameterSource

from stowplan.api.labels import namespace_errors, subdomain_errors
from stowplan.cli.flag_options import FlagOption, FlagSections, kube_scheduler_options
from stowplan.cli.flag_values import (
    configure_logging,
    configured,
    election_flags,
    feature_gates,
    metrics_filter,
    request_limits,
    serving_options,
    shown_flags,
    shown_versions,
    warn,
)
from stowplan.cli.flags_table import FLAGS
from stowplan.cli.options import (
    PORT,
    HostPort,
    console_options,
    kubeconfig_options,
    ledger_options,
    logging_options,
    plugin_option,
    record_options,
    verify_option,
)
from stowplan.config.durations import Duration
from stowplan.config.feature_gates import FeatureGates
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.errors import ConfigError, StowplanError
from stowplan.logs import V1, V2, Block, get_logger, kv
from stowplan.server.recording import RecordOptions
from stowplan.server.serving_options import LOOPBACK, SECURE_PORT, ConsoleOptions

if TYPE_CHECKING:
    from stowplan.framework.plugin import Plugin
    from stowplan.framework.registry import Registry

log = get_logger(__name__)

DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_LEASE = "kube-scheduler"
#: Upstream's default of --pod-max-in-unschedulable-pods-duration.
MAX_IN_UNSCHEDULABLE_S = 300.0


@click.command(cls=FlagSections)
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
    "--port",
    type=PORT,
    default=None,
    help="Plain HTTP port of the endpoints, without authentication; 0 turns it off. [default: 0]",
)
@console_options(
    "Beyond loopback it uses HTTPS with the --tls-* flags, and users sign in with a token of the "
    "cluster.",
    "Users of the console sign in with the token in this file, instead of the cluster's.",
)
@verify_option(0)
@ledger_options
@record_options
@click.option(
    "--annotate",
    is_flag=True,
    help="Write the results of every attempt into the pod, as kube-scheduler-simulator does. Needs "
    "the right to patch pods. See docs/explain.md.",
)
@logging_options
# DIVERGES: kube-scheduler listens on all interfaces by default; every command of ours listens on
# loopback unless a flag opens it.
@kube_scheduler_options(
    bind_address=LOOPBACK,
    secure_port="10259, or 0 if --port is given",
    leader_elect_resource_name="kube-scheduler, or the schedulerName of the first profile if that "
    "is not default-scheduler",
    leader_elect_resource_namespace="--namespace if given, else kube-system",
)
@click.pass_context
def run(
    ctx: click.Context,
    plugins: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    scheduler_name: str | None,
    namespace: str,
    port: int | None,
    console: HostPort | None,
    console_token_file: Path | None,
    verify_decisions: int,
    ledger: str,
    ledger_size: int,
    ledger_memory: int,
    record: Path | None,
    record_size: int,
    record_after: Duration,
    record_keep: int,
    record_hash_names: bool,
    record_hash_key: Path | None,
    annotate: bool,
    flags: dict[str, Any],
) -> None:
    """Schedule the pods of a cluster.

    Schedules the pods whose schedulerName is one of the configured profiles ("default-scheduler"
    without a configuration). Runs inside or outside the cluster.

    \b
      $ stowplan run --plugin my_plugin.py:SsdOnly --scheduler-name ssd-scheduler

    On SIGTERM or Ctrl-C it finishes the binds in progress and exits with code 0. On SIGUSR2 it
    compares its cache with the API server, then logs the differences and the cache, as
    kube-scheduler does.

    It takes all flags of kube-scheduler, below. In its place, run the command `kube-scheduler`,
    which has kube-scheduler's own defaults.
    """
    gates = feature_gates(flags)
    flags |= {"v": ctx.params["verbosity"], "logging-format": ctx.params["log_format"]}
    if kubeconfig:
        flags["kubeconfig"] = kubeconfig
    configure_logging(flags, gates, verbosity=flags["v"], log_format=flags["logging-format"])
    start(
        flags,
        gates,
        bind_address=LOOPBACK,
        secure_port=SECURE_PORT if port is None else 0,
        own=OwnOptions(
            plugins=plugins,
            context=context,
            scheduler_name=scheduler_name,
            namespace=namespace,
            port=port or 0,
            console=_console_options(console, console_token_file),
            verify_decisions=verify_decisions,
            ledger=(ledger_memory, ledger, ledger_size),
            record=_record_options(
                ctx,
                record,
                record_size,
                record_after,
                record_keep,
                record_hash_names,
                record_hash_key,
            ),
            annotate=annotate,
            shown=_shown_options(ctx) | {"port": str(port or 0)},
        ),
    )


def _console_options(address: HostPort | None, token_file: Path | None) -> ConsoleOptions | None:
    if address is None:
        if token_file is not None:
            raise click.UsageError("--console-token-file needs --console")
        return None
    return ConsoleOptions(address.host, address.port, token_file)


def _record_options(
    ctx: click.Context,
    folder: Path | None,
    size: int,
    after: Duration,
    keep: int,
    hash_names: bool,
    hash_key: Path | None,
) -> RecordOptions | None:
    """Raise ConfigError here: `stowplan record` would report it only in the scheduler's log."""
    if folder is None:
        for option in ("size", "after", "keep", "hash_names", "hash_key"):
            name = f"record_{option}"
            if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise ConfigError(
                    "is for recordings. Fix: add --record DIR, or leave it out",
                    where=f"--{name.replace('_', '-')}",
                )
        return None
    from stowplan.recording.files import Rotation
    from stowplan.recording.hash_key import read_secret

    Rotation(size, after, keep).check(prefix="--record")
    if hash_key is not None:
        read_secret(hash_key, folder=folder)
    return RecordOptions(folder, size, after, keep, hash_names, hash_key)


def _shown_options(ctx: click.Context) -> dict[str, str]:
    """The values of the options that kube-scheduler has not, as /flagz shows them."""
    shown = {}
    for option in ctx.command.params:
        flag = next(name for name in option.opts if name.startswith("--"))[2:]
        value = ctx.params.get(option.name or "")
        if isinstance(option, FlagOption) or flag in FLAGS or flag == "log-format":
            continue
        texts = f"[{','.join(value)}]" if isinstance(value, tuple) else str(value)
        shown[flag] = "" if value is None else texts
    return shown


class OwnOptions(NamedTuple):
    """The options that `stowplan run` has and kube-scheduler has not."""

    plugins: Sequence[str] = ()
    context: str | None = None
    scheduler_name: str | None = None
    namespace: str = ""
    port: int = 0
    console: ConsoleOptions | None = None
    verify_decisions: int = 0
    #: Bytes in memory, the file, bytes of the file; None: the defaults.
    ledger: tuple[int, str, int] | None = None
    record: RecordOptions | None = None
    annotate: bool = False
    #: All of them by name, for the log and /flagz.
    shown: Mapping[str, str] = {}


@contextmanager
def _failure_logged(when: bool) -> Iterator[None]:
    """Log the error that ends the command, as kube-scheduler does."""
    try:
        yield
    except StowplanError as error:
        if not when:
            raise
        log.error("command failed", extra=kv(err=error))
        raise click.exceptions.Exit(error.exit_code) from None


def start(
    flags: dict[str, Any],
    gates: FeatureGates,
    *,
    bind_address: str,
    secure_port: int,
    own: OwnOptions | None = None,
) -> None:
    """Run a scheduler until a signal, or write its configuration.

    Without `own` options it is in kube-scheduler's place, and uses the Lease and the kubeconfig
    that kube-scheduler would use. Call it after `configure_logging`: it logs what makes it fail.
    In the text format, wrong settings and all errors on a terminal stay "Error: ..." instead.
    """
    with _failure_logged(when=flags.get("logging-format") == "json"):
        _start(flags, gates, bind_address, secure_port, own)


def _start(
    flags: dict[str, Any],
    gates: FeatureGates,
    bind_address: str,
    secure_port: int,
    own: OwnOptions | None,
) -> None:
    from stowplan.server.memory import grow_without_collecting

    grow_without_collecting()  # the imports below make nothing but what stays
    from stowplan.config.fields import raise_errors
    from stowplan.config.load import default_config, load_config
    from stowplan.config.validation import validate
    from stowplan.plugins.registry import in_tree_registry
    from stowplan.scheduler.assembly import plugin_errors
    from stowplan.server.library import check_enabled, config_with

    is_in_place = own is None
    own = own or OwnOptions()
    registry = in_tree_registry(gates)
    registry.load_entry_points()
    plugins = _register(own.plugins, registry)
    config_file = flags.get("config", "")
    config = default_config()
    if config_file:
        config = load_config(config_file, check=partial(plugin_errors, registry=registry))
        check_enabled(plugins, config, where=config_file)
    elif plugins:
        config = config_with(plugins, scheduler_name=DEFAULT_SCHEDULER)
    if own.scheduler_name:
        config = _rename_profile(config, own.scheduler_name)
    kubeconfig = config.client_connection.kubeconfig or None
    if not is_in_place and kubeconfig is None:
        # DIVERGES: kube-scheduler ignores --kubeconfig beside any file. Here it applies to a file
        # that names no kubeconfig, because the alternative is a cluster that was not asked for.
        kubeconfig = flags.pop("kubeconfig", None) if config_file else flags.get("kubeconfig")
    if own.namespace:
        for reason in namespace_errors(own.namespace):
            raise ConfigError(f'"{own.namespace}": {reason}', where="--namespace")
        # A scheduler with access to one namespace can hold a Lease only there.
        flags.setdefault("leader-elect-resource-namespace", own.namespace)
    config = configured(config, flags, has_file=bool(config_file))
    first, lease = config.profiles[0].scheduler_name, config.leader_election
    if not is_in_place and lease.resource_name == DEFAULT_LEASE and first != DEFAULT_SCHEDULER:
        # DIVERGES: a second scheduler that asked for kube-scheduler's own lease would never lead,
        # or stop the first from leading, so it gets one by its own name.
        if lease.leader_elect:
            place = "--scheduler-name"
            if not own.scheduler_name:
                place = f"{config_file}: profiles[0].schedulerName"
            _check_lease_name(first, where=place)
        lease = msgspec.structs.replace(lease, resource_name=first)
        config = msgspec.structs.replace(config, leader_election=lease)
    raise_errors(validate(config), where=config_file)
    serving = serving_options(
        flags, config, bind_address=bind_address, secure_port=secure_port, plain_port=own.port
    )
    in_use: dict[str, Any] = {}
    if not is_in_place:
        in_use = {
            "kubeconfig": kubeconfig or "",
            "bind-address": serving.bind_address,
            "secure-port": serving.secure_port,
            **election_flags(config.leader_election),
        }
    shown = {**shown_flags({**flags, **in_use}), **own.shown}
    shown_metrics = metrics_filter(flags)
    versions = shown_versions(flags)
    warn(flags, gates, has_file=bool(config_file))
    if flags.get("write-config-to"):
        _write(config, flags["write-config-to"], registry.names)
        return
    _log_settings(shown, config, registry.names)
    from stowplan.scheduler.ledger import LedgerOptions
    from stowplan.server.serving import ServeOptions, run_until_signal

    qps, burst = request_limits(flags, config.client_connection, has_file=bool(config_file))
    options = ServeOptions(
        config=config,
        kubeconfig=kubeconfig,
        context=own.context,
        master=flags.get("master", ""),
        qps=qps,
        burst=burst,
        namespace=own.namespace,
        serving=replace(serving, flags=shown),
        console=own.console,
        gates=gates,
        metrics_filter=shown_metrics,
        versions=versions,
        where=config_file,
        registry=registry,
        verify_decisions=own.verify_decisions,
        ledger=LedgerOptions(*own.ledger) if own.ledger else LedgerOptions(),
        record=own.record,
        annotate=own.annotate,
        max_in_unschedulable_s=flags.get(
            "pod-max-in-unschedulable-pods-duration", MAX_IN_UNSCHEDULABLE_S
        ),
    )
    with _failure_logged(when=not sys.stderr.isatty()):
        run_until_signal(options)


def _register(plugins: Sequence[str], registry: Registry) -> list[type[Plugin]]:
    """Load the plugins of `--plugin`, and make them known to configurations."""
    if not plugins:
        return []
    from stowplan.framework.loading import find_plugins

    chosen = find_plugins(plugins, registry, folder=Path(), where="--plugin")
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


def _log_settings(
    shown: Mapping[str, str], config: KubeSchedulerConfiguration, plugins: Collection[str]
) -> None:
    """Log every flag at -v 1 and the configuration at -v 2, as kube-scheduler does."""
    if log.isEnabledFor(V1):
        for name, value in sorted(shown.items()):
            log.log(V1, 'FLAG: --%s="%s"', name, value)
    if log.isEnabledFor(V2):
        from stowplan.cli.tables import format_object
        from stowplan.config.written import written_config
        from stowplan.redaction import redact

        text = format_object(redact(written_config(config, plugins)), "yaml")
        log.log(V2, "Using component config", extra=kv(config=Block(text)))


def _check_lease_name(scheduler_name: str, *, where: str) -> None:
    for reason in subdomain_errors(scheduler_name):
        raise ConfigError(
            f'"{scheduler_name}" also names the Lease of leader election, but {reason}. '
            "Fix: name the Lease by --leader-elect-resource-name, or use --leader-elect=false",
            where=where,
        )


def _rename_profile(config: KubeSchedulerConfiguration, name: str) -> KubeSchedulerConfiguration:
    if len(config.profiles) != 1:
        raise click.UsageError(
            f"--scheduler-name names one profile, but the configuration has {len(config.profiles)}"
        )
    profile = msgspec.structs.replace(config.profiles[0], scheduler_name=name)
    return msgspec.structs.replace(config, profiles=(profile,))
