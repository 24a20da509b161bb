"""Every pod of some runs as one table, in CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.sim.results.parquet import write_table
from stowplan.sim.results.run import Run

COLUMNS: Final = ("run", "pod", "created", "bound", "node", "ended", "was_placed", "preempted")

PARQUET: Final = ".parquet"


def pod_rows(runs: Sequence[Run]) -> Iterator[tuple[Any, ...]]:
    """In the order of `COLUMNS`; times in seconds."""
    for run in runs:
        for name, life in run.pods.items():
            yield (
                run.name,
                name,
                life.created,
                life.bound,
                life.node,
                life.ended,
                life.was_placed,
                life.preempted,
            )


def write_pods(runs: Sequence[Run], path: Path) -> None:
    """Write Parquet if the name ends with .parquet, CSV otherwise. Raises ConfigError."""
    if path.suffix == PARQUET:
        write_table(path, COLUMNS, pod_rows(runs))
        return
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(pod_rows(runs))
    except OSError as problem:
        raise ConfigError(f"cannot be written: {problem.strerror}", where=str(path)) from None
