"""`stowplan bench`: pods per second, compared with kube-scheduler and bare binding requests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from stowplan.cli.options import file_option, html_option
from stowplan.cli.tables import print_object, print_table
from stowplan.errors import ConfigError, StowplanError
from stowplan.output_file import check_output_files

if TYPE_CHECKING:
    from stowplan.lab.bench.contestants import Contestant
    from stowplan.lab.bench.plan import Item
    from stowplan.lab.bench.results import Measured, Results
    from stowplan.lab.bench.session import Session

EXIT_SOME_FAILED: Final = 1


@click.command()
@click.argument("file")
@click.option(
    "--workload",
    metavar="PATTERN",
    default="*",
    help="Run only workloads whose Test/Name, Test or Name matches this shell pattern (*, ?).",
)
@click.option(
    "--against",
    metavar="NAME,...",
    default="kube-scheduler,raw",
    show_default=True,
    help="Compare Stowplan with these: kube-scheduler, raw, raw/events (raw includes it). A name "
    "after a minus sign is left out: raw,-raw/events.",
)
@click.option(
    "--only",
    metavar="NAME,...",
    help="Run only these now (stowplan, kube-scheduler, raw, raw/events); take the others from the "
    "stored results.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Runs of each contestant. The result is the median.",
)
@click.option(
    "--mode",
    type=click.Choice(["stream", "backlog"]),
    help="stream: create pods while the scheduler runs, as scheduler_perf does. backlog: create "
    "the measured pods before the scheduler starts; only for workloads that prepare a cluster and "
    "then create pods once. [default: stream, unless the set says otherwise]",
)
@click.option(
    "--scale",
    type=click.FloatRange(0, 1, min_open=True),
    help="Create only this fraction of the measured pods: 0.1 for a tenth. Does not change nodes, "
    "the pods created before, or workloads that measure with startCollectingMetrics. "
    "[default: 1, unless the set says otherwise]",
)
@click.option("--list", "list_only", is_flag=True, help="List the workloads and exit.")
@click.option(
    "--name",
    metavar="NAME",
    help="Store results in ./bench-results/NAME. [default: derived from FILE]",
)
@click.option("--fresh", is_flag=True, help="Delete the stored results of these workloads first.")
@click.option(
    "--keep-old",
    is_flag=True,
    help="Reuse stored results even if they come from another version of Stowplan or Kubernetes, "
    "or from another machine.",
)
@click.option("--stored", is_flag=True, help="Show stored results without running anything.")
@click.option(
    "--max-noise",
    type=click.FloatRange(0),
    metavar="CORES",
    help="Repeat a run, up to 3 times, if other processes used more CPU cores than this. Processes "
    "with a nice value above 0 do not count.",
)
@click.option(
    "--profile",
    is_flag=True,
    help="Run only Stowplan, once, under cProfile, and show the profile. --report includes it for "
    "workloads that miss a target.",
)
@click.option(
    "-o", "--output", type=click.Choice(["json"]), help="Print results, or the list, as JSON."
)
@html_option("plots")
@file_option(
    "--report",
    "Write targets and results as Markdown (docs/performance.md).",
    dir_okay=False,
)
@file_option(
    "--runs",
    "Write every run behind the results, one JSON object per line.",
    dir_okay=False,
)
def bench(
    file: str,
    workload: str,
    against: str,
    only: str | None,
    rounds: int,
    mode: str | None,
    scale: float | None,
    list_only: bool,
    name: str | None,
    fresh: bool,
    keep_old: bool,
    stored: bool,
    max_noise: float | None,
    profile: bool,
    output: str | None,
    html: Path | None,
    report: Path | None,
    runs: Path | None,
) -> int:
    """Benchmark pods per second against kube-scheduler and bare binding requests.

    Runs workloads of scheduler_perf, kube-scheduler's own benchmark, end to end. Every run gets a
    fresh kube-apiserver and etcd. FILE is one of:

    \b
      path       a performance-config.yaml
      workloads  misc, affinity, topology_spreading, volumes, event_handling,
                 dra and others in Kubernetes' scheduler_perf
      set        headline (what docs/performance.md shows), devices (its part about devices),
                 quick (a few minutes)

    \b
      $ stowplan bench misc --list
      $ stowplan bench misc --workload 'SchedulingBasic/500Nodes' --rounds 1
      $ stowplan bench headline --html page.html

    The contestants run in turn:

    \b
      stowplan        with its default profile
      kube-scheduler  with its default profile and no client rate limit
      raw             binds each pod to the next node without a decision: this machine's limit
      raw/events      the same, and writes an event for each pod

    A round in which a scheduler beats raw is invalid and is repeated, at most --rounds times.
    Compare ratios rather than absolute numbers, and use an otherwise idle machine.

    Results are stored, so the same command resumes an interrupted benchmark. If everything is
    measured already it only shows the results; --fresh measures again.

    A run takes about ten seconds at 500 nodes and a minute or more at 5,000. Three rounds of four
    contestants are twelve runs.

    Needs etcd, kube-apiserver and kube-scheduler; `python -m stowplan.controlplane build` builds
    them once. The exit code is 1 if a run failed, or if a workload has no valid round.
    docs/workloads.md explains how to write workloads and what the results mean.
    """
    if list_only:
        _list(file, workload, output)
        return 0
    check_output_files([(html, "--html"), (report, "--report"), (runs, "--runs")])
    from stowplan.lab.bench.plan import plan
    from stowplan.lab.bench.results import Results

    items = plan(file, workload, mode=mode, scale=scale)
    results = Results(name or _default_name(file))
    failures: list[str] = []
    if stored:
        shown = [one for item in items if (one := results.measured(item.setup)).results]
        if not shown:
            raise ConfigError(f"{results.folder} has no stored results of these workloads")
    else:
        contestants = _contestants(against, only)
        if fresh:
            for item in items:
                results.forget(item.setup, [one.label for one in contestants])
        session = _session(results, contestants, rounds, keep_old, max_noise)
        with _told_to_people(session):
            if profile:
                for item in items:
                    text = session.profile(item)
                    session.progress.erase()
                    click.echo(f"{item.setup.title}\n{text}\n")
                return 0
            shown = _measure(session, items, say_each=output is None and len(items) > 1)
        failures = session.failures
    _show(shown, output)
    _write(shown, html, report, runs)
    for failure in failures:
        click.echo(f"FAILED: {failure}", err=True)
    return EXIT_SOME_FAILED if failures or any(not one.outcome.is_valid for one in shown) else 0


def _session(
    results: Results,
    contestants: Sequence[Contestant],
    rounds: int,
    keep_old: bool,
    max_noise: float | None,
) -> Session:
    from stowplan.lab.bench.progress import BenchProgress
    from stowplan.lab.bench.results import about
    from stowplan.lab.bench.session import Session, SessionSettings

    most = float("inf") if max_noise is None else max_noise
    told = about(["stowplan", *sys.argv[1:]])
    settings = SessionSettings(contestants, rounds, told, keep_old, most)
    return Session(results, settings, BenchProgress(sys.stderr))


@contextmanager
def _told_to_people(session: Session) -> Iterator[None]:
    """Report errors in one line, and stop our processes in order when a signal stops us."""
    from stowplan.lab.controlplane.binaries import BinaryMissing
    from stowplan.lab.controlplane.processes import ControlPlaneError

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except (BinaryMissing, ControlPlaneError, OSError) as problem:
        raise StowplanError(str(problem)) from problem
    except KeyboardInterrupt:
        session.progress.say(f"interrupted; finished runs are stored in {session.results.folder},")
        session.progress.say("and the same command resumes here")
        raise
    finally:
        session.progress.erase()


def _measure(session: Session, items: Sequence[Item], *, say_each: bool) -> list[Measured]:
    from stowplan.lab.bench.terminal import describe

    session.announce(items)
    measured = []
    for item in items:
        measured.append(session.measure(item))
        if say_each and measured[-1].results:
            session.progress.erase()
            click.echo(describe(measured[-1]) + "\n")
    return measured


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _default_name(file: str) -> str:
    path = Path(file)
    if path.suffix not in (".yaml", ".yml"):
        return path.name
    # Upstream's files are all called performance-config.yaml; their folder has the name.
    return path.resolve().parent.name if path.stem == "performance-config" else path.stem


def _contestants(against: str, only: str | None) -> list[Contestant]:
    from stowplan.lab.bench.contestants import CONTESTANTS

    names = [name.strip() for name in (only or f"stowplan,{against}").split(",") if name.strip()]
    for name in (each.removeprefix("-") for each in names):
        if not any(one.is_chosen_by([name]) for one in CONTESTANTS):
            known = ", ".join(one.key for one in CONTESTANTS)
            where = "--only" if only else "--against"
            raise ConfigError(f"{name!r} is unknown; choose from: {known}", where=where)
    left_out = [name.removeprefix("-") for name in names if name.startswith("-")]
    return [
        one for one in CONTESTANTS if one.is_chosen_by(names) and not one.is_chosen_by(left_out)
    ]


def _list(file: str, pattern: str, output: str | None) -> None:
    from stowplan.lab.bench.plan import listed

    rows: list[list[object]] = []
    plain: list[dict[str, object]] = []
    for one in listed(file, pattern):
        labels = sorted(one.labels)
        if one.cannot_play:
            plain.append({"workload": one.title, "labels": labels, "cannot_play": one.cannot_play})
            rows.append([one.title, "-", "-", "-", f"cannot be played: {one.cannot_play}"])
            continue
        counts = {"nodes": one.nodes, "pods": one.pods, "measured": one.measured}
        plain.append({"workload": one.title, "labels": labels, **counts})
        rows.append([one.title, *counts.values(), ",".join(labels)])
    if output == "json":
        print_object(plain, "json")
    else:
        print_table(["workload", "nodes", "pods", "measured", "labels"], rows)


def _show(shown: Sequence[Measured], output: str | None) -> None:
    from stowplan.lab.bench.document import document
    from stowplan.lab.bench.terminal import describe, summary

    if output == "json":
        print_object(document(shown), "json")
    elif len(shown) == 1:
        click.echo(describe(shown[0]))
    else:
        click.echo(summary(shown))


def _write(
    shown: Sequence[Measured], html: Path | None, report: Path | None, runs: Path | None
) -> None:
    import msgspec

    from stowplan.lab.bench.decision_report import read_decisions
    from stowplan.lab.bench.page import page
    from stowplan.lab.bench.report import report as in_markdown
    from stowplan.lab.bench.targets import targets

    try:
        if html is not None:
            html.write_text(page(shown), "utf-8")
        if report is not None:
            report.write_text(in_markdown(shown, targets(), read_decisions()), "utf-8")
        if runs is not None:
            results = [result for one in shown for result in one.results]
            runs.write_bytes(msgspec.json.Encoder().encode_lines(results))
    except OSError as problem:
        raise ConfigError(
            f"cannot be written: {problem.strerror}", where=str(problem.filename)
        ) from None
