"""Layouts: which column of a CSV file means what, so that traces of others need no conversion.

A layout is YAML (docs/traces.md); those of public traces are in `layouts/`, a file's own header is
the plain layout. Used by `csv_rows`. What must stay true: a mistake in a layout names its file,
line and field; a file that lacks a column says which ones it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from stowplan.errors import ConfigError
from stowplan.workloads.fields import Fields, read_yaml

POD_FIELDS = (
    "arrival",
    "name",
    "namespace",
    "count",
    "cpu",
    "memory",
    "gpu",
    "duration",
    "priority",
    "labels",
    "nodeSelector",
    "tolerations",
)
NODE_FIELDS = ("name", "count", "cpu", "memory", "gpu", "pods", "zone", "labels", "taints")
TOP = ("of", "columns", "delimiter", "empty", "where", "values", "origin", "fields")
_SOURCE = ("column", "columns", "factor", "minus", "default", "timestamp")
#: Fields that may be taken from several columns: a label for each.
_BY_KEY = frozenset({"labels", "nodeSelector"})


@dataclass(frozen=True)
class ColumnSource:
    """Where a field comes from: the columns' text, times a factor, less another column."""

    columns: tuple[str, ...]
    factor: float | None = None
    minus: str = ""
    default: str = ""
    timestamp: bool = False


@dataclass(frozen=True)
class Layout:
    name: str
    of: str = "pods"
    #: The column names of a file without a header.
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    empty: frozenset[str] = frozenset({""})
    #: Rows are used where the column has one of these values.
    where: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Replacements for a column's values.
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Times count from the earliest arrival, not from 0.
    from_first: bool = False
    fields: Mapping[str, ColumnSource] = field(default_factory=dict)
    #: `labels` and `nodeSelector` by key, each from a column.
    by_key: Mapping[str, Mapping[str, ColumnSource]] = field(default_factory=dict)
    #: The layout is the file's own header.
    is_plain: bool = False

    def used_columns(self) -> set[str]:
        sources = [*self.fields.values()]
        for keys in self.by_key.values():
            sources += keys.values()
        used = {column for source in sources for column in (*source.columns, source.minus)}
        return (used | set(self.where) | set(self.values)) - {""}


def plain_layout(header: tuple[str, ...], of: str, file: Path) -> Layout:
    """The layout of a file whose header names our own fields."""
    known = POD_FIELDS if of == "pods" else NODE_FIELDS
    for column in header:
        if column not in known:
            close = get_close_matches(column, known, 1)
            hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
            raise ConfigError(
                f"unknown column `{column:.60}`; {hint} (a file with columns of its own needs a "
                f"layout: {', '.join(layout_names())}, or one of yours)",
                where=f"{file}:1",
            )
    fields = {column: ColumnSource((column,)) for column in header}
    return Layout("plain", of, fields=fields, is_plain=True)


def layout_names() -> list[str]:
    """The names of the built-in layouts."""
    folder = resources.files("stowplan.sim.traces") / "layouts"
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    )


def find_layout(name: str) -> Layout:
    """A built-in layout by its name, or one from a file."""
    if name in layout_names():
        with resources.as_file(resources.files("stowplan.sim.traces") / "layouts") as folder:
            return read_layout(read_yaml(folder / f"{name}.yaml"), Path(name))
    file = Path(name)
    if not file.exists():
        raise ConfigError(
            f"is neither a layout of ours ({', '.join(layout_names())}) nor a file", where=name
        )
    return read_layout(read_yaml(file), file)


def layout_in(folder: Path, written: str) -> str:
    """What `find_layout` accepts: a file's path is relative to the folder."""
    return written if not written or written in layout_names() else str(folder / written)


def read_layout(value: object, file: Path) -> Layout:
    """Read a layout from its mapping."""
    top = Fields(file, value, "layout", TOP)
    of = top.text("of", "pods")
    if of not in ("pods", "nodes"):
        top.fail("`of` is pods or nodes", at="of")
    origin = top.text("origin", "zero")
    if origin not in ("zero", "first"):
        top.fail("`origin` is zero or first", at="origin")
    delimiter = top.text("delimiter", ",")
    if len(delimiter) != 1:
        top.fail("`delimiter` must be one character", at="delimiter")
    known = POD_FIELDS if of == "pods" else NODE_FIELDS
    inner = top.inner("fields", known)
    fields: dict[str, ColumnSource] = {}
    by_key: dict[str, dict[str, ColumnSource]] = {}
    for name in known:
        if name not in inner:
            continue
        value = inner.value(name)
        if name in _BY_KEY and isinstance(value, dict):
            keys = {key: _source(file, each, f"{name}.{key}") for key, each in value.items()}
            by_key[name] = keys
        else:
            fields[name] = _source(file, value, name)
    if not fields:
        top.fail(
            "`fields` must say at least where one of " + ", ".join(known) + " comes from",
            at="fields",
        )
    made = Layout(
        name=str(file),
        of=of,
        columns=top.texts("columns"),
        delimiter=delimiter,
        empty=frozenset(top.texts("empty")) | {""},
        where={key: _texts(top, "where", each) for key, each in _table(top, "where").items()},
        values={
            key: {str(old): str(new) for old, new in each.items()}
            for key, each in top.table("values", dict).items()
        },
        from_first=origin == "first",
        fields=fields,
        by_key=by_key,
    )
    if "arrival" in fields and fields["arrival"].timestamp and not made.from_first:
        top.fail("`arrival` is a date, so `origin` must be first", at="origin")
    unknown = made.used_columns() - set(made.columns)
    if made.columns and unknown:
        top.fail(f"`columns` does not list {', '.join(sorted(unknown))}", at="columns")
    return made


def _table(top: Fields, name: str) -> Mapping[str, object]:
    return top.table(name, object)


def _texts(top: Fields, name: str, value: object) -> frozenset[str]:
    if isinstance(value, str | int | float):
        return frozenset({str(value)})
    if not isinstance(value, list) or not value:
        top.fail(f"`{name}`: each column takes the values that are wanted, as a list", at=name)
    return frozenset(str(each) for each in value)


def _source(file: Path, value: object, name: str) -> ColumnSource:
    if isinstance(value, str):
        return ColumnSource((value,))
    if isinstance(value, list):
        value = {"columns": value}
    fields = Fields(file, value, f"layout, fields, {name}", _SOURCE)
    columns = fields.texts("columns") or ((fields.text("column"),) if "column" in fields else ())
    if not columns and "default" not in fields:
        fields.fail("`column` must be given", at="column")
    factor = fields.number("factor") if "factor" in fields else None
    if factor is not None and not 0 < factor < 1e15:
        fields.fail("`factor` must be a number above 0", at="factor")
    default = fields.value("default")
    return ColumnSource(
        columns,
        factor,
        minus=fields.text("minus"),
        default="" if default is None else str(default),
        timestamp=fields.flag("timestamp"),
    )


_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST_NAME, _LONGEST_LABEL = 200, 63


def is_name(text: str) -> bool:
    """True if the text plus a number is a valid Kubernetes name."""
    return len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None


def as_name(text: str) -> str:
    """The text turned into a valid prefix of a name."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:40].strip("-")


def is_label(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    return len(text) <= 253 and _KEY.fullmatch(text) is not None


def as_label(text: str) -> str:
    """The text turned into a valid label value."""
    return _NOT_IN_LABELS.sub("-", text)[:_LONGEST_LABEL].strip("-_.")
