"""The results of a sweep as tables: a row per task, and means over seeds for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from stowplan.present.tables import format_table, printable_cells
from stowplan.sim.results.comparing import FIGURES, shown
from stowplan.sim.results.parquet import write_table
from stowplan.sim.sweep.tasks import text_of

#: Figures shown by default, unless they are 0 in every row.
_SHOWN: Final = (
    "unplaced",
    "pending_p50",
    "pending_p99",
    "evictions",
    "cpu",
    "nodes_in_use",
    "fragmentation",
    "imbalance",
    "cost_in_use",
)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in the order of the sweep's tasks."""

    name: str
    parameters: tuple[str, ...]
    rows: list[dict[str, Any]]

    @property
    def columns(self) -> list[str]:
        return list(self.rows[0]) if self.rows else []

    def figures(self, chosen: Sequence[str] = ()) -> list[str]:
        """The chosen figures, or those to show by default."""
        known = [name for name in _SHOWN if any(row.get(name) for row in self.rows)]
        return list(chosen) or known

    def values(self, row: dict[str, Any]) -> list[object]:
        """A row of a flat table, with lists and mappings as JSON."""
        return [_flat(row.get(name)) for name in self.columns]


@dataclass(frozen=True, slots=True)
class Group:
    """The runs of one workload under one configuration, with all seeds."""

    workload: str
    configuration: str
    parameters: dict[str, Any]
    rows: list[dict[str, Any]]

    def mean(self, figure: str) -> float:
        return fmean(row.get(figure, 0.0) for row in self.rows)

    @property
    def label(self) -> str:
        """Configuration and parameters, without the workload."""
        words = [self.configuration] if self.configuration else []
        words += [f"{name}={text_of(value)}" for name, value in self.parameters.items()]
        return ", ".join(words) or "defaults"


def groups_of(table: Table, *, sort: str = "") -> list[Group]:
    """Groups in the order of tasks, or sorted by a figure; `-figure` sorts descending."""
    found: dict[str, Group] = {}
    for row in table.rows:
        parameters = {name: row[name] for name in table.parameters}
        key = text_of([row["workload"], row["configuration"], parameters])
        group = Group(row["workload"], row["configuration"], parameters, [])
        found.setdefault(key, group).rows.append(row)
    groups = list(found.values())
    if sort:
        figure = sort.removeprefix("-")
        groups.sort(key=lambda group: group.mean(figure), reverse=sort.startswith("-"))
    return groups


def text_table(table: Table, *, sort: str = "", figures: Sequence[str] = ()) -> str:
    """A text table of means over seeds."""
    headers, rows = mean_rows(table, sort=sort, figures=figures)
    return format_table(headers, rows)


def mean_rows(
    table: Table, *, sort: str = "", figures: Sequence[str] = ()
) -> tuple[list[str], list[list[str]]]:
    """A header, and a row of means for each group."""
    groups = groups_of(table, sort=sort)
    chosen = table.figures(figures)
    has_bases = any(group.configuration for group in groups)
    headers = ["workload", *(["configuration"] if has_bases else []), *table.parameters, "runs"]
    rows = [
        [
            group.workload,
            *([group.configuration] if has_bases else []),
            *(text_of(value) for value in group.parameters.values()),
            str(len(group.rows)),
            *(shown(name, group.mean(name)) for name in chosen),
        ]
        for group in groups
    ]
    return [*headers, *chosen], rows


def warnings_of(table: Table) -> list[str]:
    """Sentences about workloads: nodes without a price, pods that no profile serves, ..."""
    found = []
    for row in table.rows:
        if types := row.get("unpriced"):
            found.append(f"{row['workload']}: no price for {types}")
        if text := row.get("warnings"):
            found.append(f"{row['workload']}: {text}")
    return list(dict.fromkeys(found))


def csv_of(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(printable_cells(table.columns))
    writer.writerows(printable_cells(table.values(row)) for row in table.rows)
    return text.getvalue()


def write_parquet(table: Table, path: Path) -> bool:
    """Write a Parquet file; False if pyarrow is not installed."""
    if find_spec("pyarrow") is None:
        path.unlink(missing_ok=True)  # a stale file of an earlier run
        return False
    write_table(path, table.columns, [table.values(row) for row in table.rows])
    return True


def _flat(value: object) -> object:
    return text_of(value) if isinstance(value, list | dict) else value


def known_figures() -> list[str]:
    """Names for `--figure` and `--sort`."""
    return [name for name in FIGURES if name != "moved"]
