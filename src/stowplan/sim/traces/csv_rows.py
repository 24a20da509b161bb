"""Rows of a CSV file, with the values of a layout's fields read out of them.

Used by `csv_trace` for pods and for nodes. What must stay true: rows are read one at a time; every
row that cannot be used is counted with its line and a reason, and never stops the one after it
from being read.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from stowplan.errors import ConfigError
from stowplan.loader.files import read_lines
from stowplan.sim.traces.amounts import MOST, memory_bytes, milli_cpus, milliseconds, pieces
from stowplan.sim.traces.layout import (
    ColumnSource,
    Layout,
    as_label,
    is_label,
    is_label_key,
    plain_layout,
)
from stowplan.sim.traces.reading import BrokenRows, is_text, opened


class BadRow(ValueError):
    """A row cannot be used; says why."""


class CsvRow:
    """One row under its layout; cells by the columns' names."""

    def __init__(self, layout: Layout, places: Mapping[str, int]) -> None:
        self._layout = layout
        self._places = places
        self._cells: list[str] = []
        self.line = 0

    def fill(self, cells: list[str], line: int) -> None:
        """Take the next row's cells; rows are many, so one object serves them all."""
        self._cells = cells
        self.line = line

    def is_wanted(self) -> bool:
        return all(self._cell(column) in wanted for column, wanted in self._layout.where.items())

    def text(self, field: str) -> str:
        """The text of one or several columns, joined; empty if there is none."""
        source = self._layout.fields.get(field)
        return "" if source is None else self._joined(source)

    def has_column(self, field: str) -> bool:
        source = self._layout.fields.get(field)
        return source is not None and bool(source.columns)

    def cpu_milli(self) -> int:
        return self._amount("cpu", milli_cpus, 1000)

    def memory_bytes(self) -> int:
        return self._amount("memory", memory_bytes, 1)

    def pieces(self, field: str, default: int = 0) -> int:
        return self._amount(field, pieces, 1, default)

    def milliseconds(self, field: str) -> int | None:
        """Milliseconds in a field; None if it is empty."""
        source = self._layout.fields.get(field)
        text = "" if source is None else self._joined(source)
        if source is None or not text:
            return None
        try:
            if source.timestamp:
                time_ms = _moment(text) - self._subtracted(source, _moment)
            elif source.factor is None and not source.minus:
                time_ms = milliseconds(text)
            else:
                less_ms = self._subtracted(source, lambda cell: _scaled(cell, source.factor, 1000))
                time_ms = _scaled(text, source.factor, 1000) - less_ms
        except ValueError as problem:
            raise BadRow(f"{field}: {problem}") from None
        if time_ms < 0:
            columns = " and ".join(source.columns)
            raise BadRow(f"{field}: {columns} is before {source.minus or 'the beginning'}")
        return time_ms

    def pairs(self, field: str) -> tuple[tuple[str, str], ...]:
        """Pairs from `key=value;key=value`, or from a layout with a column for each."""
        by_key = self._layout.by_key.get(field)
        if by_key is not None:
            found = ((key, self._joined(source)) for key, source in by_key.items())
            return tuple((key, value) for key, value in found if value)
        made = []
        for part in _parts(self.text(field)):
            key, equals, value = part.partition("=")
            if not equals or not is_label_key(key):
                raise BadRow(f"{field}: `{part:.60}` is not key=value")
            made.append((key, value))
        return tuple(made)

    def labels(self) -> tuple[tuple[str, str], ...]:
        pairs = self.pairs("labels")
        if "labels" in self._layout.by_key:
            return tuple((key, as_label(value)) for key, value in pairs)
        for key, value in pairs:
            if not is_label(value):
                raise BadRow(f"labels: `{value:.60}` cannot be the value of label {key}")
        return pairs

    def selector(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Labels that a node must have; `|` between values of which any will do."""
        made = tuple((key, tuple(text.split("|"))) for key, text in self.pairs("nodeSelector"))
        for key, values in made:
            for value in values:
                if not is_label(value):
                    raise BadRow(f"nodeSelector: `{value:.60}` cannot be the value of label {key}")
        return made

    def listed(self, field: str) -> tuple[str, ...]:
        return tuple(_parts(self.text(field)))

    def whole(self, field: str) -> int | None:
        """A whole number that may be negative."""
        text = self.text(field)
        if not text:
            return None
        try:
            number = float(text)
            if number != int(number) or abs(number) > 10**9:
                raise ValueError
        except (ValueError, OverflowError):
            raise BadRow(f"{field}: `{text:.60}` is not a whole number up to a billion") from None
        return int(number)

    def _amount(
        self, field: str, read: Callable[[object], int], units: int, default: int = 0
    ) -> int:
        source = self._layout.fields.get(field)
        text = "" if source is None else self._joined(source)
        if source is None or not text:
            return default
        try:
            if source.factor is not None:
                return _scaled(text, source.factor, units)
            return read(text)
        except ValueError as problem:
            raise BadRow(f"{field}: {problem}") from None

    def _subtracted(self, source: ColumnSource, read: Callable[[str], int]) -> int:
        if not source.minus:
            return 0
        text = self._cell(source.minus)
        if not text:
            raise ValueError(f"{source.minus} is empty")
        return read(text)

    def _joined(self, source: ColumnSource) -> str:
        if len(source.columns) == 1:
            return self._cell(source.columns[0]) or source.default
        cells = [self._cell(column) for column in source.columns]
        return "-".join(cell for cell in cells if cell) or source.default

    def _cell(self, column: str) -> str:
        cell = self._cells[self._places[column]].strip()
        replaced = self._layout.values.get(column)
        if replaced is not None:
            cell = replaced.get(cell, cell)
        return "" if cell in self._layout.empty else cell


def rows(file: Path, of: str, layout: Layout | None, broken: BrokenRows) -> Iterator[CsvRow]:
    """The rows of a file, each in the same `CsvRow`; broken ones are only counted.

    Without a layout the header names our own fields.
    """
    with opened(file) as text:
        reader = csv.reader(
            read_lines(text, str(file)), delimiter=layout.delimiter if layout else ",", strict=True
        )
        cells, line = _next(reader, broken)
        if cells is None:
            raise ConfigError("is empty; a header was expected", where=str(file))
        first = tuple(cell.strip() for cell in cells)
        if layout is None:
            layout = plain_layout(first, of, file)
        header = layout.columns or first
        _check_header(file, header, layout)
        row = CsvRow(layout, {column: place for place, column in enumerate(header)})
        if first == header:
            cells, line = _next(reader, broken)
        while cells is not None:
            if len(cells) != len(header):
                broken.add(line, _wrong_width(len(cells), header))
            elif not all(map(is_text, cells)):
                broken.add(line, "is not UTF-8")
            else:
                row.fill(cells, line)
                yield row
            cells, line = _next(reader, broken)


def _wrong_width(cells: int, header: tuple[str, ...]) -> str:
    if cells < len(header):
        why = f"`{header[cells]:.60}` is the first column without one"
    else:
        why = "a value with a delimiter in it needs quotes"
    return f"has {cells} cells, not {len(header)}; {why}"


class _Reader(Protocol):
    """What `csv.reader` returns."""

    @property
    def line_num(self) -> int: ...

    def __next__(self) -> list[str]: ...


def _next(reader: _Reader, broken: BrokenRows) -> tuple[list[str] | None, int]:
    """The next row that has cells, and its first line; None at the end."""
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return None, line
        except csv.Error as problem:
            broken.add(line, f"is not CSV: {problem}")
            continue
        if cells:
            return cells, line


def _check_header(file: Path, header: tuple[str, ...], layout: Layout) -> None:
    for column in header:
        if header.count(column) > 1:
            raise ConfigError(f"the column `{column:.60}` is there twice", where=f"{file}:1")
    missing = sorted(layout.used_columns() - set(header))
    if missing:
        raise ConfigError(
            f"has no column {', '.join(missing)}, which layout {layout.name} reads; it has "
            f"{', '.join(header):.300}",
            where=f"{file}:1",
        )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _scaled(text: str, factor: float | None, units: int) -> int:
    """A number times its factor, in whole units, rounded up."""
    try:
        number = float(text) * (1.0 if factor is None else factor)
    except ValueError:
        raise ValueError(f"`{text:.60}` is not a number") from None
    if not math.isfinite(number) or abs(number) * units > MOST:
        raise ValueError(f"`{text:.60}` is too large or no number at all")
    if number < 0:
        raise ValueError(f"`{text:.60}` is negative")
    return math.ceil(number * units - 1e-6)


def _moment(text: str) -> int:
    """Parse a time into milliseconds since the epoch; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"`{text:.60}` is not a time such as 2026-01-02T03:04:05Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
