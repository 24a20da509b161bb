"""`stowplan compare`: recordings, replays and scenarios side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from stowplan.cli.options import NamedPath, file_option, html_option
from stowplan.cli.played import write
from stowplan.cli.tables import OutputFormat, output_option, print_object
from stowplan.errors import ConfigError
from stowplan.output_file import check_output_files
from stowplan.present.tables import counted, printable

if TYPE_CHECKING:
    from stowplan.sim.results.comparing import Comparison

EXIT_FAILED: Final = 1


@click.command()
@click.argument("files", nargs=-1, required=True, type=NamedPath(path_type=Path))
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Name of a run; give it once for each file. Default: the file's name; for a run that a "
    "sweep kept, its configuration and seed.",
)
@file_option(
    "--prices",
    "Prices of nodes per hour by instance type, in YAML: `m5.large: 0.096`. Only for "
    "recordings: a result has its own prices. Default: the label stowplan.io/price-per-hour.",
    dir_okay=False,
)
@click.option(
    "--fail-on",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Exit with 1 if this holds for a run other than the first: pending_p99>30s, cpu<60%, "
    "gaps>0, cost>1.1x (1.1 times the first run's). Can be repeated.",
)
@html_option("plots")
@file_option(
    "--pods",
    "Write every pod of every run as a table: FILE.csv, or FILE.parquet (needs stowplan[data]).",
    dir_okay=False,
)
@output_option()
def compare(
    files: Sequence[Path],
    names: Sequence[str],
    prices: Path | None,
    conditions: Sequence[str],
    html: Path | None,
    pods: Path | None,
    output: OutputFormat | None,
) -> int:
    """Compare runs: which pods moved, which fit now, and what the nodes cost.

    \b
      $ stowplan replay tuesday.jsonl.gz --config most.yaml --result most.json.gz
      $ stowplan compare tuesday.jsonl.gz most.json.gz --html page.html
      $ stowplan compare a.json.gz b.json.gz --fail-on 'pending_p99>30s'

    FILES are recordings (or folders of rotated files) and results of `stowplan replay` and
    `stowplan simulate`. A recording shows what the recorded scheduler decided. The other runs are
    compared with the first one. docs/compare.md explains the figures.
    """
    from stowplan.recording.probe import recording_files
    from stowplan.sim.results.comparing import compare as compared
    from stowplan.sim.results.conditions import parse_condition
    from stowplan.sim.results.files import load, name_of, named, names_of, read_prices
    from stowplan.sim.results.text import data_of, text_of

    if names and len(names) != len(files):
        raise click.UsageError(
            f"--name gives {counted(len(names), 'name')} for {counted(len(files), 'run')}."
            " Fix: give it once for each file"
        )
    for path in files:
        if path.is_dir():
            from stowplan.sim.sweep.folder import check_no_sweep

            check_no_sweep(path)
    read = [each for path in files for each in recording_files(path)]
    check_output_files([(html, "--html"), (pods, "--pods")], inputs=[*read, prices])
    if pods is not None:
        from stowplan.sim.results.pod_table import check_format

        check_format(pods, "--pods")
    asked = [parse_condition(text) for text in conditions]
    for each in asked:
        each.check_runs(len(files))
    table = read_prices(prices) if prices is not None else {}
    results = _check_prices(prices, files)
    runs = [load(path, prices=table) for path in files]
    whole = named(runs, names or map(name_of, files, runs))
    for_people = whole if names else named(runs, names_of(files, runs))
    comparison = compared(for_people if output is None else whole)
    failed = [text for each in asked for text in each.failures(comparison)]
    for text in _warnings(comparison, results):
        click.echo(f"Warning: {printable(text)}", err=True)
    if output is None:
        click.echo(text_of(comparison), nl=False)
    else:
        print_object(data_of(comparison), output)
    for text in failed:
        click.secho(f"FAIL {printable(text)}", fg="red", err=True)
    # After the figures, which are wanted even if a file cannot be written.
    if html is not None:
        from stowplan.sim.results.page import page_of

        write(html, page_of(comparison))
    if pods is not None:
        from stowplan.sim.results.pod_table import write_pods

        write_pods(whole, pods)
    return EXIT_FAILED if failed else 0


def _check_prices(prices: Path | None, files: Sequence[Path]) -> list[Path]:
    """The results among the files, if there are prices. Raises ConfigError if all are results."""
    from stowplan.recording.probe import is_recording

    results = [path for path in files if prices is not None and not is_recording(path)]
    if prices is not None and len(results) == len(files):
        raise ConfigError(
            "is for recordings, and there is none: results have the prices that they were written"
            " with. Fix: give --prices to the `replay` or `simulate` that writes them",
            where="--prices",
        )
    return results


def _warnings(comparison: Comparison, results: Sequence[Path]) -> Iterator[str]:
    from stowplan.sim.results.comparing import few_shared_pods
    from stowplan.sim.results.conditions import WITHOUT_PRICES, unpriced_types

    first, *others = comparison.runs
    for run in others:
        if text := few_shared_pods(first, run):
            yield text
    for path in results:
        yield f"--prices is not used for {path}, a result: it has the prices it was written with"
    has_costs = any(run.has_prices for run in comparison.runs)
    for run in comparison.runs:
        if run.unpriced:
            yield f"{run.name}: no price for {unpriced_types(run)}; these nodes cost nothing"
        elif has_costs and not run.has_prices:
            yield f"{run.name}: {WITHOUT_PRICES}"
