"""`stowplan record`: write down what happens in a cluster, for replays."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.cli.options import byte_size, duration, kubeconfig_options, logging_options
from stowplan.clock import SystemClock
from stowplan.config.durations import Duration
from stowplan.errors import ConfigError, StowplanError
from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine
from stowplan.recording.files import Output, Rotation
from stowplan.recording.recorder import Recorder
from stowplan.recording.scrub import Hashed
from stowplan.server.serving import run_on_loop, stop_on_signals

_USER_AGENT: Final = f"stowplan/{__version__} record"
_LEAST_SIZE: Final = 1 << 20


@click.command()
@click.argument("path")
@click.option(
    "--for",
    "length",
    type=duration,
    default="0s",
    metavar="DURATION",
    help="Stop after this time, such as 24h. Default: at Ctrl-C or SIGTERM.",
)
@click.option(
    "--hash-names",
    is_flag=True,
    help="Replace names and label values by hashes. Selectors still match what they matched; "
    "keys of labels and names of resources stay.",
)
@click.option(
    "--rotate-size",
    type=byte_size,
    default="256Mi",
    show_default=True,
    metavar="SIZE",
    help="PATH is a folder: begin a new file at this size.",
)
@click.option(
    "--rotate-after",
    type=duration,
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="PATH is a folder: begin a new file after this time.",
)
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="PATH is a folder: keep the newest N files. Default: all.",
)
@kubeconfig_options
@logging_options
def record(
    path: str,
    length: Duration,
    hash_names: bool,
    rotate_size: int,
    rotate_after: Duration,
    keep: int,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Write down what happens in a cluster, for replays.

    \b
      $ stowplan record tuesday.jsonl.gz --for 24h
      $ stowplan record recordings/ --keep 7

    PATH is a file, or a folder (it exists, or the name ends with /) for files that are rotated by
    size and time. A file that exists is continued. Pods, nodes, volumes and whatever else
    schedulers look at are listed once and then watched; the cluster is only read, whatever
    scheduler serves it.

    Environment variables, commands, annotations and messages are never written, and Secrets and
    ConfigMaps never read. Everything written is readable after a kill. The format is lines of JSON,
    gzipped; docs/record.md describes it.
    """
    is_folder = path.endswith("/") or Path(path).is_dir()
    if is_folder and rotate_size < _LEAST_SIZE:
        raise ConfigError("is too small. Fix: give at least 1Mi", where="--rotate-size")
    cluster = load_cluster_config(kubeconfig=kubeconfig, context=context)
    rotation = Rotation(rotate_size, rotate_after, keep) if is_folder else None
    output = Output(Path(path), clock=SystemClock(), rotation=rotation)
    hashed = Hashed() if hash_names else None
    run_on_loop(_record(cluster, output, hashed, length))


async def _record(
    cluster: ClusterConfig, output: Output, hashed: Hashed | None, length_s: float
) -> None:
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S * 4)
    told: list[str] = []
    stop = asyncio.Event()
    stop_on_signals(stop)

    def tell(recorder: Recorder) -> None:
        if not told:
            told.append(f"Recording to {output.current}")
            click.echo(told[0], err=True)
        line.update(lambda: _progress(recorder, output))

    async with ApiClient(cluster, user_agent=_USER_AGENT) as client:
        recorder = Recorder(client, output, hashed=hashed, version=__version__, on_progress=tell)
        recording = asyncio.create_task(recorder.run(), name="record")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait(
            [recording, stopping],
            timeout=length_s or None,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in (recording, stopping):
            task.cancel()
        try:
            await recording
        except asyncio.CancelledError:
            pass
        except OSError as problem:
            raise StowplanError(
                f"{output.current} cannot be written: {problem.strerror}; what was written before"
                " is readable"
            ) from None
        finally:
            line.erase()
    click.echo(_progress(recorder, output))
    for kind, why in recorder.unread.items():
        click.echo(f"Warning: {kind} are not in it: {why}", err=True)


def _progress(recorder: Recorder, output: Output) -> str:
    gaps = f", {recorder.gaps} gaps" if recorder.gaps else ""
    return (
        f"{output.current}: {recorder.entries:,} changes,"
        f" {recorder.written / (1 << 20):.1f} MiB{gaps}"
    )
