"""What is written and printed of a played scenario, trace or recording, shared by commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from stowplan.cli.options import file_option
from stowplan.cli.tables import OutputFormat, print_object, print_table
from stowplan.errors import ConfigError
from stowplan.output_file import LineFile, write_file
from stowplan.present.pipes import is_stdout_closed
from stowplan.present.tables import counted, printable

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:
    from stowplan.sim.scenarios import Entry, Outcome
    from stowplan.sim.scenarios.live import Live
    from stowplan.sim.scenarios.report import DecisionLog
    from stowplan.sim.traces.model import ReadCounts


#: Gaps of a recording that are named; all are counted.
_WARNED: Final = 5


def warn_reading(*readings: tuple[Path, ReadCounts]) -> None:
    """Report broken rows and gaps of traces and recordings on standard error, each once."""
    warnings = [text for file, reading in readings for text in _warnings(file, reading)]
    for text in dict.fromkeys(warnings):
        click.echo(f"Warning: {printable(text)}", err=True)


def _warnings(file: Path, reading: ReadCounts) -> Iterator[str]:
    for row in reading.examples:
        yield f"{row.where}: {row.reason}"
    gaps = Counter(reading.gaps)  # many objects can have the same problem
    named = list(islice(gaps.items(), _WARNED))
    for (at, note), times in named:
        yield f"{file}: gap at {at:,.1f} s: {note}" + (f" ({times:,} times)" if times > 1 else "")
    if more := gaps.total() - sum(times for _, times in named):
        yield f"{file}: and {counted(more, 'more gap')}"


def result_options(command: F) -> F:
    """Add `--result` and `--prices`."""
    command = file_option(
        "--prices",
        "With --result: prices of nodes per hour by instance type, in YAML: `m5.large: 0.1`.",
        dir_okay=False,
    )(command)
    return file_option(
        "--result",
        "Write the run for `stowplan compare`: every pod, and the cluster over time. Gzipped "
        "if the name ends with .gz.",
        dir_okay=False,
    )(command)


def prices_of(path: Path | None, result: Path | None) -> dict[str, float]:
    """The prices of nodes in a file, for the run that is written to `result`."""
    if path is None:
        return {}
    if result is None:
        raise ConfigError("prices are for --result. Fix: add --result FILE", where="--prices")
    from stowplan.sim.results.files import read_prices

    return read_prices(path)


def save_result(outcome: Outcome, path: Path | None, prices: Path | None) -> None:
    """Write the run of an outcome, if requested. Warn about types without a price."""
    if path is None or outcome.run is None:
        return
    from stowplan.sim.results.conditions import unpriced_types
    from stowplan.sim.results.files import save

    save(outcome.run, path)
    if outcome.run.unpriced:
        click.echo(f"Warning: {prices} has no price for {unpriced_types(outcome.run)}", err=True)


@contextmanager
def decision_log(path: Path | None, kept: list[str]) -> Iterator[DecisionLog | None]:
    """The log of decisions, if one is wanted; what it holds in the end is noted in `kept`.

    If the disk is full, ConfigError is raised at the end of the block: show results within it.
    """
    if path is None:
        yield None
        return
    from stowplan.sim.scenarios.report import DecisionLog

    with LineFile(path) as file:
        log = DecisionLog(file.write)
        try:
            yield log
        finally:
            end = f"has {log.lines:,} lines" if file.is_complete else "is incomplete"
            kept.append(f"{path} {end}")


def report_interruption(live: Live, kept: Sequence[str]) -> None:
    """Say when Ctrl-C ended the work, and what it left."""
    if not is_stdout_closed():
        told = "; ".join(kept) or "nothing was written"
        click.echo(f"\ninterrupted at {live.at:,.1f} s of the cluster's time; {told}", err=True)


@contextmanager
def interruptible(live: Live, kept: Sequence[str]) -> Iterator[None]:
    """Report Ctrl-C; `kept` says in the end what has been written."""
    try:
        yield
    except KeyboardInterrupt:
        report_interruption(live, kept)
        raise


def both(
    first: Callable[[Entry], None], second: Callable[[Entry], None]
) -> Callable[[Entry], None]:
    def on_entry(entry: Entry) -> None:
        first(entry)
        second(entry)

    return on_entry


def show(outcome: Outcome) -> None:
    from stowplan.sim.scenarios.report import figure_rows, summary, tables

    for table in tables(outcome):
        click.echo()
        print_table(table.headers, table.rows)
    if rows := figure_rows(outcome):
        click.echo()
        print_table(("figure", "value"), rows)
    click.echo()
    for line in summary(outcome):
        click.secho(line, fg="red" if line.startswith("FAIL") else None)


def print_data(outcomes: Sequence[Outcome], output: OutputFormat, with_timeline: bool) -> None:
    from stowplan.sim.scenarios.report import as_data

    data = [as_data(outcome, with_timeline=with_timeline) for outcome in outcomes]
    print_object(data[0] if len(data) == 1 else data, output)


def write(path: Path, text: str) -> None:
    write_file(path, text.encode())
