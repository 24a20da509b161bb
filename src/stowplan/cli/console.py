"""`stowplan console`: the web console for any cluster, read-only."""

from __future__ import annotations

import asyncio

import click

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.cli.options import PORT, kubeconfig_options, logging_options
from stowplan.config.defaults import default_config
from stowplan.config.load import load_config
from stowplan.console.follow import follow_cluster
from stowplan.console.mirror import ClusterMirror, mirror_of
from stowplan.console.serving import HOST, Console, check_loopback
from stowplan.console.serving import PORT as DEFAULT_PORT
from stowplan.errors import StowplanError
from stowplan.server.listen import open_port
from stowplan.server.serving import run_on_loop, stop_on_signals


@click.command()
@click.option(
    "--port",
    type=PORT,
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of the console; 0 picks a free one.",
)
@click.option(
    "--bind-address",
    metavar="IP",
    default=HOST,
    show_default=True,
    help="Address to listen on; it must be one of loopback.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The scheduler's configuration, for explanations. Default: kube-scheduler's default "
    "profile.",
)
@kubeconfig_options
@logging_options
def console(
    port: int,
    bind_address: str,
    config_file: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Look at a cluster and its decisions in a browser.

    \b
      $ stowplan console
      Console on http://127.0.0.1:10270/console/

    Shows the nodes as a map, pending pods by cause, and why a pod is where it is or nowhere. The
    cluster is only read, whatever scheduler serves it. `stowplan run --console` shows the queue and
    the latencies of that scheduler, too. Ctrl-C ends it.
    """
    check_loopback(bind_address, flag="--bind-address")
    config = load_config(config_file) if config_file else default_config()
    access = load_cluster_config(kubeconfig=kubeconfig, context=context)
    run_on_loop(_serve(access, mirror_of(config), bind_address, port))


async def _serve(access: ClusterConfig, mirror: ClusterMirror, address: str, port: int) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    served = Console(mirror)
    async with ApiClient(access, user_agent=f"stowplan/{__version__} console") as client:
        await served.start(open_port(address, port, flag="--port"))
        click.echo(f"Console on {served.url}")
        following = asyncio.create_task(follow_cluster(client, mirror, _warn), name="follow")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait([following, stopping], return_when=asyncio.FIRST_COMPLETED)
        await served.stop()
        for task in (following, stopping):
            task.cancel()
        try:
            await following
        except asyncio.CancelledError:
            pass
        except BaseExceptionGroup as several:
            raise _first(several) from None


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The most telling of several errors: one of ours if there is any."""
    problem: BaseException = several.subgroup(StowplanError) or several
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)
