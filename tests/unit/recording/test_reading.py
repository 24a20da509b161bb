"""Files that were cut off, appended to, damaged or made up are read as far as that goes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.resources import NODES, PODS, RESOURCE_CLAIM_TEMPLATES
from stowplan.config.defaults import default_config
from stowplan.errors import ConfigError
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.recording.entries import KINDS, READ_KINDS, EntryType
from stowplan.recording.reading import Problems, is_recording, read_sessions

HEADER = {"recording": "stowplan/v1", "startedAt": "2026-01-02T03:04:05Z", "kinds": ["Pod"]}
POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}}


def file_of(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "r.jsonl.gz"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    return path


def entry(at: float, what: str = "ADDED", **more: Any) -> dict[str, Any]:
    return {"at": at, "type": what, "kind": "Pod", "object": POD, **more}


def read(path: Path) -> tuple[list[list[tuple[float, EntryType]]], Problems]:
    problems = Problems()
    sessions = [
        [(each.at, each.type) for each in session.entries]
        for session in read_sessions(path, problems)
    ]
    return sessions, problems


def test_sessions_begin_with_their_headers(tmp_path: Path) -> None:
    synced = {"at": 0.0, "type": "SYNCED"}
    path = file_of(tmp_path, HEADER, entry(0.0), synced, HEADER, entry(1.0))
    assert is_recording(path)
    sessions, problems = read(path)
    assert sessions == [
        [(0.0, EntryType.ADDED), (0.0, EntryType.SYNCED)],
        [(0.0, EntryType.GAP), (1.0, EntryType.ADDED)],
    ]
    assert problems.count == 0


def test_times_never_go_back(tmp_path: Path) -> None:
    sessions, _ = read(file_of(tmp_path, HEADER, entry(5.0), entry(2.0), entry(7.0)))
    assert [at for at, _ in sessions[0]] == [5.0, 5.0, 7.0]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "{",
        '{"at": "soon", "type": "ADDED"}',
        '{"at": -1, "type": "SYNCED"}',
        '{"at": 1e300, "type": "SYNCED"}',
        '{"at": 1, "type": "EXPLODED"}',
        '{"at": 1, "type": "ADDED", "kind": "Secret", "object": {}}',
        '{"at": 1, "type": "ADDED", "kind": "Pod"}',
        "[" * 100_000,
    ],
)
def test_a_bad_line_is_a_gap(tmp_path: Path, line: str) -> None:
    sessions, problems = read(file_of(tmp_path, HEADER, entry(1.0), line, entry(2.0)))
    assert [what for _, what in sessions[0]] == [
        EntryType.ADDED,
        EntryType.GAP,
        EntryType.ADDED,
    ]
    assert problems.count == 1
    assert problems.examples[0].startswith("line 3 of the recording cannot be read (")
    assert problems.examples[0].endswith("): changes between 1.0 s and 2.0 s are lost")


def test_other_formats_are_refused_by_name(tmp_path: Path) -> None:
    path = file_of(tmp_path, {**HEADER, "recording": "stowplan/v9"})
    with pytest.raises(ConfigError, match=r"the format 'stowplan/v9', and this version .*/v1"):
        read(path)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"", b"apiVersion: v1", gzip.compress(b"hello\n"), b"\x1f\x8b\x08"):
        path.write_bytes(content)
        assert not is_recording(path)
        with pytest.raises(ConfigError, match="is not a recording, or its beginning is lost"):
            read(path)
    with pytest.raises(ConfigError, match="No such file"):
        read(tmp_path / "missing")


def test_every_kind_that_a_default_plugin_reads_is_recorded() -> None:
    """And what controllers make them from."""
    configuration = Configuration(default_config(), default_registry())
    assert {NODES, PODS, *configuration.looked_up()} <= set(READ_KINDS)
    assert RESOURCE_CLAIM_TEMPLATES in KINDS
