"""Gaps of recordings: every command reports the same ones, and a useless recording is an error."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from errno import EACCES
from pathlib import Path
from typing import Any, Final

import pytest

from stowplan.recording.gzip_lines import LineWriter
from stowplan.sim.results.comparing import figures_of
from stowplan.sim.results.files import load, save
from stowplan.sim.results.run import FORMAT as RESULT
from stowplan.sim.results.run import PodLife
from stowplan.sim.results.run import Run as PlayedRun
from tests.unit.recording.test_bad_recordings import (
    BOUND,
    COMMANDS,
    HEADER,
    STORY,
    SYNCED,
    Json,
    Run,
    node,
    packed,
    pod,
    stowplan,
    written,
)

__all__ = ["stowplan"]

LATER: Final = {**HEADER, "startedAt": "2026-01-02T03:04:35Z"}
AGAIN: Final = [node(), *(pod(f"p{n}", 0.0) for n in range(9)), SYNCED, pod("late", 1.0)]
END: Final = {"at": 9.5, "type": "END", "note": "stopped"}
ROTATED: Final = {**END, "note": "rotated"}
FAKE: Final = "2026-01-02T030405Z.jsonl.gz"
KILLED: Final = "the recorder was killed after 9.0 s; recording continued at 30.0 s"


def unfinished(*lines: Json) -> bytes:
    """What a recorder leaves that is killed after a flush."""
    file = io.BytesIO()
    writer = LineWriter(file)
    for line in lines:
        writer.add(json.dumps(line).encode())
    writer.flush()
    return file.getvalue()


def flipped(data: bytes, place: int, count: int = 10) -> bytes:
    changed = bytearray(data)
    for at in range(place, place + count):
        changed[at] ^= 0x5A
    return bytes(changed)


def sweep_of(folder: Path, path: Path) -> Path:
    file = folder / "sweep.yaml"
    file.write_text(f"workloads: [{{recording: {path.name}}}]\n")
    return file


def reported(stowplan: Run, path: Path) -> list[list[tuple[str, str]]]:
    """Times and notes of the gaps, as replay, replay --follow and compare report them."""
    _, out, err = stowplan("replay", path, "-o", "json")
    replayed = re.findall(r"gap at ([\d,.]+ s): (.*)", err)
    assert json.loads(out)["counts"].get("gaps", 0) == len(replayed)
    _, out, _ = stowplan("replay", "--follow", path)
    followed = re.findall(r"gap at ([\d,.]+ s): (.*)", out)
    _, out, _ = stowplan("compare", path, "-o", "json")
    (run,) = json.loads(out)["runs"]
    assert run["figures"]["gaps"] == len(run["gaps"])
    compared = [(f"{each['at']:,.1f} s", each["note"]) for each in run["gaps"]]
    return [replayed, followed, compared]


@pytest.mark.parametrize(
    ("content", "gaps"),
    [
        (packed(*STORY, END), []),
        (unfinished(*STORY, END), []),
        (packed(*STORY, END) + packed(LATER, *AGAIN, END), ["recording stopped at 9.5 s and"]),
        (unfinished(*STORY) + packed(LATER, *AGAIN, END), [KILLED]),
        (unfinished(*STORY)[:-7] + packed(LATER, *AGAIN, END), ["the recorder was killed after"]),
        (unfinished(*STORY), ["the recording breaks off at 9.0 s: its recorder was killed or"]),
        (
            packed(*STORY) + flipped(packed(*BOUND), 90) + packed(pod("late", 30.0), END),
            ["the recording is damaged at byte"],
        ),
        (
            packed(*STORY) + flipped(packed(*BOUND), 90) + packed(LATER, *AGAIN, END),
            ["the recording is damaged at byte"],
        ),
        (
            flipped(packed(*STORY), 60) + packed(LATER, *AGAIN, END),
            ["the recording is damaged at byte"],
        ),
    ],
    ids=[
        *("whole", "killed after END", "stopped", "killed", "killed within a line", "cut off"),
        *("damaged", "damaged before a session", "damaged in the snapshot"),
    ],
)
def test_all_commands_report_the_same_gaps(
    tmp_path: Path, stowplan: Run, content: bytes, gaps: list[str]
) -> None:
    path = written(tmp_path, content)
    first, *others = reported(stowplan, path)
    assert all(each == first for each in others), others
    assert [note.startswith(expected) for (_, note), expected in zip(first, gaps, strict=True)] == [
        True
    ] * len(gaps), first


def test_a_gap_says_which_time_is_lost(tmp_path: Path) -> None:
    damaged = packed(*STORY) + flipped(packed(*BOUND), 20)
    (gap,) = load(written(tmp_path, damaged)).gaps
    assert gap.at == 9.0
    assert re.fullmatch(
        r"the recording is damaged at byte \d+: everything after 9\.0 s is lost", gap.note
    )
    (gap,) = load(written(tmp_path, damaged + packed(pod("late", 1800.0)))).gaps
    assert gap.at == 1800.0
    assert gap.note.endswith(": changes between 9.0 s and 1,800.0 s are lost")


@pytest.mark.parametrize("command", [*COMMANDS, ("sweep",)], ids=" ".join)
@pytest.mark.parametrize("place", [120, 200])
def test_a_recording_without_a_readable_snapshot(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], place: int
) -> None:
    """A small recording is one compressed block, which damage loses from there on."""
    nodes = [node(f"node-{number}") for number in range(40)]
    path = written(tmp_path, flipped(packed(HEADER, *nodes, *STORY[2:]), place, 20))
    file = sweep_of(tmp_path, path) if command == ("sweep",) else path
    code, out, err = stowplan(*command, file)
    assert (code, out) == (2, "")
    where = f"{file}:1: workload: {path}" if command == ("sweep",) else path
    assert re.fullmatch(
        rf"Error: {where}: the recording is damaged at byte \d+, before its first snapshot of the"
        r" cluster ends\. Fix: give another recording\n",
        err,
    )


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_header_alone(tmp_path: Path, stowplan: Run, command: tuple[str, ...]) -> None:
    path = written(tmp_path, packed(HEADER))
    code, _, err = stowplan(*command, path)
    why = "nothing after its header can be read. Fix: give another recording"
    assert (code, err) == (2, f"Error: {path}: {why}\n")


def test_a_recording_of_an_empty_cluster(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(HEADER, SYNCED))
    code, _, err = stowplan("replay", path)
    why = "has no objects: the recorded cluster was empty. Fix: give another recording"
    assert (code, err) == (2, f"Error: {path}: {why}\n")


@pytest.mark.parametrize("command", COMMANDS[:2], ids=" ".join)
@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b'{"a":1}\n'),
        gzip.compress(b"<html>\n<head>\n</head>\n<body>\n</body>\n</html>\n"),
        packed(*STORY)[:12],
        b"plain text",
    ],
    ids=["JSON", "HTML", "cut off", "text"],
)
def test_files_of_other_programs(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], content: bytes
) -> None:
    path = written(tmp_path, content)
    code, _, err = stowplan(*command, path)
    why = "is not a recording, or its beginning is lost"
    fix = "give a file that `stowplan record` wrote"
    assert (code, err) == (2, f"Error: {path}: {why}. Fix: {fix}\n")


@pytest.mark.parametrize("command", [*COMMANDS, ("record",)], ids=" ".join)
@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"session": 5}, "Expected `str`, got `int` - at `$.session`"),
        ({"unread": {"a": 5}}, "Expected `str`, got `int` - at `$.unread[...]`"),
        ({"keyId": ["x"]}, "Expected `str`, got `array` - at `$.keyId`"),
        ({}, "Input data was truncated"),
    ],
    ids=["session", "unread", "keyId", "cut off"],
)
def test_a_header_that_cannot_be_read(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], field: Json, why: str
) -> None:
    whole = gzip.decompress(packed({**HEADER, **field}, *STORY[1:]))
    path = written(tmp_path, gzip.compress(whole if field else whole[:40]))
    code, out, err = stowplan(*command, path)
    assert (code, out) == (2, "")
    what = f"has a header that cannot be read: {why}"
    if command == ("record",):
        assert err == f"Error: {path}: exists and {what}. Fix: name another file\n"
    else:
        assert err.startswith(f"Error: {path}: {what}. Fix: give a file that `stowplan record` w")


@pytest.mark.parametrize("command", [*COMMANDS, ("record",)], ids=" ".join)
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_recording_that_is_not_gzipped(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], is_folder: bool
) -> None:
    path = tmp_path / FAKE
    path.write_bytes(gzip.decompress(packed(*STORY)))
    if command == ("record",):
        what, fix = "exists and is a recording that is not gzipped", "name another file"
    else:
        what, fix = "is a recording that is not gzipped", "gzip it"
    given = tmp_path if is_folder and command != ("record",) else path
    assert stowplan(*command, given) == (2, "", f"Error: {path}: {what}. Fix: {fix}\n")


@pytest.mark.parametrize("command", [("replay",), ("replay", "--follow")], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("plain.jsonl", "is a recording that is not gzipped. Fix: gzip it"),
        ("run.json", "is not a recording but a result, as --result writes it. Fix: give it to"),
        ("run.json.gz", "is not a recording but a result, as --result writes it. Fix: give it to"),
    ],
)
def test_files_of_our_own_that_are_no_recordings(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], name: str, why: str
) -> None:
    path = tmp_path / name
    if name == "plain.jsonl":
        path.write_bytes(gzip.decompress(packed(*STORY)))
    else:
        pods = {f"default/p{n}": PodLife(0.0) for n in range(999)}
        save(PlayedRun(RESULT, "a", pods=pods), path)
    code, out, err = stowplan(*command, path)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {path}: {why}")
    assert len(err.splitlines()) == 1


def test_the_gaps_that_a_replay_names_add_up(tmp_path: Path, stowplan: Run) -> None:
    """Equal ones are named once, with their number."""
    same = [pod("", 20.0)] * 5
    others = [pod("", 21.0 + number) for number in range(7)]
    path = written(tmp_path, packed(*STORY, *same, *others, {**END, "at": 30.0}))
    code, out, err = stowplan("replay", path)
    assert code == 0
    assert "12 gaps in the recording" in out
    lines = [line.partition("gap at ")[2] for line in err.splitlines() if "gap at" in line]
    note = "Pod: the object has no metadata.name"
    assert lines == [f"20.0 s: {note} (5 times)", *(f"{21 + n}.0 s: {note}" for n in range(4))]
    assert "and 3 more gaps\n" in err


def test_gaps_are_a_figure_of_recordings_and_replays(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, unfinished(*STORY) + packed(LATER, *AGAIN, END))
    result = tmp_path / "again.json.gz"
    assert stowplan("replay", path, "--result", result)[0] == 0
    assert [(each.at, each.note) for each in load(result).gaps] == [(30.0, KILLED)]
    for files in ([path], [result], [path, result]):
        code, _, err = stowplan("compare", *files, "--fail-on", "gaps>0")
        assert (code, err) == (1, f"FAIL {files[-1].name}: gaps is 1 (>0)\n")
    whole = written(tmp_path, packed(*STORY, END))
    assert stowplan("compare", whole, "--fail-on", "gaps>0")[0] == 0


def test_a_result_without_gaps_has_none(tmp_path: Path) -> None:
    """Results of older versions have no such field."""
    path = tmp_path / "old.json"
    path.write_text('{"run":"stowplan/run/v1","name":"old","seconds":1.0}')
    assert figures_of(load(path))["gaps"] == 0


def rotated(folder: Path) -> dict[Path, bytes]:
    """Fill a folder: rotation loses nothing, a kill and a missing file do."""
    times = ("03:04:05", "03:04:15", "03:04:45", "04:00:00")
    headers = [
        {**HEADER, "startedAt": f"2026-01-02T{time}Z", "session": f"s{number}"}
        for number, time in enumerate(times)
    ]
    headers[1]["continues"] = "s0"
    headers[3]["continues"] = "the missing one"
    contents = [
        packed(headers[0], *STORY[1:], ROTATED),
        unfinished(headers[1], *AGAIN),
        packed(headers[2], *AGAIN, pod("later", 5.0), ROTATED),
        packed(headers[3], *AGAIN, END),
    ]
    names = [f"2026-01-02T{time.replace(':', '')}Z.jsonl.gz" for time in times]
    files = {folder / name: content for name, content in zip(names, contents, strict=True)}
    folder.mkdir()
    for path, content in reversed(files.items()):
        path.write_bytes(content)
    return files


def test_a_folder_is_one_recording(tmp_path: Path, stowplan: Run) -> None:
    """Other files are ignored, and so is what has the name of a recording and is no file."""
    folder = tmp_path / "recordings"
    files = rotated(folder)
    _, second, *_ = files
    (folder / "notes.jsonl.gz").write_bytes(b"other")
    (folder / "2026-01-02T050000Z.jsonl.gz").touch()  # killed before it wrote anything
    (folder / "2026-01-02T030406Z.jsonl.gz").mkdir()
    (folder / "2026-01-02T030407Z.jsonl.gz").symlink_to("gone")
    os.mkfifo(folder / "2026-01-02T030408Z.jsonl.gz")
    first, *others = reported(stowplan, folder)
    assert all(each == first for each in others), others
    assert first == [
        (
            "40.0 s",
            f"2026-01-02T030415Z.jsonl.gz breaks off at byte {second.stat().st_size}: the recorder"
            " was killed after 11.0 s, or the file is cut off; recording continued at 40.0 s",
        ),
        ("3,355.0 s", "recording stopped at 49.5 s and continued at 3,355.0 s"),
    ]
    code, out, _ = stowplan("replay", folder)
    assert code == 0
    assert "of 13 pods bound, 3 deleted; 2 gaps in the recording; " in out
    second.write_bytes(flipped(files[second], 3, 6))
    gap, _ = load(folder).gaps
    assert gap.note.startswith(f"{second.name} is damaged at byte ")


def test_a_missing_file_is_a_gap_however_short(tmp_path: Path, stowplan: Run) -> None:
    """Each file names the session that it continues."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number, end in enumerate((ROTATED, ROTATED, END)):
        header = {**HEADER, "startedAt": f"2026-01-02T03:04:{15 + 10 * number}Z"}
        header |= {"session": f"s{number}", "continues": f"s{number - 1}" if number else ""}
        name = f"2026-01-02T0304{15 + 10 * number}Z.jsonl.gz"
        (folder / name).write_bytes(packed(header, *STORY[1:], end))
    assert load(folder).gaps == []
    middle = folder / "2026-01-02T030425Z.jsonl.gz"
    middle.write_bytes(b"")
    emptied = reported(stowplan, folder)
    middle.unlink()
    found = reported(stowplan, folder)
    note = "recording stopped at 9.5 s and continued at 20.0 s"
    assert emptied == found == [[("20.0 s", note)]] * 3


def test_a_wrong_path_of_a_recorder(
    tmp_path: Path, stowplan: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    why = "PATH: is empty. Fix: name a file or a folder"
    assert stowplan("record", "") == (2, "", f"Error: {why}\n")
    for argv in (("run", "--record="), ("replay", ""), ("compare", ""), ("sweep", "")):
        code, out, err = stowplan(*argv)
        assert (code, out) == (2, "")
        assert err.endswith(": the path is empty. Fix: name a file or a folder\n")
    Path("secret.key").write_text("a secret of thirty bytes or so")
    why = "secret.key/: is a file, not a folder. Fix: name a folder"
    assert stowplan("record", "secret.key/") == (2, "", f"Error: {why}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["secret.key"]


@pytest.mark.parametrize("command", [*COMMANDS, ("sweep",), ("record",)], ids=" ".join)
def test_a_pipe_is_refused_at_once(tmp_path: Path, stowplan: Run, command: tuple[str, ...]) -> None:
    """Opening it would wait for its other end for ever."""
    pipe = tmp_path / "pipe.jsonl.gz"
    os.mkfifo(pipe)
    file = sweep_of(tmp_path, pipe) if command == ("sweep",) else pipe
    code, out, err = stowplan(*command, file)
    assert (code, out) == (2, "")
    assert f"{pipe}: is not a regular file. Fix: " in err


def test_pods_that_no_profile_serves_are_named(tmp_path: Path, stowplan: Run) -> None:
    foreign = [pod(f"foreign-{number}", 9.2) for number in range(2)]
    for each in foreign:
        each["object"]["spec"]["schedulerName"] = "second"
    path = written(tmp_path, packed(*STORY, *foreign, END))
    text = "2 pods of schedulerName second cannot be placed: the configuration has profiles for"
    _, _, err = stowplan("replay", path)
    assert f"Warning: {text} default-scheduler only\n" in err
    _, out, err = stowplan("sweep", sweep_of(tmp_path, path), "--workers", "1", "-o", "json")
    assert f"Warning: r: {text} default-scheduler only\n" in err
    assert json.loads(out)["rows"][0]["warnings"].startswith(text)


def test_objects_that_are_left_out_are_named(tmp_path: Path, stowplan: Run) -> None:
    wrong = pod("wrong", 9.2)
    wrong["object"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "-5"}}
    path = written(tmp_path, packed(*STORY, *[wrong | {"at": 9.2 + n / 100} for n in range(9)]))
    code, _, err = stowplan("replay", path)
    assert code == 0
    assert "Warning: Pod wrong is left out: " in err
    assert "must be greater than or equal to 0" in err


def test_a_time_that_is_cut_short_is_a_gap(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, packed(*STORY, pod("late", 9.0 + 3 * 86_400), END))
    note = "nothing for 259,200.0 s, or a wrong time: this counts as 86,400.0 s"
    assert reported(stowplan, path) == [[("86,409.0 s", note)]] * 3


def test_a_sweep_reports_the_gaps_of_its_recordings(tmp_path: Path, stowplan: Run) -> None:
    path = written(tmp_path, unfinished(*STORY) + packed(LATER, *AGAIN, END))
    code, out, err = stowplan("sweep", sweep_of(tmp_path, path), "--workers", "1", "-o", "json")
    assert code == 0
    assert f"Warning: {path}: gap at 30.0 s: {KILLED}\n" in err
    assert json.loads(out)["rows"][0]["gaps"] == 1


def test_a_sweep_names_the_file_that_has_the_gap(tmp_path: Path, stowplan: Run) -> None:
    """Of a recording that only gives its nodes, later gaps do not count."""
    whole = written(tmp_path, packed(*STORY, END)).rename(tmp_path / "whole.jsonl.gz")
    paused = written(tmp_path, packed(*STORY, END) + packed(LATER, *AGAIN, END))
    file = tmp_path / "sweep.yaml"
    clean = f"- {{recording: {whole.name}, nodes: {paused.name}, name: on others}}\n"
    file.write_text(f"workloads:\n{clean}- {{recording: {whole.name}}}\n")
    code, _, err = stowplan("sweep", file, "--workers", "1")
    assert (code, "Warning" in err) == (0, False), err
    paused_too = f"- {{recording: {paused.name}}}\n- {{recording: {paused.name}, name: again}}\n"
    file.write_text(f"workloads:\n{clean}{paused_too}")
    _, _, err = stowplan("sweep", file, "--workers", "1")
    assert err.count("Warning: ") == 1
    assert f"Warning: {paused}: gap at 30.0 s: recording stopped at 9.5 s" in err


def test_a_sweep_reports_the_gaps_of_a_folder(tmp_path: Path, stowplan: Run) -> None:
    folder = tmp_path / "recordings"
    rotated(folder)
    (replayed, *_) = reported(stowplan, folder)
    code, out, err = stowplan("sweep", sweep_of(tmp_path, folder), "--workers", "1", "-o", "json")
    assert code == 0, err
    assert re.findall(rf"Warning: {folder}: gap at ([\d,.]+ s): (.*)", err) == replayed
    (row,) = json.loads(out)["rows"]
    assert (row["workload"], row["gaps"], row["pods"]) == ("recordings", 2, 11)


def test_a_folder_of_a_sweep_counts_with_all_of_its_files(tmp_path: Path, stowplan: Run) -> None:
    """A task is played again if a file was added, removed, changed or renamed."""
    folder = tmp_path / "recordings"
    files = rotated(folder)
    first, second, third, last = files
    sweep = sweep_of(tmp_path, folder)
    seen: dict[str, str] = {}

    def played(what: str, *, before: str = "") -> None:
        code, out, err = stowplan("sweep", sweep, "--workers", "1", "-o", "json")
        assert code == 0, err
        (row,) = json.loads(out)["rows"]
        assert ("1 of 1 tasks were finished before" in err) == bool(before), what
        assert seen.setdefault(row["task"], before or what) == (before or what)

    played("whole")
    (folder / "notes.txt").write_text("not a recording")
    played("a file beside them", before="whole")
    folder = folder.rename(tmp_path / "moved")
    sweep.write_text("workloads: [{recording: moved, name: recordings}]\n")
    played("moved", before="whole")
    first, second, third, last = (folder / path.name for path in (first, second, third, last))
    third.unlink()
    played("removed")
    last.write_bytes(packed(LATER, *AGAIN, END))
    played("changed")
    last = last.rename(folder / "2026-01-02T040001Z.jsonl.gz")
    played("renamed")
    last.rename(folder / "2026-01-02T040000Z.jsonl.gz")
    played("renamed back", before="changed")
    (folder / "2026-01-02T060000Z.jsonl.gz").write_bytes(packed(LATER, *AGAIN, END))
    played("added")
    # Nodes are told from one more file.
    (folder / "2026-01-02T060000Z.jsonl.gz").rename(tmp_path / "nodes.jsonl.gz")
    sweep.write_text("workloads: [{recording: moved, name: recordings, nodes: nodes.jsonl.gz}]\n")
    played("nodes")


def test_a_recording_on_its_own_nodes_is_another_task(tmp_path: Path, stowplan: Run) -> None:
    """Other nodes, even equal ones, mean that bound pods are placed again."""
    path = written(tmp_path, packed(*STORY, END))
    sweep = sweep_of(tmp_path, path)
    assert stowplan("sweep", sweep, "--workers", "1")[0] == 0
    sweep.write_text(f"workloads: [{{recording: {path.name}, nodes: {path.name}}}]\n")
    code, _, err = stowplan("sweep", sweep, "--workers", "1")
    assert (code, "finished before" in err) == (0, False)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "empty",
            "is a folder without recordings. Fix: give a file or folder that `stowplan record`"
            " wrote",
        ),
        (
            "foreign",
            f"has no file with a name that `stowplan record` gives in folders, such as {FAKE}. Fix:"
            " rename its recordings, or give one of its files:"
            " notes.jsonl.gz. Or list its files as workloads",
        ),
        (
            "fake",
            "is not a recording, or its beginning is lost. Fix: give a file that `stowplan"
            " record` wrote",
        ),
        (
            "missing",
            "no such file. Fix: correct the path; it is relative to the folder of the sweep's file",
        ),
    ],
)
def test_folders_that_a_sweep_cannot_play(
    tmp_path: Path, stowplan: Run, name: str, why: str
) -> None:
    for made in ("empty", "foreign", "fake"):
        (tmp_path / made).mkdir()
    (tmp_path / "foreign" / "notes.jsonl.gz").write_bytes(packed(*STORY))
    (tmp_path / "fake" / FAKE).write_bytes(b"not a recording")
    file = sweep_of(tmp_path, tmp_path / name)
    code, out, err = stowplan("sweep", file)
    assert (code, out) == (2, "")
    where = tmp_path / name / (FAKE if name == "fake" else "")
    assert err == f"Error: {file}:1: workload: {where}: {why}\n"


@pytest.mark.parametrize("command", [*COMMANDS, ("sweep",)], ids=" ".join)
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_folder_that_this_account_cannot_read(
    tmp_path: Path,
    stowplan: Run,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    what: str,
) -> None:
    """Tests may run as root, which can read everything, so the error is made."""
    folder = tmp_path / "recordings"
    first, *_ = rotated(folder)
    refused = folder if what == "folder" else first
    for name in ("iterdir", "open"):
        allowed = getattr(Path, name)

        def refuse(path: Path, *args: Any, allowed: Any = allowed, **kwargs: Any) -> Any:
            if path == refused:
                raise PermissionError(EACCES, "Permission denied", str(path))
            return allowed(path, *args, **kwargs)

        monkeypatch.setattr(Path, name, refuse)
    file = sweep_of(tmp_path, folder) if command == ("sweep",) else folder
    code, out, err = stowplan(*command, file)
    where = f"{file}:1: workload: {refused}" if command == ("sweep",) else refused
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {where}: cannot be read: Permission denied. Fix: give a ")
    assert len(err.splitlines()) == 1
