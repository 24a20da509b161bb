"""`stowplan apiserver`: the embedded API server as a program, for kubectl, demos and tests."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from stowplan.api.quantity import parse_quantity
from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.new_nodes import new_nodes
from stowplan.apiserver.node_lifecycle import DEFAULT_SIZE
from stowplan.apiserver.server import ApiServer
from stowplan.apiserver.volume_controller import VolumeControllerOptions
from stowplan.apiserver.workload_controllers.controller import WorkloadControllerOptions
from stowplan.cli.options import PORT, logging_options
from stowplan.config.fields import did_you_mean
from stowplan.errors import ApiError, ConfigError
from stowplan.loader.numbers import whole_number
from stowplan.output_file import check_output_file
from stowplan.server.listen import cannot_listen

_MARK: Final = "# Written by `stowplan apiserver`.\n"
_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


def _size(text: str) -> dict[str, str]:
    """Parse `cpu=8,memory=32Gi`."""
    amounts = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, amount = (each.strip() for each in part.partition("="))
        try:
            parse_quantity(amount)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise click.BadParameter(f"{part!r} is not an amount such as cpu=8 or memory=32Gi")
        if "/" not in name and name not in DEFAULT_SIZE and not name.startswith(_PREFIXES):
            known = did_you_mean(name, DEFAULT_SIZE) or f"; there are {', '.join(DEFAULT_SIZE)}."
            raise click.BadParameter(
                f"a node has no resource {name!r}{known} "
                "Fix: use a known name, or one with a domain such as example.com/gpu"
            )
        amounts[name] = amount
    return amounts


def _zones(text: str) -> tuple[str, ...]:
    """Parse a number of zones, or their names."""
    count = whole_number(text)
    if count is not None:
        return tuple(f"zone-{number}" for number in range(1, min(count, 1000) + 1))
    return tuple(filter(None, (name.strip() for name in text.split(","))))


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
@click.option(
    "--controllers/--no-controllers",
    default=True,
    show_default=True,
    help="Simulate workload controllers: create and replace the pods of Deployments, ReplicaSets, "
    "StatefulSets and Jobs, create and free resource claims of pods, and delete the dependents of "
    "deleted objects. DaemonSets get no pods.",
)
@click.option(
    "--job-seconds",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time the pods of a Job run before they succeed.",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 100_000),
    default=0,
    show_default=True,
    metavar="N",
    help="Create N nodes.",
)
@click.option(
    "--node-name",
    default="node-",
    show_default=True,
    metavar="PREFIX",
    help="Begin the names of the nodes with PREFIX; a number from 1 follows.",
)
@click.option(
    "--node-size",
    type=_size,
    default="",
    metavar="AMOUNTS",
    help="Amounts of each node that differ from "
    + ",".join(f"{name}={amount}" for name, amount in DEFAULT_SIZE.items())
    + ". Example: cpu=8,memory=32Gi,example.com/gpu=1.",
)
@click.option(
    "--zones",
    type=_zones,
    default="",
    metavar="N|NAMES",
    help="Distribute the nodes over N zones (zone-1, zone-2, ...) or over zones of these names: "
    "eu-1a,eu-1b.",
)
@logging_options
@click.pass_context
def apiserver(
    context: click.Context,
    host: str,
    port: int,
    kubeconfig_out: str | None,
    kubelet: bool,
    kubelet_delay: float,
    volumes: bool,
    controllers: bool,
    job_seconds: float,
    nodes: int,
    node_name: str,
    node_size: dict[str, str],
    zones: tuple[str, ...],
) -> None:
    """Serve an in-memory Kubernetes API until Ctrl-C.

    kubectl and other clients can use it like a cluster. It has no authentication and stores
    nothing on disk: use it for experiments and tests only. It has no scheduler: `stowplan run`
    is one. docs/embedded-cluster.md says what is simulated and what is not.

    \b
      stowplan apiserver --nodes 5 --zones 3 --kubeconfig-out cluster.kubeconfig
    """
    if kubeconfig_out is not None:
        check_kubeconfig(Path(kubeconfig_out))
    for name, parameter in (
        ("node_name", "--node-name"),
        ("node_size", "--node-size"),
        ("zones", "--zones"),
    ):
        if not nodes and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter} needs --nodes N, which creates the nodes.")
    options = KubeletOptions(
        enabled=kubelet,
        start_delay_s=kubelet_delay,
        stop_delay_s=kubelet_delay,
        job_run_s=job_seconds,
    )
    server = ApiServer(
        kubelet=options,
        volumes=VolumeControllerOptions(enabled=volumes),
        workloads=WorkloadControllerOptions(enabled=controllers),
        device_claims=controllers,
    )
    for node in new_nodes(nodes, prefix=node_name, size=node_size, zones=zones):
        try:
            server.create("", "v1", "nodes", node)
        except ApiError as error:
            raise ConfigError(error.message, where="--nodes") from None
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
        file = Path(kubeconfig_out)
        write_kubeconfig(file, server.kubeconfig())
        use = f"export KUBECONFIG={shlex.quote(str(file.absolute()))}"
    click.echo(
        f"Serving an in-memory Kubernetes API on {server.url}\n"
        f"Use it with:  {use}\n"
        "Ctrl-C ends it; nothing is kept."
    )


def check_kubeconfig(file: Path) -> None:
    """Raise ConfigError if `file` cannot be written, or is not one that this command wrote."""
    where = f"--kubeconfig-out {file}"
    check_output_file(file, "--kubeconfig-out")
    try:
        if file.exists() and not file.read_text(encoding="utf-8").startswith(_MARK):
            raise ConfigError(
                "already exists and was not written by this command; choose another file",
                where=where,
            )
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise ConfigError(f"cannot be written: {reason}", where=where) from None


def write_kubeconfig(file: Path, text: str) -> None:
    """Write a kubeconfig that this command may overwrite later, but never a user's own."""
    check_kubeconfig(file)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(_MARK + text)
