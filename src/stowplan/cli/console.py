"""`stowplan console`: the web console for any cluster, read-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.cli.options import (
    PORT,
    feature_gates_option,
    file_option,
    kubeconfig_options,
    logging_options,
)
from stowplan.config.defaults import default_config
from stowplan.config.feature_gates import FeatureGates
from stowplan.config.load import load_config
from stowplan.console.follow import check_rights, follow_cluster
from stowplan.console.mirror import ClusterMirror, mirror_of
from stowplan.console.serving import PORT as DEFAULT_PORT
from stowplan.console.serving import Access, Console
from stowplan.errors import StowplanError
from stowplan.judge.configuration import default_registry
from stowplan.server.listen import open_port
from stowplan.server.serving import run_on_loop, stop_on_signals
from stowplan.server.serving_options import LOOPBACK, ConsoleOptions, ServingOptions


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
    default=LOOPBACK,
    show_default=True,
    help="Address to listen on. Beyond loopback the console uses HTTPS, and users sign in.",
)
@file_option(
    "--tls-cert-file",
    "Certificate for HTTPS. Default: a self-signed one.",
)
@file_option(
    "--tls-private-key-file",
    "Private key of --tls-cert-file.",
)
@file_option(
    "--token-file",
    "Users sign in with the token in this file. Default: with a token of the cluster.",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="The scheduler's configuration, for explanations. Default: kube-scheduler's default "
    "profile.",
)
@feature_gates_option
@kubeconfig_options
@logging_options
def console(
    port: int,
    bind_address: str,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    token_file: Path | None,
    config_file: str | None,
    gates: FeatureGates,
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

    Others can reach it with --bind-address. It then serves HTTPS, and users sign in: with a token
    of the cluster whose user may get /console/, or with the one in --token-file.
    """
    options = ConsoleOptions(bind_address, port, token_file, "--bind-address", "--token-file")
    serving = ServingOptions(
        bind_address=bind_address,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
    )
    if not options.has_sign_in and (tls_cert_file or tls_private_key_file):
        raise click.UsageError(
            "--tls-cert-file is for a console with sign-in: add --bind-address or --token-file"
        )
    config = load_config(config_file) if config_file else default_config()
    access = load_cluster_config(kubeconfig=kubeconfig, context=context)
    run_on_loop(_serve(access, mirror_of(config, default_registry(gates)), options, serving))


async def _serve(
    cluster: ClusterConfig,
    mirror: ClusterMirror,
    options: ConsoleOptions,
    serving: ServingOptions,
) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    served = Console(mirror)
    async with (
        ApiClient(cluster, user_agent=f"stowplan/{__version__} console") as client,
        AsyncExitStack() as opened,
    ):
        access = None
        if options.has_sign_in:
            access = await opened.enter_async_context(_access(options, serving, client))
        await check_rights(client)
        await served.start(open_port(options.address, options.port, flag="--port"), access)
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


@asynccontextmanager
async def _access(
    options: ConsoleOptions, serving: ServingOptions, client: ApiClient
) -> AsyncIterator[Access]:
    from stowplan.server.console_access import check_delegation, console_access

    await check_delegation(options, client)
    async with console_access(options, serving, client) as access:
        yield access


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The most telling of several errors: one of ours if there is any."""
    problem: BaseException = several.subgroup(StowplanError) or several
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


def _warn(text: str) -> None:
    click.echo(f"Warning: {text}", err=True)
