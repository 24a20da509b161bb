"""Recordings that are cut off, damaged, foreign or hostile, given to every command that reads them.

What can be read counts, what is missing is named, and a refusal is one line.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from stowplan.cli.main import main
from stowplan.sim.results import load

Json: TypeAlias = dict[str, Any]
HEADER: Final = {"recording": "stowplan/v1", "startedAt": "2026-01-02T03:04:05Z"}
COMMANDS: Final = (("replay",), ("replay", "--follow"), ("compare",))
Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stowplan(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: its exit code and what it printed."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(each) for each in arguments])
        printed = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, printed.out, printed.err

    return run


def node(name: str = "a", at: float = 0.0, what: str = "ADDED") -> Json:
    offers = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    obj = {"metadata": {"name": name, "uid": name}, "status": {"allocatable": offers}}
    return {"at": at, "type": what, "kind": "Node", "object": obj}


def pod(name: str, at: float, on: str = "") -> Json:
    spec = {"containers": [{"name": "c", "image": "x"}], "schedulerName": "default-scheduler"}
    meta = {"name": name, "namespace": "default", "uid": name}
    obj = {"metadata": meta, "spec": {**spec, "nodeName": on} if on else spec}
    return {"at": at, "type": "MODIFIED" if on else "ADDED", "kind": "Pod", "object": obj}


SYNCED: Final = {"at": 0.0, "type": "SYNCED"}
STORY: Final = [HEADER, node(), SYNCED, *(pod(f"p{n}", n + 1.0) for n in range(9))]
END: Final = {"at": 30.0, "type": "END", "note": "stopped"}
BOUND: Final = [pod(f"p{n}", n + 10.0, "a") for n in range(9)]


def packed(*lines: Json) -> bytes:
    return gzip.compress("".join(f"{json.dumps(line)}\n" for line in lines).encode(), mtime=0)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "r.jsonl.gz"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_recording_that_is_cut_off(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...]
) -> None:
    whole = packed(*STORY)
    path = written(tmp_path, whole + packed(*BOUND)[:-40])
    code, out, err = stowplan(*command, path)
    assert code == 0, err
    assert "the recording breaks off at 14.0 s: its recorder was killed or" in out + err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_recording_with_flipped_bits(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...]
) -> None:
    damaged = bytearray(packed(*BOUND))
    damaged[len(damaged) // 2] ^= 0x55
    tail = [pod("late", 30.0), pod("late", 31.0, "a")]
    path = written(tmp_path, packed(*STORY) + bytes(damaged) + packed(*tail))
    code, out, err = stowplan(*command, path)
    assert code == 0, err
    assert "is damaged" in out + err
    if command == ("replay",):
        assert "10 of 10 pods bound" in out  # the last one came after the damage


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_another_format(tmp_path: Path, stowplan: Run, command: tuple[str, ...]) -> None:
    path = written(tmp_path, packed({**HEADER, "recording": "stowplan/v2"}, node()))
    code, _, err = stowplan(*command, path)
    assert code == 2
    assert "the format 'stowplan/v2', and this version of Stowplan reads stowplan/v1" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_bombs(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One endless line, endlessly many short ones, and valid ones that are mostly padding."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    line = b"".join(packer.compress(b"[" * (1 << 20)) for _ in range(64)) + packer.flush()
    many = gzip.compress(b"\n" * 300_000)
    monkeypatch.setattr("stowplan.recording.gzip_lines._SMALL", 12 << 20)
    large = {**pod("large", 20.0), "unused": "a" * (1 << 20)}
    whole = packed(*[large] * 20)
    for bomb, told in (
        (line, "a line of more than 8 MiB: everything after 9.0 s is lost"),
        (many, "line "),
        (whole, "expands to more than 200 times its size: everything after 20.0 s is lost"),
    ):
        path = written(tmp_path, packed(*STORY) + bomb)
        assert path.stat().st_size < 200_000
        code, out, err = stowplan(*command, path)
        assert code == 0, err
        assert told in out + err
        assert len((out + err).splitlines()) < 60


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    "line",
    [
        {"at": 20.0, "type": "GAP", "kind": "Pod", "note": "x" * 100_000},
        {"at": 20.0, "type": "GAP", "kind": "x" * 100_000, "note": "listed again"},
        {"at": 20.0, "type": "x" * 100_000},
    ],
    ids=["note", "kind", "type"],
)
def test_long_texts_are_cut_off(
    tmp_path: Path, stowplan: Run, command: tuple[str, ...], line: Json
) -> None:
    """Readers keep a thousand notes, and a line can have 8 MiB."""
    path = written(tmp_path, packed(*STORY, line, pod("late", 21.0)))
    code, out, err = stowplan(*command, path)
    assert code == 0, err
    assert "20.0 s" in out + err or "21.0 s" in out + err
    assert len(out + err) < 10_000


@pytest.mark.parametrize(
    "change",
    [
        {"nodeName": "n" * 300},
        {"schedulerName": "s" * 300},
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]},
        {"containers": [{"name": "c", "resources": True}]},
        {"containers": "none"},
        {"tolerations": [["a"]]},
    ],
    ids=["node", "scheduler", "quantity", "resources", "containers", "tolerations"],
)
def test_a_malformed_object_is_the_same_gap_everywhere(
    tmp_path: Path, stowplan: Run, change: Json
) -> None:
    wrong = pod("wrong", 20.0)
    wrong["object"]["spec"].update(change)
    path = written(tmp_path, packed(*STORY, wrong, pod("late", 21.0), pod("late", 22.0, "a")))
    assert len(set(gaps_at_20(stowplan, path))) == 1


def gaps_at_20(stowplan: Run, path: Path) -> list[str]:
    """The note of the gap at 20 s, as each command reports it."""
    notes = []
    for command in COMMANDS:
        code, out, err = stowplan(*command, path)
        assert code == 0, out + err
        found = [line.partition("20.0 s: Pod: ")[2] for line in (out + err).splitlines()]
        (note,) = filter(None, found)
        notes.append(note)
    return notes


@pytest.mark.parametrize("value", [b'"\xff"', b"1e999"], ids=["not UTF-8", "number"])
def test_an_unused_field_that_is_no_json_is_the_same_gap_everywhere(
    tmp_path: Path, stowplan: Run, value: bytes
) -> None:
    wrong = gzip.decompress(packed(pod("wrong", 20.0))).replace(
        b'"metadata"', b'"unused": %s, "metadata"' % value
    )
    assert value in wrong
    path = written(tmp_path, packed(*STORY) + gzip.compress(wrong) + packed(pod("late", 21.0)))
    assert len(set(gaps_at_20(stowplan, path))) == 1


def test_an_object_without_a_name_is_one_gap_everywhere(tmp_path: Path, stowplan: Run) -> None:
    wrong = pod("", 20.0)
    later = {**STORY[0], "startedAt": "2026-01-02T03:05:05Z"}
    path = written(tmp_path, packed(*STORY, wrong, END) + packed(later, *STORY[1:], END))
    assert set(gaps_at_20(stowplan, path)) == {"the object has no metadata.name"}


def test_the_object_of_a_gap_is_ignored(tmp_path: Path, stowplan: Run) -> None:
    gap = {**pod("ghost", 20.0, "a"), "type": "GAP", "note": "listed again"}
    path = written(tmp_path, packed(*STORY, gap, END))
    assert set(gaps_at_20(stowplan, path)) == {"listed again"}
    assert "default/ghost" not in load(path).pods


def test_words_of_decisions_are_short(tmp_path: Path, stowplan: Run) -> None:
    """Reports count attempts by result and source, and print both."""
    decision = {"pod": "default/p1", "result": "x" * (1 << 20), "source": "event"}
    line = {"at": 20.0, "type": "DECISION", "object": decision}
    path = written(tmp_path, packed(*STORY, line, END))
    for command in COMMANDS:
        code, out, err = stowplan(*command, path)
        assert code == 0, out + err
        assert "20.0 s: DECISION: Expected `str` of length <= 40" in out + err
        assert len(out + err) < 10_000


def test_a_node_with_a_wrong_amount_is_a_gap(tmp_path: Path, stowplan: Run) -> None:
    wrong = node("wrong", 20.0)
    wrong["object"]["status"]["allocatable"]["memory"] = "much"
    path = written(tmp_path, packed(*STORY, wrong))
    for command in COMMANDS:
        code, out, err = stowplan(*command, path)
        assert code == 0, out + err
        assert "20.0 s: Node: invalid quantity 'much'" in out + err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_names_that_are_paths(tmp_path: Path, stowplan: Run, command: tuple[str, ...]) -> None:
    """No API server gives such names out; here they are names that nothing has."""
    odd = "../../nodes/a"
    lines = [*STORY, pod(odd, 20.0), pod(odd, 21.0, "a"), node("../b", 22.0)]
    gone = {"at": 23.0, "type": "DELETED", "kind": "Pod", "object": {"metadata": {"name": odd}}}
    path = written(tmp_path, packed(*lines, gone))
    before = sorted(tmp_path.rglob("*"))
    code, _, err = stowplan(*command, path)
    assert code in (0, 1)
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_clocks_that_jump(tmp_path: Path, stowplan: Run, command: tuple[str, ...]) -> None:
    """A second session began centuries later, by its clock, a third one before the first."""
    late, early = ({**HEADER, "startedAt": f"{year}-01-01T00:00:00Z"} for year in (9999, 1970))
    again = [node(), *(pod(f"p{n}", 0.0) for n in range(9)), SYNCED]
    leap = [pod("leap", 9e11), pod("leap", 9e11 + 1, "a")]
    path = written(tmp_path, packed(*STORY, late, *again, early, *again, *leap))
    code, out, err = stowplan(*command, path)
    assert code == 0, err
    if command == ("compare",):
        assert "3 gaps in the recording" in out
        assert "the recorder was killed after 9.0 s; recording continued at 86,409.0 s" in out
    elif command == ("replay",):
        assert "10 of 10 pods bound" in out
        assert "3 gaps in the recording" in out
    else:
        assert "1 decision; in 1 (100.00%) the chosen node is" in out
        assert out.count("the recorder was killed after") == 2


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_gaps_are_told(tmp_path: Path, stowplan: Run, command: tuple[str, ...]) -> None:
    gap = {"at": 70.0, "type": "GAP", "kind": "Pod", "note": "listed again: history was gone"}
    path = written(tmp_path, packed(*STORY, gap, pod("late", 70.0), pod("late", 71.0, "a")))
    code, out, err = stowplan(*command, path)
    assert code == 0, err
    assert "70.0 s" in out + err
    assert "listed again: history was gone" in out + err
    if command == ("replay",):
        assert "1 gap in the recording" in out


def test_following_counts_time_across_sessions(tmp_path: Path, stowplan: Run) -> None:
    """As `replay` and `compare` do, so that the three agree on when a decision was made."""
    later = {**HEADER, "startedAt": "2026-01-02T04:04:05Z"}
    path = written(
        tmp_path, packed(*STORY, later, node(), SYNCED, pod("q", 1.0), pod("q", 2.0, "a"))
    )
    decisions = tmp_path / "decisions.jsonl"
    code, out, err = stowplan("replay", "--follow", path, "-o", "json", "--decisions", decisions)
    assert code == 0, err
    note = "the recorder was killed after 9.0 s; recording continued at 3,600.0 s"
    assert json.loads(out)["gaps"] == [{"at": 3600.0, "note": note}]
    assert json.loads(decisions.read_text())["at"] == 3602.0


def test_gaps_are_in_data_and_on_the_page(tmp_path: Path, stowplan: Run) -> None:
    gap = {"at": 70.0, "type": "GAP", "kind": "Pod", "note": "<b>listed again"}
    path, page = written(tmp_path, packed(*STORY, gap)), tmp_path / "page.html"
    code, out, err = stowplan("compare", path, "-o", "json", "--html", page)
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    assert run["gaps"] == [{"at": 70.0, "note": "Pod: <b>listed again"}]
    assert "&lt;b&gt;listed again" in page.read_text()


def test_what_went_while_nobody_recorded_is_gone(tmp_path: Path, stowplan: Run) -> None:
    """The pods of the first session are not in the second one's list."""
    later = {**HEADER, "startedAt": "2026-01-02T04:04:05Z"}
    path = written(tmp_path, packed(*STORY, *BOUND, later, node(), SYNCED, pod("q", 1.0)))
    code, out, err = stowplan("compare", path, "-o", "json")
    assert code == 0, err
    figures = json.loads(out)["runs"][0]["figures"]
    assert (figures["pods"], figures["placed"], figures["pending"]) == (10, 9, 1)
