"""`stowplan shadow`: what a configuration would have decided, beside any scheduler."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.cli.options import (
    HostPort,
    duration,
    host_port,
    kubeconfig_options,
    logging_options,
    plugin_option,
)
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.config.durations import Duration
from stowplan.judge.configuration import Configuration
from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine
from stowplan.present.tables import printable
from stowplan.replay.following import Comparison
from stowplan.replay.report import Tally, comparison_line, configuration_of, reason
from stowplan.replay.shadow import Shadow
from stowplan.server.serving import run_on_loop, stop_on_signals

_USER_AGENT: Final = f"stowplan/{__version__} shadow"


@click.command()
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration to compare with. Default: kube-scheduler's defaults.",
)
@plugin_option
@click.option(
    "--for",
    "length",
    type=duration,
    default="0s",
    metavar="DURATION",
    help="Stop after this time, such as 1h. Default: at Ctrl-C or SIGTERM.",
)
@click.option(
    "--metrics",
    "metrics_address",
    type=host_port,
    metavar="[ADDRESS:]PORT",
    help="Serve Prometheus metrics at /metrics, by default on loopback.",
)
@click.option(
    "--decisions",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one JSON line per decision.",
)
@output_option()
@kubeconfig_options
@logging_options
def shadow(
    config_file: str | None,
    plugins: Sequence[str],
    length: Duration,
    metrics_address: HostPort | None,
    decisions: Path | None,
    output: OutputFormat | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Compare a configuration with the scheduler that serves a cluster.

    \b
      $ stowplan shadow --config most-allocated.yaml --for 1h

    At every binding, whoever made it, it asks: is the chosen node among the best ones by this
    configuration? Differences are printed as they happen, with the scores that made them, and a
    summary at the end. The cluster is only read. This is the first step before Stowplan, or a new
    profile, takes over.
    """
    from stowplan.output_file import check_output_file
    from stowplan.sim.scenarios.scheduling import read_scheduling

    check_output_file(decisions, "--decisions")
    scheduling = read_scheduling(
        config_file, plugins, folder=Path(), where_config="--config", where_plugins="--plugin"
    )
    tally = Tally()
    cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)
    configuration = configuration_of(scheduling.config, scheduling.registry)
    sink = decisions.open("w", encoding="utf-8") if decisions is not None else None
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S * 4)

    def tell(comparison: Comparison) -> None:
        tally.add(comparison)
        if sink is not None:
            sink.write(comparison_line(comparison))
        if not comparison.agrees and output is None:
            line.erase()
            best = ", ".join(comparison.best) or "no node"
            text = f"{comparison.pod} is on {comparison.node}, here {best}: {reason(comparison)}"
            click.echo(printable(text))
        line.update(lambda: f"{tally.decided:,} decisions, {tally.agreement:.2%} the same")

    try:
        run_on_loop(_follow(cluster, configuration, tell, tally, length, metrics_address))
    finally:
        line.erase()
        if sink is not None:
            sink.close()
    if output is None:
        click.echo(tally.text(lists=False), nl=False)
    else:
        print_object(tally.data(), output)


def _begin() -> None:
    click.echo("The cluster is known; every binding from now on is judged", err=True)


async def _follow(
    cluster: ClusterConfig,
    configuration: Configuration,
    tell: Callable[[Comparison], None],
    tally: Tally,
    length_s: float,
    metrics_address: HostPort | None,
) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with ApiClient(cluster, user_agent=_USER_AGENT) as client:
        following = Shadow(client, configuration, on_comparison=tell, on_begin=_begin)
        metrics = None
        if metrics_address is not None:
            from stowplan.server.shadow_metrics import ShadowMetrics

            metrics = ShadowMetrics(tally)
            await metrics.start(metrics_address.host, metrics_address.port)
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
            if metrics is not None:
                await metrics.stop()
    for kind, why in following.watching.unread.items():
        click.echo(f"Warning: decided without {kind}: {why}", err=True)
