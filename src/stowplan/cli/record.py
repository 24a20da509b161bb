"""`stowplan record`: write down what happens in a cluster, for replays."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from stowplan import __version__
from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig, load_cluster_config
from stowplan.cli.options import (
    byte_size,
    duration,
    file_option,
    kubeconfig_options,
    length_option,
    logging_options,
)
from stowplan.clock import SystemClock
from stowplan.config.durations import Duration
from stowplan.errors import ConfigError, StowplanError
from stowplan.output_file import check_output_file
from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine
from stowplan.present.tables import counted, printable
from stowplan.recording.files import Output, Rotation, check_continues
from stowplan.recording.hash_key import read_secret
from stowplan.recording.recorder import Recorder
from stowplan.recording.scrub import Hashed
from stowplan.server.serving import run_on_loop, stop_on_signals

_USER_AGENT: Final = f"stowplan/{__version__} record"


@click.command()
@click.argument("path")
@length_option("24h")
@click.option(
    "--hash-names",
    is_flag=True,
    help="Replace names, images, label values and taint values by hashes. Selectors still match "
    "what they matched; keys of labels, names of resources and numbers in labels of nodes stay.",
)
@file_option(
    "--hash-key",
    "Hash names, with the secret of at least 16 bytes in this file. Recorders with the same secret "
    "make equal hashes, so recordings can be continued and read together. The file must not be in "
    "the folder PATH.",
)
@click.option(
    "--rotate-size",
    type=byte_size,
    default="256Mi",
    show_default=True,
    metavar="SIZE",
    help="PATH is a folder: begin a new file at this size, at least 1Mi.",
)
@click.option(
    "--rotate-after",
    type=duration,
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="PATH is a folder: begin a new file after this time; 0 is no limit.",
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="PATH is a folder: keep the newest N files. Default: all.",
)
@click.option(
    "--beside",
    is_flag=True,
    hidden=True,
    help="Record attempts of `stowplan run` from standard input, and stop at its end.",
)
@click.option("--master", default="", hidden=True)
@kubeconfig_options
@logging_options
def record(
    path: str,
    length: Duration,
    hash_names: bool,
    hash_key: Path | None,
    rotate_size: int,
    rotate_after: Duration,
    keep: int | None,
    beside: bool,
    master: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Record a cluster, for replays.

    \b
      $ stowplan record tuesday.jsonl.gz --for 24h
      $ stowplan record recordings/ --keep 7

    PATH is a file whose name ends with .gz, or a folder (it exists, or the name ends with /) for
    files that are rotated by size and time. An existing recording is continued; if its names are
    hashed, that needs the same --hash-key. The recorder lists nodes, pods, volumes and everything
    else that schedulers read once, and then watches them. It never writes to the cluster, and works
    beside any scheduler.

    Environment variables, commands and messages are not recorded, and annotations only if replays
    need them. Secrets and ConfigMaps are never requested. What was written stays readable after a
    kill. The format is gzipped JSON lines; docs/record.md describes it.
    """
    if not path:
        raise ConfigError("is empty. Fix: name a file or a folder", where="PATH")
    if path.endswith("/") and Path(path).exists() and not Path(path).is_dir():
        raise ConfigError("is a file, not a folder. Fix: name a folder", where=path)
    is_folder = path.endswith("/") or Path(path).is_dir()
    folder = Path(path) if is_folder else None
    secret = None if hash_key is None else read_secret(hash_key, folder=folder)
    hashed = Hashed(secret) if secret or hash_names else None
    key_id = "" if hashed is None else hashed.key_id
    rotation = Rotation(rotate_size, rotate_after, keep or 0) if is_folder else None
    if rotation is not None:
        rotation.check(prefix="--rotate")
    else:
        _refuse_rotation()
        check_output_file(Path(path))
        if not path.endswith(".gz") and not Path(path).exists():
            raise ConfigError(
                f"recordings are gzipped. Fix: name it {path}.gz, or end it with / for a folder",
                where=path,
            )
        check_continues(Path(path), key_id=key_id)
    cluster = load_cluster_config(kubeconfig=kubeconfig, context=context, master=master)
    output = Output(Path(path), clock=SystemClock(), rotation=rotation)
    run_on_loop(_record(cluster, output, hashed, length, is_beside=beside))


def _refuse_rotation() -> None:
    """One file is not rotated, and an option that does nothing would be a promise."""
    given = click.get_current_context().get_parameter_source
    for name in ("rotate_size", "rotate_after", "keep"):
        if given(name) is not ParameterSource.DEFAULT:
            raise ConfigError(
                "is for folders. Fix: end PATH with /, or leave it out",
                where=f"--{name.replace('_', '-')}",
            )


async def _record(
    cluster: ClusterConfig,
    output: Output,
    hashed: Hashed | None,
    length_s: float,
    *,
    is_beside: bool,
) -> None:
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S * 4)
    told: list[str] = []
    stop = asyncio.Event()
    if not is_beside:
        stop_on_signals(stop)

    def tell(recorder: Recorder) -> None:
        if not told:
            listed = counted(recorder.listed, "object")
            told.append(f"Recording to {output.current}; {listed} listed")
            line.say(told[0])
            for text in filter(None, (output.warning, *recorder.warnings)):
                line.say(f"Warning: {printable(text)}")
        line.update(lambda: _progress(recorder, output))

    async with ApiClient(cluster, user_agent=_USER_AGENT) as client:
        recorder = Recorder(client, output, hashed=hashed, version=__version__, on_progress=tell)
        if is_beside:
            _listen(recorder, stop)
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
            kept = "what was written before is readable" if told else "nothing is recorded"
            raise StowplanError(
                f"{output.current} cannot be written: {problem.strerror}; {kept}"
            ) from None
        finally:
            line.erase()
    if recorder.outage:
        text = f"{recorder.outage}: what changed since then is not recorded"
        click.echo(f"Warning: {printable(text)}", err=True)
    click.echo(_progress(recorder, output))


def _listen(recorder: Recorder, stop: asyncio.Event) -> None:
    """Hand the attempts in standard input to the recorder, in a thread; its end is the stop."""
    from stowplan.server.recording import decision_of

    # Ctrl-C reaches this process, too; the scheduler closes the pipe when it has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = asyncio.get_running_loop()

    def listen() -> None:
        # Not sys.stdin: Python aborts if it exits while a thread reads from that.
        with (
            suppress(RuntimeError),  # the loop is closed: recording has failed
            open(sys.stdin.fileno(), "rb", closefd=False) as attempts,
        ):
            for line in attempts:
                loop.call_soon_threadsafe(recorder.decided, decision_of(line))
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=listen, name="attempts", daemon=True).start()


def _progress(recorder: Recorder, output: Output) -> str:
    gaps = f", {counted(recorder.gaps, 'gap')}" if recorder.gaps else ""
    entries = "1 entry" if recorder.entries == 1 else f"{recorder.entries:,} entries"
    files = f" in {counted(output.files, 'file')}" if output.is_folder else ""
    return f"{output.path}: {entries}{files}, {_size(output.total_written)}{gaps}"


def _size(number: int) -> str:
    if number < 1 << 20:
        return f"{number / (1 << 10):,.1f} KiB"
    return f"{number / (1 << 20):,.1f} MiB"
