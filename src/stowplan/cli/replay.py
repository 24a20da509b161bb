"""`stowplan replay`: a recording again, under another configuration."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stowplan.cli.options import (
    NamedPath,
    feature_gates_option,
    file_option,
    html_option,
    plugin_option,
)
from stowplan.cli.played import (
    both,
    decision_log,
    interruptible,
    prices_of,
    print_data,
    result_options,
    save_result,
    show,
    warn_reading,
    write,
)
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.config.feature_gates import FeatureGates
from stowplan.errors import ConfigError
from stowplan.logs import configure
from stowplan.logs.lines import fields_of
from stowplan.output_file import LineFile, check_output_files
from stowplan.present.tables import printable
from stowplan.recording.probe import recording_files

if TYPE_CHECKING:
    from stowplan.sim.scenarios import Options


@click.command()
@click.argument("file", type=NamedPath(path_type=Path))
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    help="KubeSchedulerConfiguration for the replay. Default: kube-scheduler's defaults.",
)
@plugin_option
@feature_gates_option
@click.option(
    "--follow",
    is_flag=True,
    help="Judge every recorded decision on the recorded cluster, and show where this configuration "
    "would have chosen another node.",
)
@file_option(
    "--nodes",
    "Replay it on the nodes of this file instead of the recorded ones: manifests, or a trace, "
    "export or generator.",
    dir_okay=False,
)
@click.option(
    "--reschedule",
    is_flag=True,
    help="Also reschedule pods that had a node when the recording began.",
)
@click.option(
    "--speed",
    type=click.Choice(["max", "1x"]),
    default="max",
    show_default=True,
    help="max: in virtual time, as fast as it goes. 1x: in real time.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Seed for random choices: preemption, and equal nodes under `tieBreak: random`.",
)
@file_option(
    "--decisions",
    "Write one JSON line per attempt, eviction and binding; with --follow, per recorded decision.",
    dir_okay=False,
)
@html_option("the cluster and its timeline")
@result_options
@output_option()
def replay(
    file: Path,
    config_file: str | None,
    plugins: Sequence[str],
    gates: FeatureGates,
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
    """Replay a recording under another configuration.

    \b
      $ stowplan replay tuesday.jsonl.gz --config most-allocated.yaml
      $ stowplan replay tuesday.jsonl.gz --follow

    Pods are created, end and are deleted, and nodes change, at their recorded times. The scheduler
    of this version chooses their nodes. The same file, configuration and seed give the same
    decisions, byte by byte.

    FILE is a recording of `stowplan record` (a file, or a folder of rotated files, which count as
    one recording) or of kube-scheduler-simulator. Times for which changes may be missing are
    reported as gaps.

    --follow does not place pods: it keeps the cluster as it was recorded, and checks for every
    decision whether the recorded node is among the best ones here. Exits with 1 if the replay or
    a plugin fails.
    """
    configure(0, "text")
    logging.getLogger("stowplan").setLevel(logging.WARNING)
    check_output_files(
        [(decisions, "--decisions"), (html, "--html"), (result, "--result")],
        inputs=(*recording_files(file), config_file, nodes, prices),
    )
    if gates.is_enabled("DRADeviceTaintRules"):
        _warn_without_rules(file)
    if not follow:
        return _play(
            file,
            config_file,
            plugins,
            gates,
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
        (prices, "--prices"),
        (reschedule, "--reschedule"),
        (speed != "max", "--speed"),
        (seed, "--seed"),
    ):
        if given:
            raise ConfigError(
                "cannot be combined with --follow, which does not place pods", where=option
            )
    return _follow(file, config_file, plugins, gates, decisions, output)


def _play(
    file: Path,
    config_file: str | None,
    plugins: Sequence[str],
    gates: FeatureGates,
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

    known_prices = prices_of(prices, result)
    keep_freed_memory()
    grow_without_collecting()
    trace = load_replay(file, nodes=nodes, reschedule=reschedule)
    warn_reading((file, trace.reading))
    live = Live(None, sys.stderr)
    kept: list[str] = []

    async def scenario(cluster: Cluster) -> None:
        await play_trace(cluster, trace, on_progress=live.progress)

    with interruptible(live, kept), decision_log(decisions, kept) as log:
        options = _scheduled(
            Options(
                name=file.name,
                seed=seed,
                on_entry=live if log is None else both(live, log),
                writes_events=False,
                draws=html is not None,
                keeps_entries=html is not None or output is not None,
                observes=result is not None,
                prices=known_prices,
            ),
            config_file,
            plugins,
            gates,
        )
        live.begin(trace.pods)
        try:
            with _short_log():
                outcome = run_scenario(
                    scenario, on="virtual" if speed == "max" else "embedded", options=options
                )
        finally:
            live.end()
        if not outcome.problem and outcome.plugin_failure:
            outcome.problem = f"a plugin failed: {outcome.plugin_failure}"
        if outcome.problem:
            outcome.problem = f"{file}: {outcome.problem}"
        for text in outcome.warnings:
            click.echo(f"Warning: {printable(text)}", err=True)
        if output is None:
            show(outcome)
        else:
            print_data([outcome], output, with_timeline=False)
        save_result(outcome, result, prices)
        if html is not None:
            from stowplan.sim.scenarios.page import page

            under = config_file or "the default configuration"
            write(html, page(outcome, about=f"Replay of {file.name} under {under}"))
    return 0 if outcome.is_ok else 1


@contextmanager
def _short_log() -> Iterator[None]:
    """Log no pods that wait, which are in the report, and one line per place where plugins fail."""
    attempts = logging.getLogger("stowplan.scheduler.decision_log")
    failures = logging.getLogger("stowplan.plugin_failures")
    level = attempts.level
    attempts.setLevel(logging.CRITICAL)
    failures.addFilter(_shorten)
    try:
        yield
    finally:
        failures.removeFilter(_shorten)
        attempts.setLevel(level)


def _shorten(failure: logging.LogRecord) -> bool:
    """Whether it is the first of its kind; the traceback is removed."""
    failure.exc_info = None
    return "othersSinceLast" not in fields_of(failure)


def _warn_without_rules(file: Path) -> None:
    """Say that a recording has none of the rules that the gate is about."""
    from stowplan.api.resources import DEVICE_TAINT_RULES
    from stowplan.recording.probe import first_header

    header = first_header(file)
    if header is not None and DEVICE_TAINT_RULES.kind not in header.kinds:
        text = f"{file} has no DeviceTaintRules: the recorder could not read them"
        click.echo(f"Warning: {text}", err=True)


def _scheduled(
    options: Options, config_file: str | None, plugins: Sequence[str], gates: FeatureGates
) -> Options:
    from dataclasses import replace

    from stowplan.sim.scenarios.scheduling import read_scheduling

    scheduling = read_scheduling(
        config_file,
        plugins,
        folder=Path(),
        where_config="--config",
        where_plugins="--plugin",
        gates=gates,
    )
    scheduling.check_enabled(where=config_file or "--plugin")
    return replace(options, config=scheduling.config, registry=scheduling.registry)


def _follow(
    file: Path,
    config_file: str | None,
    plugins: Sequence[str],
    gates: FeatureGates,
    decisions: Path | None,
    output: OutputFormat | None,
) -> int:
    from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine
    from stowplan.replay.report import Tally, comparison_line, configuration_of, follow_file
    from stowplan.sim.scenarios import Options

    scheduled = _scheduled(Options(), config_file, plugins, gates)
    configuration = configuration_of(scheduled.config, scheduled.registry)
    line = StatusLine(sys.stderr, plain_interval_s=PLAIN_INTERVAL_S, delay_s=1.0)
    tally = Tally()
    with nullcontext() if decisions is None else LineFile(decisions) as sink:
        try:
            for comparison in follow_file(file, configuration, tally):
                if sink is not None:
                    sink.write(comparison_line(comparison))
                line.update(lambda: tally.progress)
        finally:
            line.erase()
        if output is None:
            click.echo(tally.text(), nl=False)
        else:
            print_object(tally.data(), output)
    tally.check()
    return 0
