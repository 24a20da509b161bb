"""Every pod of some runs as one table, in CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.output_file import write_file
from stowplan.present.tables import printable_cells
from stowplan.sim.results.extras import needed
from stowplan.sim.results.parquet import write_table
from stowplan.sim.results.run import PodLife, Run

COLUMNS: Final = (
    "run", "pod", "created", "bound", "node", "ended", "was_placed", "preempted", "waited",
)  # fmt: skip
#: Columns with seconds, or nothing.
TIMES: Final = ("created", "bound", "ended", "waited")
PARQUET: Final = ".parquet"
_CSV: Final = ".csv"


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
                _waited(life),
            )


def _waited(life: PodLife) -> float | None:
    """Seconds from creation to binding; None for a pod that the scheduler did not place."""
    if life.bound is None or life.was_placed:
        return None
    return round(life.bound - life.created, 3)


def check_format(path: Path, option: str) -> None:
    """Raise ConfigError if the name has an ending of another format, or pyarrow is missing."""
    where = f"{option} {path}".lstrip()
    if path.suffix == PARQUET:
        needed("pyarrow", "data", where=where)
    elif path.suffix != _CSV:
        raise ConfigError(
            "is neither CSV nor Parquet. Fix: give a name that ends with .csv or .parquet",
            where=where,
        )


def write_pods(runs: Sequence[Run], path: Path) -> None:
    """Write Parquet or CSV, by the ending of the name. Raises ConfigError."""
    check_format(path, "")
    if path.suffix == PARQUET:
        write_table(path, COLUMNS, pod_rows(runs))
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(map(printable_cells, pod_rows(runs)))
    write_file(path, text.getvalue().encode())
