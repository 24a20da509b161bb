"""`stowplan sweep`: many configurations on many workloads, on all cores."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from stowplan.cli.invocation import own_command
from stowplan.cli.options import NamedPath
from stowplan.cli.played import warn_reading
from stowplan.cli.tables import print_object, table_option
from stowplan.config.fields import did_you_mean
from stowplan.errors import ConfigError
from stowplan.present.tables import counted, printable

if TYPE_CHECKING:
    from stowplan.sim.sweep.running import Progress, Runner

EXIT_FAILED: Final = 1
_BAR: Final = 24


@click.command()
@click.argument("file", type=NamedPath(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the results; finished tasks in it are not run again. [default: FILE without "
    "its ending, with -results]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Number of worker processes. [default: one per core]",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Run on the Dask cluster at this address, such as tcp://10.0.0.1:8786; `local` starts one "
    "with --workers processes. Needs stowplan[dask].",
)
@click.option(
    "--keep",
    "kept",
    type=click.Choice(["runs", "decisions"]),
    multiple=True,
    help="Also keep for every task: runs (every pod, and the cluster over time, for `stowplan "
    "compare`), decisions (the decision log). Can be repeated.",
)
@click.option(
    "--figure",
    "figures",
    multiple=True,
    metavar="FIGURE",
    help="Show this figure of docs/compare.md. Can be repeated.",
)
@click.option(
    "--sort",
    default="",
    metavar="FIGURE",
    help="Sort rows by this figure, here and in report.html; -FIGURE sorts in descending order.",
)
@table_option("table: means over seeds. json, yaml: every row as data.")
def sweep(
    file: Path,
    results: Path | None,
    workers: int | None,
    dask: str | None,
    kept: Sequence[str],
    figures: Sequence[str],
    sort: str,
    output: str,
) -> int:
    """Simulate many configurations on many workloads, on all cores.

    \b
      $ stowplan sweep weights.yaml
      $ stowplan sweep weights.yaml --sort nodes_in_use --figure nodes_in_use --figure pending_p99
      $ stowplan sweep weights.yaml --dask tcp://10.0.0.1:8786

    FILE names workloads (scenarios, traces, recordings or folders of rotated ones), configurations
    with parameters to vary (a grid, or random search), and seeds. Every combination is a task.
    Results are a table (results.jsonl, results.csv, and results.parquet with stowplan[data]) and a
    page with plots (report.html). They are the same, byte by byte, on any number of processes and
    on Dask.

    You can interrupt it at any time; the same command resumes it. docs/sweep.md explains the file.
    Exits with 1 if a task failed.
    """
    from stowplan.sim.results.conditions import COSTS
    from stowplan.sim.results.observing import PRICE
    from stowplan.sim.sweep.document import read_sweep
    from stowplan.sim.sweep.folder import opened
    from stowplan.sim.sweep.running import run_sweep
    from stowplan.sim.sweep.table import known_figures, text_table, warnings_of

    known = known_figures()
    named = [*(("--figure", each) for each in figures), ("--sort", sort.lstrip("-"))]
    for option, name in named:
        if name and name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            raise ConfigError(f"there is no figure {name}{hint}", where=option)
    try:
        asked = read_sweep(file)
    except KeyboardInterrupt:
        click.echo("\ninterrupted before the first task", err=True)
        raise
    for text in asked.warnings:
        click.echo(f"Warning: {printable(text)}", err=True)
    warn_reading(*asked.readings)
    folder_path = results or file.with_name(f"{file.stem}-results")
    count = workers or _cores()
    shown = SweepProgress(sys.stderr)
    try:
        # The runner first: a Dask cluster that cannot be reached leaves no folder behind.
        with (
            _runner(dask, count, kept) as runner,
            opened(folder_path, keeps=sorted(set(kept))) as folder,
        ):
            table, progress = run_sweep(asked, folder, runner, shown, sort=sort)
    except KeyboardInterrupt:
        shown.end()
        click.echo(
            f"\ninterrupted; {shown.done:,} of {len(asked.tasks):,} tasks are finished, "
            f"and kept in {folder_path}. To go on: {own_command()} {shlex.join(sys.argv[1:])}",
            err=True,
        )
        raise
    shown.end()
    for text in warnings_of(table):
        click.echo(f"Warning: {printable(text)}", err=True)
    for option, name in named:
        if name in COSTS and not any(row["cost"] or row.get("unpriced") for row in table.rows):
            click.echo(
                f"Warning: {option} {name}: no node has a price. Fix: add `prices: FILE` to"
                f" {printable(str(file))}, or label nodes with {PRICE}",
                err=True,
            )
    if output == "table":
        click.echo(text_table(table, sort=sort, figures=figures), nl=False)
        runs = counted(len(table.rows), "run")
        click.echo(f"\n{runs}; results and report.html are in {folder_path}")
    else:
        print_object(
            {"name": table.name, "results": str(folder_path), "rows": table.rows},
            "json" if output == "json" else "yaml",
        )
    return _failures(progress, [row for row in table.rows if row["problem"]])


def _failures(progress: Progress, failed: Sequence[dict[str, object]]) -> int:
    for task in progress.lost:
        click.secho(
            f"FAIL {printable(task.label)}: its worker was killed each time, perhaps for lack of "
            "memory. Fix: fewer --workers, then run the same command again",
            fg="red",
            err=True,
        )
    for row in failed:
        click.secho(
            printable(f"FAIL {row['run']}: {row['problem']}"),
            fg="red",
            err=True,
        )
    return EXIT_FAILED if progress.lost or failed else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _runner(dask: str | None, workers: int, kept: Sequence[str]) -> AbstractContextManager[Runner]:
    keeps_run, keeps_decisions = "runs" in kept, "decisions" in kept
    if dask is not None:
        from stowplan.sim.sweep.dask_cluster import connected

        return connected(
            dask, workers=workers, keeps_run=keeps_run, keeps_decisions=keeps_decisions
        )
    from stowplan.sim.sweep.pool import Pool

    return nullcontext(Pool(workers, keeps_run=keeps_run, keeps_decisions=keeps_decisions))


class SweepProgress:
    """A bar on a terminal, and plain lines elsewhere."""

    def __init__(self, stream: TextIO, *, is_live: bool | None = None) -> None:
        from stowplan.present.status_line import PLAIN_INTERVAL_S, StatusLine

        self._line = StatusLine(stream, is_live=is_live, plain_interval_s=PLAIN_INTERVAL_S)
        self._began = time.monotonic()
        self.done = 0

    def __call__(self, progress: Progress) -> None:
        self.done = progress.done
        if progress.before and not progress.played and not progress.lost:
            self._line.say(f"{progress.before:,} of {progress.tasks:,} tasks were finished before")
        self._line.update(lambda: self._text(progress))

    def _text(self, progress: Progress) -> str:
        from stowplan.present.status_line import format_elapsed

        elapsed = time.monotonic() - self._began
        text = f"{progress.done:,}/{progress.tasks:,} tasks, {format_elapsed(elapsed)}"
        left = progress.tasks - progress.done - len(progress.lost)
        if progress.played and left:
            text += f", {format_elapsed(elapsed / progress.played * left)} left"
        if not self._line.is_live:
            return text
        full = _BAR * progress.done // max(progress.tasks, 1)
        return f"[{'#' * full}{'.' * (_BAR - full)}] {text}"

    def end(self) -> None:
        self._line.erase()
