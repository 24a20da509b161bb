"""`stowplan simulate`: run a scenario and check its expectations."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from stowplan.cli.options import (
    console_port_option,
    file_option,
    html_option,
    plugin_option,
    verbosity_level,
    verify_option,
)
from stowplan.cli.played import (
    both,
    decision_log,
    prices_of,
    print_data,
    report_interruption,
    result_options,
    save_result,
    show,
    write,
)
from stowplan.cli.tables import table_option
from stowplan.errors import ConfigError
from stowplan.logs import configure
from stowplan.output_file import check_output_files

if TYPE_CHECKING:
    from stowplan.sim.scenarios import Outcome
    from stowplan.sim.scenarios.console import ConsoleOptions
    from stowplan.sim.scenarios.files import Playable

EXIT_NOT_MET: Final = 1


@click.command()
@click.argument("file")
@click.option(
    "--on",
    metavar="TARGET",
    default="virtual",
    show_default=True,
    help="Where to run: virtual (no sockets, virtual time), embedded (our API server, real time), "
    "real (starts etcd, kube-apiserver and KWOK), or the path of a kubeconfig.",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig to use.")
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Allow a kubeconfig whose cluster is not on this machine. The scenario creates and "
    "deletes nodes and pods there.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    help="Seed for all random choices. [default: the scenario's own, or 0]",
)
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration file, instead of the scenario's own.",
)
@plugin_option
@click.option(
    "--workload",
    metavar="PATTERN",
    default="*",
    help="Run only workloads whose Test/Name, Test or Name matches; for a performance-config.yaml.",
)
@click.option(
    "--label",
    "labels",
    metavar="LABEL",
    multiple=True,
    help="Run only workloads with this label (-LABEL: without it); for a performance-config.yaml.",
)
@html_option("the cluster and its timeline")
@console_port_option(
    "With --on embedded: serve the web console on 127.0.0.1, at this port or 10270 (0 picks a "
    "free one), and keep the cluster after the scenario, until Ctrl-C.",
)
@file_option(
    "--decisions",
    "Write one JSON line per attempt, eviction and binding, as it happens.",
    dir_okay=False,
)
@click.option(
    "--with-scores",
    is_flag=True,
    help="With --decisions: for every attempt also each feasible node's score by plugin, and the "
    "other nodes' reasons. Large: a line names every node.",
)
@click.option(
    "--timeline",
    type=click.Choice(["auto", "all", "none"]),
    default="auto",
    show_default=True,
    help="How much of the timeline to print. auto prints a few hundred entries, then only steps.",
)
@table_option(
    "table: print the timeline as it happens, then tables. json, yaml: print everything as data.",
)
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=verbosity_level,
    metavar="LEVEL",
    help="Verbosity of the scheduler's log on standard error, 0 to 10. [default: only warnings]",
)
@result_options
@verify_option(10)
def simulate(
    file: str,
    on: str,
    context: str | None,
    allow_remote: bool,
    seed: int | None,
    config_file: str | None,
    plugins: Sequence[str],
    workload: str,
    labels: Sequence[str],
    html: Path | None,
    console_port: int | None,
    decisions: Path | None,
    with_scores: bool,
    timeline: str,
    output: str,
    verbosity: int | None,
    result: Path | None,
    prices: Path | None,
    verify_decisions: int,
) -> int:
    """Run a scenario and check its expectations.

    FILE is a YAML scenario (cluster, steps, expectations), a Python file with
    `async def scenario(cluster)`, or a performance-config.yaml of scheduler_perf:

    \b
      $ stowplan simulate scenario.yaml
      $ stowplan simulate scenario.py --on real --html page.html
      $ stowplan simulate performance-config.yaml --workload 'SchedulingBasic/*'

    The exit code is 0 if all expectations are met, 1 if one is not or the scenario failed, 2 if
    the file is invalid, 130 after Ctrl-C, 143 after SIGTERM. docs/scenarios.md explains
    how to write scenarios.
    """
    configure(verbosity or 0, "text")
    if verbosity is None:
        logging.getLogger("stowplan").setLevel(logging.WARNING)
    if with_scores and decisions is None:
        raise ConfigError("adds to the lines of --decisions FILE; give both", where="--with-scores")
    if console_port is not None and on != "embedded":
        raise ConfigError(
            "shows a cluster of this process in real time. Fix: add --on embedded",
            where="--console",
        )
    outputs = [(html, "--html"), (decisions, "--decisions"), (result, "--result")]
    if any(path for path, _ in outputs):
        from stowplan.sim.sweep.dependencies import named_files

        inputs = (file, *named_files([Path(file)]), config_file, prices)
        check_output_files(outputs, inputs=inputs)
    from stowplan.server.memory import grow_without_collecting, keep_freed_memory
    from stowplan.sim.scenarios import Options
    from stowplan.sim.scenarios.files import Wishes, read_playables
    from stowplan.sim.scenarios.live import MOST_LINES, Live

    keep_freed_memory()
    grow_without_collecting()
    live = Live(
        sys.stdout if output == "table" and timeline != "none" else None,
        sys.stderr,
        most=None if timeline == "all" else MOST_LINES,
    )
    wishes = Wishes(seed, config_file, workload, labels, live.progress, plugins)
    keeps_timeline = output != "table" and timeline != "none"
    outcomes: list[Outcome] = []
    kept: list[str] = []
    playables: list[Playable] = []
    pages = 0
    try:
        playables = read_playables(Path(file), wishes)
        if console_port is not None and len(playables) > 1:
            raise ConfigError(
                f"shows one cluster, and the file has {len(playables)} workloads. Fix: choose one "
                "with --workload",
                where="--console",
            )
        with decision_log(decisions, kept) as log:
            for playable in playables:
                options = Options(
                    name=playable.name,
                    seed=seed if seed is not None else playable.seed or 0,
                    on_entry=live if log is None else both(live, log),
                    # On a virtual cluster only a Python scenario can read events.
                    writes_events=on != "virtual" or file.endswith(".py"),
                    context=context,
                    allow_remote=allow_remote,
                    verify_decisions=verify_decisions,
                    explains=with_scores,
                    draws=html is not None,
                    keeps_entries=html is not None or keeps_timeline,
                    observes=result is not None,
                    prices=prices_of(prices, result),
                    console=_console(console_port),
                )
                if output == "table":
                    click.echo(f"{playable.name}, on {on}, seed {options.seed}")
                live.begin(playable.pods)
                try:
                    outcome = playable.play(on, options)
                finally:
                    live.end()
                outcomes.append(outcome)
                if result is not None:
                    save_result(outcome, _numbered(result, len(outcomes)), prices)
                if output == "table":
                    show(outcome)
                if html is not None:
                    from stowplan.sim.scenarios.page import page

                    path = _numbered(html, len(outcomes))
                    write(path, page(outcome, about=playable.about))
                    kept.append(f"{path} is complete")
                    pages += 1
            if output != "table":
                print_data(outcomes, "json" if output == "json" else "yaml", keeps_timeline)
    except KeyboardInterrupt:
        if html is not None and (not playables or pages < len(playables)):
            path = _numbered(html, pages + 1)
            old = "is still that of an earlier run"
            kept.append(f"{path} {old if path.exists() else 'was not written'}")
        report_interruption(live, kept)
        raise
    return 0 if all(outcome.is_ok for outcome in outcomes) else EXIT_NOT_MET


def _console(port: int | None) -> ConsoleOptions | None:
    if port is None:
        return None
    from stowplan.sim.scenarios.console import ConsoleOptions

    return ConsoleOptions(port, lambda text: click.echo(text, err=True))


def _numbered(path: Path, number: int) -> Path:
    """Return the page's path for each of several workloads: page.html, page-2.html, ..."""
    return path if number == 1 else path.with_stem(f"{path.stem}-{number}")
