"""Tables in Parquet files, by pyarrow, which is the extra `stowplan[data]`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from stowplan.output_file import write_file
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
    content = io.BytesIO()
    parquet.write_table(arrow.table(arrays, names=list(columns)), content)
    write_file(path, content.getvalue())
