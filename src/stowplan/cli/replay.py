"""`stowplan replay`: a recording again, under another configuration."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan.cli.options import plugin_option
from stowplan.cli.played import (
    both,
    decision_log,
    prices_of,
    print_data,
    result_options,
    save_result,
    show,
    write,
)
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.errors import ConfigError
from stowplan.logs import configure
from stowplan.output_file import check_output_file

if TYPE_CHECKING:
    from stowplan.sim.scenarios import Options


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration to play it under. Default: kube-scheduler's defaults.",
)
@plugin_option
@click.option(
    "--follow",
    is_flag=True,
    help="Judge every recorded decision on the recorded cluster, and show where this configuration "
    "would have chosen another node.",
)
@click.option(
    "--nodes",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Play it on the nodes of this trace, export or generator instead of the recorded ones.",
)
@click.option(
    "--reschedule",
    is_flag=True,
    help="Also place the pods anew that had a node when the recording began.",
)
@click.option(
    "--speed",
    type=click.Choice(["max", "1x"]),
    default="max",
    show_default=True,
    help="max: in virtual time, as fast as it goes. 1x: in real time.",
)
@click.option("--seed", type=click.IntRange(0), default=0, metavar="N", help="For random choices.")
@click.option(
    "--decisions",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write one JSON line per attempt, eviction and binding; with --follow, per recorded "
    "decision.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a self-contained HTML page with the cluster and its timeline.",
)
@result_options
@output_option()
def replay(
    file: Path,
    config_file: str | None,
    plugins: Sequence[str],
    follow: bool,
    nodes: Path | None,
    reschedule: bool,
    speed: str,
    seed: int,
    decisions: Path | None,
    html: Path | None,
    result: Path | None,
    prices: Path | None,
    output: OutputFormat | None,
) -> int:
    """Play a recording again, under another configuration.

    \b
      $ stowplan replay tuesday.jsonl.gz --config most-allocated.yaml
      $ stowplan replay tuesday.jsonl.gz --follow

    Pods arrive, end and are deleted, and nodes change, when they did in the recording; where pods
    go is decided anew, by the scheduler of this version. With the same file, configuration and seed
    the decisions are the same, byte by byte.

    --follow does not play: it keeps the cluster as it was recorded and asks for every decision
    whether the recorded node is among the best ones here. Exits with 1 if the replay fails.
    """
    configure(0, "text")
    logging.getLogger("stowplan").setLevel(logging.WARNING)
    for path, option in ((decisions, "--decisions"), (html, "--html"), (result, "--result")):
        check_output_file(path, option)
    if not follow:
        return _play(
            file,
            config_file,
            plugins,
            nodes,
            reschedule,
            speed,
            seed,
            decisions,
            html,
            result,
            prices,
            output,
        )
    for given, option in (
        (nodes, "--nodes"),
        (html, "--html"),
        (result, "--result"),
        (reschedule, "--reschedule"),
        (speed != "max", "--speed"),
    ):
        if given:
            raise ConfigError("does not go with --follow, which plays nothing", where=option)
    return _follow(file, config_file, plugins, decisions, output)


def _play(
    file: Path,
    config_file: str | None,
    plugins: Sequence[str],
    nodes: Path | None,
    reschedule: bool,
    speed: str,
    seed: int,
    decisions: Path | None,
    html: Path | None,
    result: Path | None,
    prices: Path | None,
    output: OutputFormat | None,
) -> int:
    from stowplan.server.memory import grow_without_collecting, keep_freed_memory
    from stowplan.sim.scenarios import Cluster, Options, play_trace, run_scenario
    from stowplan.sim.scenarios.live import Live
    from stowplan.sim.traces.load import load_replay

    keep_freed_memory()
    grow_without_collecting()
    trace = load_replay(file, nodes=nodes, reschedule=reschedule)
    live = Live(None, sys.stderr)
    kept: list[str] = []

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace, on_progress=live.progress)

    with decision_log(decisions, kept) as log:
        options = _scheduled(
            Options(
                name=file.name,
                seed=seed,
                on_entry=live if log is None else both(live, log),
                writes_events=False,
                draws=html is not None,
                keeps_entries=html is not None or output is not None,
                own_priorities=True,
                observes=result is not None,
                prices=prices_of(prices),
            ),
            config_file,
            plugins,
        )
        live.begin(trace.pods)
        try:
            outcome = run_scenario(
                scenario, on="virtual" if speed == "max" else "embedded", options=options
            )
        finally:
            live.end()
    if html is not None:
        from stowplan.sim.scenarios.page import page

        write(html, page(outcome, about=f"Replay of {file.name}"))
    save_result(outcome, result)
    if output is None:
        show(outcome)
    else:
        print_data([outcome], output, with_timeline=False)
    return 0 if outcome.is_ok else 1


def _scheduled(options: Options, config_file: str | None, plugins: Sequence[str]) -> Options:
    from dataclasses import replace

    from stowplan.sim.scenarios.scheduling import read_scheduling

    scheduling = read_scheduling(
        config_file,
        plugins,
        folder=Path(),
        where_config="--config",
        where_plugins="--plugin",
    )
    return replace(options, config=scheduling.config, registry=scheduling.registry)


def _follow(
    file: Path,
    config_file: str | None,
    plugins: Sequence[str],
    decisions: Path | None,
    output: OutputFormat | None,
) -> int:
    from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine
    from stowplan.recording.reading import Problems
    from stowplan.replay.report import Tally, comparison_line, configuration_of, follow_file
    from stowplan.sim.scenarios import Options

    scheduled = _scheduled(Options(), config_file, plugins)
    configuration = configuration_of(scheduled.config, scheduled.registry)
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S, delay_s=1.0)
    tally, problems = Tally(), Problems()
    sink = decisions.open("w", encoding="utf-8") if decisions is not None else None
    try:
        for comparison in follow_file(file, configuration, tally, problems):
            if sink is not None:
                sink.write(comparison_line(comparison))
            line.update(lambda: f"{tally.decided:,} decisions, {tally.agreement:.2%} the same")
    finally:
        line.erase()
        if sink is not None:
            sink.close()
    for text in problems.examples:
        click.echo(f"Warning: {file}: {text}", err=True)
    if output is None:
        click.echo(tally.text(), nl=False)
    else:
        print_object(tally.data(), output)
    return 0
