"""Load a trace of any format: detect the format and call its reader.

Called by commands and scenarios. What must stay true: the error for a file that is not a trace
says what was expected and what was found.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

from stowplan.errors import ConfigError
from stowplan.loader.files import read_stream
from stowplan.loader.json_text import load_json
from stowplan.loader.malformed import LARGE, Malformed
from stowplan.recording.probe import is_recording, recording_files
from stowplan.recording.reading import read_sessions
from stowplan.sim.traces.csv_trace import check_of, read_nodes, read_pods
from stowplan.sim.traces.generate import generate
from stowplan.sim.traces.layout import Layout, find_layout
from stowplan.sim.traces.manifests import plain
from stowplan.sim.traces.model import Json, Trace, combined
from stowplan.sim.traces.reading import opened
from stowplan.sim.traces.recorded import NotAnObject, as_new
from stowplan.sim.traces.recorded_lines import is_simulator_recording
from stowplan.sim.traces.recorder import read_recording
from stowplan.sim.traces.simulator_export import is_export, read_export
from stowplan.workloads.fields import read_documents, read_yaml

_PACKED = (".gz", ".tar", ".tgz")
_NO_NODE = "has no node. Fix: name a file of nodes: --nodes FILE, or `nodes: FILE` in a sweep"


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
    """The trace of a recording: a file, or a folder of rotated files. What is damaged is a gap.

    `nodes` is a file, as for `load_trace`, whose nodes replace the recorded ones.
    """
    recording_files(file)  # refuses folders of other files
    if not file.exists():
        raise ConfigError(
            "no such file. Fix: give a file or folder that `stowplan record` wrote",
            where=str(file),
        )
    if file.is_file() and not file.stat().st_size:
        raise ConfigError(
            "is empty. Fix: give a file that `stowplan record` wrote", where=str(file)
        )
    is_simulators = _kind(file) in (".jsonl", ".ndjson") and is_simulator_recording(file)
    if not is_recording(file) and not is_simulators:
        next(read_sessions(file))  # raises: it cannot be read, or is not a recording
    if nodes is None:
        trace = read_recording(file, skip_broken=True, reschedule=reschedule)
        if not trace.nodes:
            raise ConfigError(_NO_NODE, where=str(file))
        return trace
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
    if limit is not None and kind != ".csv":
        raise ConfigError("a limit is for CSV files", where=str(file))
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
    if not os.path.exists(file):  # noqa: PTH110 - also answers for a name that is too long
        raise ConfigError("no such file. Fix: correct the path", where=str(file))
    ending = f"its ending `{kind}` is none of" if kind else "its name has none of the endings"
    raise ConfigError(
        f"{ending} .csv, .jsonl, .yaml and .json (also with .gz). Fix: rename it, or give a trace",
        where=str(file),
    )


def _load_nodes(file: Path, columns: str | None, seed: int | None, skip_broken: bool) -> Trace:
    if os.path.isfile(file) and not file.stat().st_size:  # noqa: PTH113 - likewise
        raise ConfigError("is empty. Fix: give manifests of nodes, or a trace", where=str(file))
    found = _read_nodes(file, columns, seed, skip_broken)
    if not found.nodes:
        raise ConfigError("has no node. Fix: give manifests of nodes, or a trace", where=str(file))
    return found


def _read_nodes(file: Path, columns: str | None, seed: int | None, skip_broken: bool) -> Trace:
    layout = find_layout(columns) if columns else None
    if _kind(file) == ".csv":
        check_of(layout, "nodes", file)
        return read_nodes(file, layout=layout, skip_broken=skip_broken)
    if _kind(file) in (".yaml", ".yml", ".json") and (made := _node_manifests(file)):
        return Trace(
            sources=(f"{file} (manifests)",), make_objects=lambda: iter(made), nodes=len(made)
        )
    whole = _load(file, layout, seed, None, skip_broken, reschedule=False)
    return Trace(
        sources=whole.sources,
        make_objects=whole.make_objects,
        nodes=whole.nodes,
        reading=replace(whole.reading, gaps=()),  # they are later than these objects
        config=whole.config,
    )


def _node_manifests(file: Path) -> list[Json]:
    """The nodes of a file that `kubectl create -f` takes; none: it is something else."""
    documents = [_read_json(file)] if _kind(file) == ".json" else read_documents(file)
    found = [document for document in documents if isinstance(document, dict)]
    listed = [each for one in found for each in _items(one)]
    if not listed or len(found) < len(documents):
        return []
    made = []
    for number, each in enumerate(listed, 1):
        try:
            made.append(as_new(plain(each)))
        except NotAnObject as problem:
            raise ConfigError(f"object {number} {problem}", where=str(file)) from None
        if (kind := made[-1]["kind"]) != "Node":
            raise ConfigError(f"object {number} is a {kind}. Fix: give nodes", where=str(file))
    return made


def _items(document: Json) -> list[Any]:
    """The objects of a document; none if it is not a manifest."""
    if "kind" not in document:
        return []
    items = document.get("items")
    return (
        items
        if document["kind"] in ("List", "NodeList") and isinstance(items, list)
        else [document]
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
