"""Load a trace of any format: detect the format and call its reader.

Called by commands and scenarios. What must stay true: the error for a file that is no trace
says what was expected and what was found.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, cast

from stowplan.errors import ConfigError
from stowplan.loader.files import read_stream
from stowplan.loader.json_text import load_json
from stowplan.loader.malformed import LARGE, Malformed
from stowplan.recording.reading import is_recording
from stowplan.sim.traces.csv_trace import check_of, read_nodes, read_pods
from stowplan.sim.traces.generate import generate
from stowplan.sim.traces.layout import Layout, find_layout
from stowplan.sim.traces.model import Trace, combined
from stowplan.sim.traces.reading import opened
from stowplan.sim.traces.recorder import read_recording
from stowplan.sim.traces.simulator_export import is_export, read_export
from stowplan.workloads.fields import read_yaml

_PACKED = (".gz", ".tar", ".tgz")


def load_trace(
    file: Path,
    *,
    columns: str | None = None,
    nodes: Path | None = None,
    node_columns: str | None = None,
    seed: int | None = None,
    limit: int | None = None,
    skip_broken: bool = False,
    reschedule: bool = False,
) -> Trace:
    """The trace in a file: .csv (also .csv.gz, .tar.gz), .jsonl (also .gz), .yaml or .json.

    `columns`, `node_columns`: a layout of ours or a file with one. `nodes`: a second file of nodes
    (CSV), or any other trace whose cluster is wanted. `seed` is for generators, `limit` (rows) for
    CSV, `reschedule` for recordings and exports.
    """
    layout = find_layout(columns) if columns else None
    main = _load(file, layout, seed, limit, skip_broken, reschedule)
    if nodes is None:
        return main
    below = _load_nodes(nodes, node_columns, seed, skip_broken)
    return combined(below, main)


def load_replay(file: Path, *, nodes: Path | None = None, reschedule: bool = False) -> Trace:
    """The trace of a recording; damaged parts are left out and counted.

    `nodes` is a file, as for `load_trace`, whose nodes replace the recorded ones.
    """
    if not file.is_file():
        raise ConfigError("no such file", where=str(file))
    if not is_recording(file) and _kind(file) not in (".jsonl", ".ndjson"):
        raise ConfigError(
            "is no recording. Fix: give a file that `stowplan record` wrote", where=str(file)
        )
    if nodes is None:
        return read_recording(file, skip_broken=True, reschedule=reschedule)
    main = read_recording(file, skip_broken=True, reschedule=True, without=("Node", "CSINode"))
    return combined(_load_nodes(nodes, None, None, skip_broken=False), main)


def _load(
    file: Path,
    layout: Layout | None,
    seed: int | None,
    limit: int | None,
    skip_broken: bool,
    reschedule: bool,
) -> Trace:
    kind = _kind(file)
    if layout is not None and kind != ".csv":
        raise ConfigError("columns are for CSV files", where=str(file))
    if kind == ".csv":
        if layout is not None and layout.of == "nodes":
            return read_nodes(file, layout=layout, skip_broken=skip_broken)
        return read_pods(file, layout=layout, skip_broken=skip_broken, limit=limit)
    if kind in (".jsonl", ".ndjson"):
        return read_recording(file, skip_broken=skip_broken, reschedule=reschedule)
    if kind in (".yaml", ".yml", ".json"):
        document = _read_json(file) if kind == ".json" else read_yaml(file)
        if isinstance(document, dict) and "generate" in document:
            if others := sorted(key for key in document if key != "generate"):
                raise ConfigError(f"`{others[0]}` stands beside `generate`", where=str(file))
            return generate(document["generate"], file=file, seed=seed)
        if is_export(document):
            return read_export(document, file, skip_broken=skip_broken, reschedule=reschedule)
        raise ConfigError(
            "is not a trace: expected `generate:` (a synthetic one) or `pods:` and `nodes:` "
            "(an export of kube-scheduler-simulator)",
            where=str(file),
        )
    raise ConfigError(
        f"its ending `{kind}` is none of .csv, .jsonl, .yaml and .json (also with .gz)",
        where=str(file),
    )


def _load_nodes(file: Path, columns: str | None, seed: int | None, skip_broken: bool) -> Trace:
    layout = find_layout(columns) if columns else None
    if _kind(file) == ".csv":
        check_of(layout, "nodes", file)
        return read_nodes(file, layout=layout, skip_broken=skip_broken)
    whole = _load(file, layout, seed, None, skip_broken, reschedule=False)
    return Trace(
        sources=whole.sources,
        make_objects=whole.make_objects,
        nodes=whole.nodes,
        reading=whole.reading,
        config=whole.config,
    )


def _read_json(file: Path) -> Any:
    """Parse JSON by a JSON parser: a YAML parser takes minutes for a large export."""
    try:
        with opened(file) as text:
            return load_json(read_stream(cast(IO[bytes], text.buffer), str(file), limit=LARGE.size))
    except Malformed as problem:
        raise ConfigError(f"is not JSON: {problem}", where=str(file)) from None


def _kind(file: Path) -> str:
    """The file name's extension, which is the format; archives of traces hold CSV."""
    if file.name.endswith((".tar.gz", ".tgz", ".tar")):
        return ".csv"
    return Path(file.stem).suffix if file.suffix in _PACKED else file.suffix
