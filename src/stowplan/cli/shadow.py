"""`stowplan shadow`: what a configuration would have decided, beside any scheduler."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.api.resources import Resource
from stowplan.cli.options import (
    HostPort,
    console_options,
    feature_gates_option,
    file_option,
    host_port,
    kubeconfig_options,
    length_option,
    logging_options,
    plugin_option,
)
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.clock import SystemClock
from stowplan.config.durations import Duration
from stowplan.config.feature_gates import FeatureGates
from stowplan.console.shadow import ShadowView
from stowplan.errors import ConfigError
from stowplan.judge.configuration import Configuration
from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine
from stowplan.present.tables import printable
from stowplan.recording.entries import EntryType
from stowplan.replay.following import Comparison, Verdict
from stowplan.replay.report import Tally, comparison_line, configuration_of, reason
from stowplan.replay.shadow import Shadow
from stowplan.server.listen import open_port
from stowplan.server.serving import run_on_loop, stop_on_signals
from stowplan.server.serving_options import ConsoleOptions, ServingOptions

if TYPE_CHECKING:
    from stowplan.console.mirror import ClusterMirror

_USER_AGENT: Final = f"stowplan/{__version__} shadow"


@click.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration to compare with. Default: kube-scheduler's defaults.",
)
@plugin_option
@feature_gates_option
@length_option("1h")
@click.option(
    "--metrics",
    "metrics_address",
    type=host_port,
    metavar="[ADDRESS:]PORT",
    help="Serve Prometheus metrics at /metrics, by default on loopback.",
)
@console_options(
    "Beyond loopback it uses HTTPS with a self-signed certificate and needs --console-token-file.",
    "Users of the console sign in with the token in this file.",
)
@file_option(
    "--decisions",
    "Write one JSON line per decision.",
    dir_okay=False,
)
@output_option()
@kubeconfig_options
@logging_options
def shadow(
    config_file: str | None,
    plugins: Sequence[str],
    gates: FeatureGates,
    length: Duration,
    metrics_address: HostPort | None,
    console: HostPort | None,
    console_token_file: Path | None,
    decisions: Path | None,
    output: OutputFormat | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Compare a configuration with the scheduler that serves a cluster.

    \b
      $ stowplan shadow --config most-allocated.yaml --for 1h

    For every binding by any scheduler, it checks whether the chosen node is among the best ones by
    this configuration. It prints differences as they happen, with the scores that made them, and a
    summary at the end. The cluster is only read. This is the first step before Stowplan, or a new
    profile, takes over. Exits with 1 if a plugin failed.
    """
    from stowplan.output_file import LineFile, check_output_file
    from stowplan.sim.scenarios.scheduling import read_scheduling

    check_output_file(decisions, "--decisions", inputs=[config_file])
    scheduling = read_scheduling(
        config_file,
        plugins,
        folder=Path(),
        where_config="--config",
        where_plugins="--plugin",
        gates=gates,
    )
    scheduling.check_enabled(where=config_file or "--plugin")
    tally = Tally()
    options = _console_options(console, console_token_file)
    cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)
    configuration = configuration_of(scheduling.config, scheduling.registry)
    with nullcontext() if decisions is None else LineFile(decisions, flushes_lines=True) as sink:
        line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S * 4)

        view = ShadowView(tally, SystemClock())

        def tell(comparison: Comparison) -> None:
            tally.add(comparison)
            view.add(comparison)
            if sink is not None:
                sink.write(comparison_line(comparison))
            if not comparison.agrees and output is None:
                line.erase()
                has_failed = comparison.verdict is Verdict.FAILED
                best = ", ".join(comparison.best) or (
                    "a plugin failed" if has_failed else "no node"
                )
                text = (
                    f"{comparison.pod} is on {comparison.node}, here {best}: {reason(comparison)}"
                )
                click.echo(printable(text))
            line.update(lambda: tally.progress)

        try:
            run_on_loop(
                _follow(cluster, configuration, tell, tally, view, length, metrics_address, options)
            )
        finally:
            line.erase()
        if output is None:
            click.echo(tally.text(lists=False), nl=False)
        else:
            print_object(tally.data(), output)
    tally.check()


def _begin(mirror: ClusterMirror | None, warnings: Sequence[str]) -> None:
    if mirror is not None:
        mirror.is_synced = lambda: True
    for text in warnings:
        click.echo(f"Warning: {printable(text)}", err=True)
    click.echo("The cluster is known; every binding from now on is judged", err=True)


def _console_options(address: HostPort | None, token_file: Path | None) -> ConsoleOptions | None:
    if address is None:
        if token_file is not None:
            raise click.UsageError("--console-token-file needs --console")
        return None
    options = ConsoleOptions(address.host, address.port, token_file)
    if options.has_sign_in and token_file is None:
        raise ConfigError(
            "beyond loopback users must sign in, and checking cluster tokens is a write. "
            "Fix: add --console-token-file",
            where="--console",
        )
    return options


async def _open_console(
    opened: AsyncExitStack,
    options: ConsoleOptions,
    configuration: Configuration,
    view: ShadowView,
    client: ApiClient,
) -> ClusterMirror:
    from stowplan.console.mirror import ClusterMirror
    from stowplan.console.serving import Console

    mirror = ClusterMirror(configuration)
    console = Console(mirror, shadow=view)
    access = None
    if options.has_sign_in:
        from stowplan.server.console_access import console_access

        serving = ServingOptions(bind_address=options.address)
        access = await opened.enter_async_context(console_access(options, serving, client))
    opened.push_async_callback(console.stop)
    await console.start(open_port(options.address, options.port, flag="--console"), access)
    click.echo(f"Console on {console.url}#/shadow", err=True)
    return mirror


def _mirrored(mirror: ClusterMirror, what: EntryType, kind: Resource[Any], obj: Any) -> None:
    if what is EntryType.DELETED:
        mirror.remove(kind, obj)
    else:
        mirror.put(kind, obj)


async def _follow(
    cluster: ClusterConfig,
    configuration: Configuration,
    tell: Callable[[Comparison], None],
    tally: Tally,
    view: ShadowView,
    length_s: float,
    metrics_address: HostPort | None,
    options: ConsoleOptions | None,
) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with (
        ApiClient(cluster, user_agent=_USER_AGENT) as client,
        AsyncExitStack() as opened,
    ):
        mirror = None
        if options is not None:
            mirror = await _open_console(opened, options, configuration, view, client)
        following = Shadow(
            client,
            configuration,
            on_comparison=tell,
            on_begin=lambda: _begin(mirror, following.watching.warnings("are not considered")),
            on_change=None if mirror is None else partial(_mirrored, mirror),
        )
        if metrics_address is not None:
            from stowplan.server.shadow_metrics import ShadowMetrics

            metrics = ShadowMetrics(tally, skipped=following.follower.unserved.total)
            await metrics.start(metrics_address.host, metrics_address.port)
            opened.push_async_callback(metrics.stop)
            click.echo(f"Metrics on {metrics.url}", err=True)
        running = asyncio.create_task(following.run(), name="shadow")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait(
            [running, stopping], timeout=length_s or None, return_when=asyncio.FIRST_COMPLETED
        )
        for task in (running, stopping):
            task.cancel()
        try:
            await running
        except asyncio.CancelledError:
            pass
        finally:
            tally.close(following.follower)
