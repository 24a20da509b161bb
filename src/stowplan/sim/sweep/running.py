"""Runs the unfinished tasks of a sweep, and writes the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from stowplan.sim.sweep.document import Sweep
from stowplan.sim.sweep.folder import REPORT, Folder, Row
from stowplan.sim.sweep.page import page_of
from stowplan.sim.sweep.playing import Played
from stowplan.sim.sweep.pool import Lost
from stowplan.sim.sweep.table import Table, csv_of, write_parquet
from stowplan.sim.sweep.tasks import Task


class Runner(Protocol):
    """Runs tasks: in processes, or on Dask."""

    def play(self, tasks: Iterable[Task]) -> Iterator[Played | Lost]: ...


@dataclass(slots=True)
class Progress:
    """Progress of a sweep."""

    tasks: int
    #: Finished by an earlier run.
    before: int = 0
    played: int = 0
    lost: list[Task] = field(default_factory=list)
    cpu_s: float = 0.0

    @property
    def done(self) -> int:
        return self.before + self.played


def run_sweep(
    sweep: Sweep,
    folder: Folder,
    runner: Runner,
    on_progress: Callable[[Progress], None] = lambda _: None,
    *,
    sort: str = "",
) -> tuple[Table, Progress]:
    """Run the unfinished tasks, and write results and report into the folder.

    Each task is stored as soon as it is finished, so an interrupted sweep can be resumed. The
    report is sorted by the figure `sort`.
    """
    todo = [task for task in sweep.tasks if folder.row(task) is None]
    progress = Progress(len(sweep.tasks), before=len(sweep.tasks) - len(todo))
    on_progress(progress)
    if todo:
        for result in runner.play(todo):
            if isinstance(result, Lost):
                progress.lost.append(result.task)
            else:
                folder.add(result)
                progress.played += 1
                progress.cpu_s += result.cpu_s
            on_progress(progress)
    rows: list[Row] = [row for task in sweep.tasks if (row := folder.row(task)) is not None]
    table = Table(sweep.name, sweep.parameters, rows)
    folder.write_results(rows)
    folder.write("results.csv", csv_of(table))
    write_parquet(table, folder.path / "results.parquet")
    folder.write(REPORT, page_of(table, sort=sort))
    return table, progress
