"""Tables in Parquet files, by pyarrow, which is the extra `stowplan[data]`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from stowplan.errors import ConfigError
from stowplan.output_file import unwritable
from stowplan.sim.results.extras import needed


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table; a column with values of several types becomes text. Raises ConfigError."""
    arrow = needed("pyarrow", "data", where=str(path))
    parquet = needed("pyarrow.parquet", "data", where=str(path))
    kept = list(rows)
    arrays = []
    for index in range(len(columns)):
        values = [row[index] for row in kept]
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]  # type: ignore[arg-type]
        elif len(kinds) > 1:
            values = [None if value is None else str(value) for value in values]
        arrays.append(arrow.array(values))
    try:
        parquet.write_table(arrow.table(arrays, names=list(columns)), str(path))
    except OSError as problem:
        raise unwritable(path, problem) from None
    except UnicodeError as problem:  # a path that is not UTF-8
        raise ConfigError(
            f"cannot be written: {problem}. Fix: give a path in UTF-8", where=str(path)
        ) from None
