"""`stowplan apiserver`: the embedded API server as a program, for kubectl, demos and tests."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path
from typing import Final

import click

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.cli.options import PORT, logging_options
from stowplan.errors import ConfigError
from stowplan.server.listen import cannot_listen

_MARK: Final = "# Written by `stowplan apiserver`.\n"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=PORT,
    default=8001,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--kubeconfig-out", metavar="FILE", help="Write a kubeconfig for this server to FILE."
)
@click.option(
    "--kubelet/--no-kubelet",
    default=True,
    show_default=True,
    help="Simulate kubelets: bound pods become Running, deleted pods disappear.",
)
@click.option(
    "--kubelet-delay",
    type=click.FloatRange(min=0),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="Time a simulated kubelet takes to start or stop a pod.",
)
@click.option(
    "--volumes/--no-volumes",
    default=True,
    show_default=True,
    help="Simulate a volume controller: provision volumes and bind claims.",
)
@logging_options
def apiserver(
    host: str,
    port: int,
    kubeconfig_out: str | None,
    kubelet: bool,
    kubelet_delay: float,
    volumes: bool,
) -> None:
    """Serve an in-memory Kubernetes API until Ctrl-C.

    kubectl and other clients can use it like a cluster. It has no authentication and stores
    nothing on disk: use it for experiments and tests only.
    """
    options = KubeletOptions(
        enabled=kubelet, start_delay_s=kubelet_delay, stop_delay_s=kubelet_delay
    )
    server = ApiServer(kubelet=options, volumes=VolumeControllerOptions(enabled=volumes))
    asyncio.run(_serve(server, host, port, kubeconfig_out))


async def _serve(server: ApiServer, host: str, port: int, kubeconfig_out: str | None) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        await server.start(host, port)
    except OSError as error:
        raise cannot_listen(error, host, port, flag="--host, --port") from None
    try:
        _tell(server, kubeconfig_out)
        await ended.wait()
    finally:
        await server.stop()


def _tell(server: ApiServer, kubeconfig_out: str | None) -> None:
    """Print how to use the server, after writing the kubeconfig.

    A script that waits for this text may use the kubeconfig at once.
    """
    if kubeconfig_out is None:
        use = f"kubectl --server={server.url} get nodes"
    else:
        file = Path(kubeconfig_out).absolute()
        write_kubeconfig(file, server.kubeconfig())
        use = f"export KUBECONFIG={shlex.quote(str(file))}"
    click.echo(
        f"Serving an in-memory Kubernetes API on {server.url}\n"
        f"Use it with:  {use}\n"
        "Ctrl-C ends it; nothing is kept."
    )


def write_kubeconfig(file: Path, text: str) -> None:
    """Write a kubeconfig that this command may overwrite later, but never a user's own."""
    try:
        if file.exists() and not file.read_text(encoding="utf-8").startswith(_MARK):
            raise ConfigError(
                "already exists and was not written by this command; choose another file",
                where=f"--kubeconfig-out {file}",
            )
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(_MARK + text)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise ConfigError(
            f"cannot be written: {reason}", where=f"--kubeconfig-out {file}"
        ) from None
