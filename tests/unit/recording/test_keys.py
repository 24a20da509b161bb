"""Hashed names of different recorders do not match, so their files are not one recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from stowplan.errors import ConfigError
from stowplan.recording.entries import parse_line
from stowplan.recording.files import check_continues, warning_of_older_files
from stowplan.recording.reading import read_sessions
from tests.unit.recording.test_bad_recordings import (
    COMMANDS,
    HEADER,
    STORY,
    Json,
    Run,
    packed,
    stowplan,
)

__all__ = ["stowplan"]

FIRST: Final = "2026-01-02T030405Z.jsonl.gz"
SECOND: Final = "2026-01-02T040405Z.jsonl.gz"
ROTATED: Final = {"at": 9.5, "type": "END", "note": "rotated"}
HASHED: Final = {"names": "hashed", "session": "s1", "keyId": "k1"}
OTHER_KEYS: Final = "their names are hashed with different keys"
ONE_ONLY: Final = "their names are hashed in only one of them"


def session(**header: str) -> list[Json]:
    return [{**HEADER, **header}, *STORY[1:], ROTATED]


def folder_of(path: Path, *headers: Json) -> Path:
    path.mkdir()
    for name, header in zip((FIRST, SECOND), headers, strict=False):
        (path / name).write_bytes(packed(*session(**header)))
    return path


def read(path: Path) -> int:
    return sum(1 for each in read_sessions(path) for _ in each.entries)


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        (HASHED, HASHED | {"keyId": "k2"}, OTHER_KEYS),
        (HASHED, HASHED | {"keyId": "k2", "continues": "s1"}, OTHER_KEYS),
        (HASHED, {"names": "hashed"}, OTHER_KEYS),
        (HASHED, {"names": "kept"}, ONE_ONLY),
        ({}, HASHED, ONE_ONLY),
        # files of older versions
        ({"names": "hashed"}, {"names": "hashed"}, OTHER_KEYS),
        ({"names": "hashed", "session": "s1"}, {"names": "hashed", "continues": "s0"}, OTHER_KEYS),
        ({"cluster": "c1"}, {"cluster": "c2"}, "they are of different clusters"),
    ],
)
def test_sessions_that_do_not_go_together_are_refused(
    tmp_path: Path, first: Json, second: Json, differ: str
) -> None:
    folder = folder_of(tmp_path / "r", first, second)
    with pytest.raises(ConfigError) as refused:
        read(folder)
    assert str(refused.value) == (
        f"{folder}: {FIRST} and {SECOND} cannot be read together: {differ}. Fix: move"
        f" the files up to {FIRST} to another folder"
    )
    for name in (FIRST, SECOND):
        assert read(folder / name)
    (folder / FIRST).rename(tmp_path / FIRST)
    assert read(folder)
    both = tmp_path / "both.jsonl.gz"
    both.write_bytes(packed(*session(**first), *session(**second)))
    with pytest.raises(ConfigError, match=f"{both}: its sessions cannot be read together: the"):
        read(both)


def test_a_session_without_a_cluster_hides_no_other_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    sessions: tuple[Json, ...] = ({"cluster": "c1"}, {}, {"cluster": "c2"})
    path.write_bytes(packed(*(line for each in sessions for line in session(**each))))
    with pytest.raises(ConfigError, match="they are of different clusters"):
        read(path)


def test_one_move_is_enough_for_any_number_of_keys(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    files = [folder / f"2026-01-02T0{hour}0405Z.jsonl.gz" for hour in range(6)]
    for file, key in zip(files, ("k1", "k2", "k2", "k3", "", "k3"), strict=True):
        file.write_bytes(packed(*session(**HASHED | {"keyId": key})) if key else b"damaged")
    with pytest.raises(ConfigError) as refused:
        read(folder)
    last, first = files[2].name, files[3].name
    assert str(refused.value) == (
        f"{folder}: {last} and {first} cannot be read together: {OTHER_KEYS}. Fix:"
        f" move the files up to {last} to another folder"
    )
    for file in files[:3]:
        file.rename(tmp_path / file.name)
    assert read(folder)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        (HASHED, HASHED | {"session": "s2", "continues": "s1"}),
        (HASHED, HASHED | {"session": "s3", "continues": "s2"}),  # the file between them is lost
        ({"names": "hashed", "session": "s1"}, {"names": "hashed", "continues": "s1"}),
    ],
)
def test_sessions_whose_names_match_are_one_recording(
    tmp_path: Path, first: Json, second: Json
) -> None:
    assert read(folder_of(tmp_path / "r", first, second))


@pytest.mark.parametrize("command", [*COMMANDS, ("sweep",)], ids=" ".join)
def test_every_command_refuses_them(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...]
) -> None:
    folder = folder_of(tmp_path / "r", HASHED, HASHED | {"keyId": "k2"})
    file = folder
    if command == ("sweep",):
        file = tmp_path / "sweep.yaml"
        file.write_text("workloads: [{recording: r}]\n")
    code, out, err = stowplan(*command, file)
    assert (code, out) == (2, "")
    where = f"{file}:1: workload: {folder}" if command == ("sweep",) else folder
    assert err.startswith(f"Error: {where}: {FIRST} and {SECOND} cannot be read together: ")
    assert len(err.splitlines()) == 1


def test_a_recorder_is_warned_of_files_that_do_not_match_its_own(tmp_path: Path) -> None:
    hashed = folder_of(tmp_path / "hashed", {}, HASHED)
    plain = folder_of(tmp_path / "plain", HASHED, {})
    found = {
        (folder.name, key_id): warning_of_older_files(folder, key_id=key_id)
        for folder in (hashed, plain, tmp_path / "missing", tmp_path)
        for key_id in ("", HASHED["keyId"], "k2")
    }
    text = f"has older files, such as {SECOND}, that cannot be read together with the new ones"
    only_some = "names are hashed in only some of them. Fix: record to a new folder"
    other_key = (
        "names are hashed with another key. Fix: record to a new folder, or, if the older files"
        " were recorded with --hash-key, give that key"
    )
    assert {key: warning for key, warning in found.items() if warning} == {
        ("hashed", ""): f"{hashed} {text}: {only_some}",
        ("hashed", "k2"): f"{hashed} {text}: {other_key}",
        ("plain", HASHED["keyId"]): f"{plain} {text}: {only_some}",
        ("plain", "k2"): f"{plain} {text}: {only_some}",
    }
    (plain / SECOND).write_bytes(b"not a recording")
    assert warning_of_older_files(plain, key_id="")
    (hashed / SECOND).write_bytes(packed({**HEADER, "recording": "stowplan/v9"}))
    assert not warning_of_older_files(hashed, key_id="")


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([{}, {}], ""),
        ([{}, {}, HASHED], ONE_ONLY),
        ([{}, HASHED, {}], ONE_ONLY),
        ([HASHED, HASHED | {"keyId": "k2"}], OTHER_KEYS),
        ([{}, {"recording": "stowplan/v9"}], "stowplan/v9"),
        ([{"cluster": "c1"}, {}, {"cluster": "c1"}], ""),
        ([{}, {"cluster": "c2"}, {}], "another cluster"),
    ],
)
def test_every_session_of_a_file_must_match_the_recorder(
    tmp_path: Path, headers: list[Json], why: str
) -> None:
    """As of files that were joined with cat."""
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(b"".join(packed(*session(**each)) for each in headers))
    if not why:
        check_continues(path, key_id="", cluster="c1")
        return
    for key_id in ("", "k1"):
        with pytest.raises(ConfigError, match=why):
            check_continues(path, key_id=key_id, cluster="c1")


def test_a_file_of_an_older_version_is_continued_without_its_cluster(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(packed(*session()))
    check_continues(path, key_id="", cluster="c1")
    path.write_bytes(packed(*session(cluster="c1")))
    check_continues(path, key_id="")  # this account may not list namespaces


def test_the_check_unpacks_little_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(b"".join(packed(HEADER, *STORY[1:] * 400) for _ in range(20)))
    parsed: list[bytes] = []

    def parse(line: bytes, parse: Any = parse_line) -> Any:
        parsed.append(line)
        return parse(line)

    monkeypatch.setattr("stowplan.recording.probe.parse_line", parse)
    check_continues(path, key_id="")
    assert 20 <= len(parsed) < 30


def test_a_recorder_is_warned_of_files_of_another_cluster(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "r", {"cluster": "c2"}, {"cluster": "c1"})
    found = [warning_of_older_files(folder, key_id="", cluster=each) for each in ("", "c1", "c2")]
    assert found == [
        *("", ""),
        f"{folder} has older files, such as {SECOND}, of another cluster, which cannot be"
        " read together with the new ones. Fix: record to a new folder",
    ]
