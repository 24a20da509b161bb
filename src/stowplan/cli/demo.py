"""`stowplan demo`: the real scheduler on a simulated cluster, all in this process."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any, Final

import click

from stowplan.apiserver.kubelet import KubeletOptions
from stowplan.apiserver.server import ApiServer
from stowplan.cli.invocation import own_command
from stowplan.cli.main import EXIT_INTERRUPTED
from stowplan.cli.options import PORT, console_port_option
from stowplan.cli.tables import OutputFormat, output_option, print_object, print_table
from stowplan.config.defaults import default_config
from stowplan.console.mirror import MirroringHandlers, mirror_of
from stowplan.console.serving import Console
from stowplan.demo.displays import Display, LiveTable, PlainLines
from stowplan.demo.show import DemoResult, Show, ShowOptions
from stowplan.demo.terminal import Terminal, is_drawable
from stowplan.demo.view import DemoView, PodPanel
from stowplan.logs import configure
from stowplan.scheduler.event_handlers import EventHandlers
from stowplan.scheduler.ledger import Ledger
from stowplan.server.listen import cannot_listen, open_port

_HOST: Final = "127.0.0.1"
_KUBELET_DELAY_S: Final = 0.5
_NAMED: Final = 8  # pods that an error names; the table has them all


@click.command()
@click.option(
    "--once", is_flag=True, help="Exit when the first pods are placed, instead of at Ctrl-C."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed for all random choices.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0.1, max=100),
    default=1.0,
    show_default=True,
    help="Speed, as a multiple of real time.",
)
@click.option(
    "--nodes",
    type=click.IntRange(min=1, max=500),
    default=12,
    show_default=True,
    help="Number of nodes. With fewer than 12, some pods do not fit.",
)
@click.option(
    "--port",
    type=PORT,
    default=0,
    show_default=True,
    help="Port of the simulated cluster's API; 0 picks a free one.",
)
@console_port_option(
    "Serve the web console on 127.0.0.1, at this port or 10270; 0 picks a free one."
)
@output_option()
def demo(
    once: bool,
    seed: int,
    speed: float,
    nodes: int,
    port: int,
    console_port: int | None,
    output: OutputFormat | None,
) -> int:
    """Watch the scheduler place pods on a simulated cluster.

    Starts an in-memory API server with twelve nodes in three zones, creates and deletes workloads,
    and runs the real scheduler against it over HTTP. On a terminal it draws a live table of where
    each pod runs, and which pods are pending and why. In a pipe it prints one line per event.
    Nothing is stored.

    With --once it exits by itself: with code 0, or 1 if a pod stayed pending unexpectedly. (One pod
    requests more than any node has, so it must stay pending.) With -o it prints the final table as
    JSON or YAML, and events go to standard error.
    """
    options = ShowOptions(once=once, seed=seed, speed=speed, nodes=nodes)
    terminal = None
    if output is None and is_drawable(sys.stdout, os.environ):
        terminal = Terminal(sys.stdout, os.environ)
    try:
        with _logging(is_live=terminal is not None):
            outcome = asyncio.run(_run(options, port, console_port, terminal, output))
    except KeyboardInterrupt:  # before the show had begun to listen for it
        return EXIT_INTERRUPTED if once else 0
    _print(outcome, options, output)
    if not once:
        return 0
    if outcome.was_stopped:
        return EXIT_INTERRUPTED
    return 1 if outcome.missing else 0


@contextmanager
def _logging(*, is_live: bool) -> Iterator[None]:
    """Log errors only, and hold them back while the live table is on the screen."""
    held = io.StringIO() if is_live and sys.stderr.isatty() else None
    configure(0, "text", held)
    logging.getLogger("stowplan").setLevel(logging.ERROR)
    try:
        yield
    finally:
        if held is not None:
            click.echo(held.getvalue(), err=True, nl=False)


async def _run(
    options: ShowOptions,
    port: int,
    console_port: int | None,
    terminal: Terminal | None,
    output: OutputFormat | None,
) -> DemoResult:
    stop = asyncio.Event()
    _listen_to_signals(stop, terminal)
    delay_s = _KUBELET_DELAY_S / options.speed
    kubelet = KubeletOptions(start_delay_s=delay_s, stop_delay_s=delay_s)
    server = ApiServer(kubelet=kubelet, device_claims=True)
    try:
        await server.start(_HOST, port)
    except OSError as error:
        raise cannot_listen(error, _HOST, port, flag="--port") from None
    try:
        kubectl = _kubectl(server.url)
        out = sys.stdout if output is None else sys.stderr
        display: Display = PlainLines(out) if terminal is None else LiveTable(terminal)
        mirror = mirror_of(default_config()) if console_port is not None else None
        handlers = partial(MirroringHandlers, mirror=mirror) if mirror else EventHandlers
        show = Show(server.url, options, display, kubectl=kubectl, handlers=handlers)
        async with AsyncExitStack() as served:
            if mirror is not None:
                mirror.is_synced = lambda: True
                show.engine.ledger = Ledger(show.engine.clock)
                console = Console(mirror, show.engine, embedded=server)
                served.push_async_callback(console.stop)
                await console.start(open_port(_HOST, console_port or 0, flag="--console"))
                show.console_url = console.url
            if terminal is None:
                click.echo(f"API server on {server.url}", file=out)
                if show.console_url:
                    click.echo(f"console on {show.console_url}", file=out)
                if kubectl:
                    click.echo(f"look at it with: {kubectl}", file=out)
            return await show.run(stop)
    finally:
        await server.stop()


def _kubectl(url: str) -> str:
    """Return the kubectl command that shows the same cluster, or "" without kubectl."""
    return f"kubectl --server {url} get pods -w" if shutil.which("kubectl") else ""


def _listen_to_signals(stop: asyncio.Event, terminal: Terminal | None) -> None:
    """Stop cleanly at the first Ctrl-C and at once at the second; restore the screen at Ctrl-Z."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            if terminal is not None:
                terminal.leave()
            os._exit(EXIT_INTERRUPTED)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    if terminal is not None:
        loop.add_signal_handler(signal.SIGTSTP, terminal.suspend)


# The final output


def _print(outcome: DemoResult, options: ShowOptions, output: OutputFormat | None) -> None:
    view = outcome.view
    if output is not None:
        print_object(_as_object(outcome, options), output)
        return
    print_table(
        ("pod", "node", "status", "why"),
        [(pod.name, pod.node, pod.status, _why(pod)) for pod in (*view.placed, *view.pending)],
    )
    click.echo(_in_one_line(view))
    if options.once and outcome.missing and not outcome.was_stopped:
        click.echo(f"Error: {_complaint(outcome.missing)}", err=True)
    else:
        click.echo(f"How it does that, in sixteen short lessons: {own_command()} learn")


def _complaint(missing: tuple[str, ...]) -> str:
    text = f"{len(missing)} pod{'' if len(missing) == 1 else 's'} stayed pending that should not: "
    text += ", ".join(missing[:_NAMED])
    left = len(missing) - _NAMED
    return f"{text} and {left} more" if left > 0 else text


def _why(pod: PodPanel) -> str:
    if not pod.stays_pending:
        return pod.why
    return f"{pod.why} (expected to stay pending: it {pod.stays_pending})"


def _in_one_line(view: DemoView) -> str:
    placed, pending = view.placed_total, len(view.pending)
    expected = sum(1 for pod in view.pending if pod.stays_pending)
    text = f"{placed} pod{'' if placed == 1 else 's'} placed, {view.finished_total} finished, "
    text += f"{pending} pending"
    if not expected:
        return text
    return f"{text}, as expected" if expected == pending else f"{text}, {expected} as expected"


def _as_object(outcome: DemoResult, options: ShowOptions) -> dict[str, Any]:
    view = outcome.view
    return {
        "seed": view.seed,
        "speed": options.speed,
        "seconds": round(view.elapsed_s, 3),
        "placed": view.placed_total,
        "finished": view.finished_total,
        "missing": list(outcome.missing),
        "nodes": [
            {
                "name": node.name,
                "zone": node.zone,
                "milliCpu": {"requested": node.cpu_used, "allocatable": node.cpu_total},
                "memoryBytes": {"requested": node.memory_used, "allocatable": node.memory_total},
                "pods": node.pods,
                "cordoned": node.is_cordoned,
                "taints": list(node.taints),
            }
            for node in view.nodes
        ],
        "pods": [
            {
                "pod": pod.name,
                "node": pod.node or None,
                "status": pod.status,
                "why": pod.why,
                "expectedToStayPending": bool(pod.stays_pending),
            }
            for pod in (*view.placed, *view.pending)
        ],
    }
