"""Files that were cut off, appended to, damaged or made up are read as far as that goes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.resources import NODES, PODS, RESOURCE_CLAIM_TEMPLATES
from stowplan.clock import rfc3339
from stowplan.config.defaults import default_config
from stowplan.errors import ConfigError
from stowplan.judge.configuration import Configuration, default_registry
from stowplan.recording.entries import FORMAT, KINDS, READ_KINDS, EntryType, Header
from stowplan.recording.probe import is_recording
from stowplan.recording.reading import Problems, read_sessions
from stowplan.recording.session_times import MOST_PAUSED_S, SHORT_PAUSE_S, SessionTimes

DAY = 86_400.0
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


def begun(wall: float, times: SessionTimes | None = None) -> SessionTimes:
    """Times with another session, which begins at this wall time."""
    times = times or SessionTimes()
    times.begin(Header(recording=FORMAT, started_at=rfc3339(wall)))
    return times


def test_all_long_pauses_together_are_bounded() -> None:
    """A replay pays for the time that passes, and a line costs a file a few bytes."""
    times = begun(0.0)
    cut = [times.cut for day in range(1, 10_001) if times.at(DAY * day) and times.cut]
    short = 10_000 - round(MOST_PAUSED_S / DAY)
    assert cut == [DAY - SHORT_PAUSE_S] * short
    assert times.latest == MOST_PAUSED_S + SHORT_PAUSE_S * short
    begun(DAY * 10_001, times)  # the pause between two sessions is one of them
    assert times.latest == MOST_PAUSED_S + SHORT_PAUSE_S * (short + 1)


def test_changes_of_every_minute_are_never_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.recording.session_times.MOST_PAUSED_S", DAY)
    times = begun(0.0)
    assert all(times.at(60.0 * minute) == 60.0 * minute for minute in range(10_000))


def test_a_pause_that_was_shortened_is_not_made_up_for_later() -> None:
    """Not by the file after a rotation, whose time is known from the wall clock."""
    times = begun(0.0)
    begun(10 * DAY, times)
    assert times.latest == DAY
    assert times.at(5 * DAY) == 2 * DAY
    begun(15 * DAY + 7.0, times)
    assert times.latest == 2 * DAY + 7.0


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
