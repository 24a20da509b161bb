"""Files of a folder: in order whatever the clock does; files of others are not touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.recording import files
from stowplan.recording.entries import FORMAT, Header
from stowplan.recording.files import Output, Rotation
from stowplan.recording.folder import files_in


class SetClock:
    """A clock whose wall time is set by hand."""

    def __init__(self, wall: float) -> None:
        self.wall = wall
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def boottime(self) -> float:
        return self.passed

    def time(self) -> float:
        return self.wall


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def begin(output: Output) -> None:
    """Write a snapshot, as far as the output is concerned."""
    output.lines.add(b"{}")
    output.finish_snapshot()


def rotate(output: Output) -> None:
    output.rotate()
    begin(output)


def test_a_clock_that_is_set_back_deletes_the_oldest_all_the_same(tmp_path: Path) -> None:
    clock = SetClock(1_767_323_045.0)  # 2026-01-02T03:04:05Z
    output = Output(tmp_path, clock=clock, rotation=Rotation(keep=2))
    begin(output)
    clock.wall -= 86_400
    for _ in range(2):
        rotate(output)
    output.close()
    # The first is the oldest; names go on behind the latest.
    assert names(tmp_path) == ["2026-01-02T030405Z-2.jsonl.gz", "2026-01-02T030405Z-3.jsonl.gz"]
    assert output.current.name == "2026-01-02T030405Z-3.jsonl.gz"
    clock.wall += 2 * 86_400
    rotate(output)
    output.close()
    assert names(tmp_path) == ["2026-01-02T030405Z-3.jsonl.gz", "2026-01-03T030405Z.jsonl.gz"]


def test_a_file_is_due_by_a_clock_that_does_not_jump(tmp_path: Path) -> None:
    clock = SetClock(0.0)
    output = Output(tmp_path, clock=clock, rotation=Rotation(after_s=60.0))
    due = []
    for wall, passed in ((1e9, 0.0), (1e9, 60.0)):
        clock.wall, clock.passed = wall, passed
        due.append(output.is_due)
    output.close()
    assert due == [False, True]


def test_without_a_time_a_file_is_due_by_its_size_alone(tmp_path: Path) -> None:
    clock = SetClock(0.0)
    output = Output(tmp_path, clock=clock, rotation=Rotation(after_s=0.0))
    begin(output)
    for clock.passed in (0.0, 1.0, 1e9):
        assert not output.is_due
    output.close()


@pytest.mark.parametrize(
    ("rotation", "why"),
    [
        (Rotation(size=1000), "--x-size: is too small. Fix: give at least 1Mi"),
        (Rotation(after_s=-5.0), "--x-after: is negative. Fix: give 0 for no limit"),
    ],
)
def test_a_wrong_rotation_names_the_option(rotation: Rotation, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        rotation.check(prefix="--x")
    assert str(error.value) == why


def test_a_folder_is_locked_until_its_output_is_closed(tmp_path: Path) -> None:
    first, second = (Output(tmp_path, clock=SetClock(0.0), rotation=Rotation()) for _ in range(2))
    first.lines.add(b"{}")  # its file has no snapshot yet, and must not be deleted
    before = names(tmp_path)
    for _ in range(2):
        with pytest.raises(ConfigError) as error:
            second.lines.add(b"{}")
        assert str(error.value) == (
            f"{tmp_path}: another process records to it. Fix: name another folder"
        )
        second.close()
        assert names(tmp_path) == before
        first.finish_snapshot()
        rotate(first)
        before = names(tmp_path)
    first.close()
    begin(second)
    second.close()
    assert len(names(tmp_path)) == len(before) + 1


def test_a_folder_that_is_made_again_is_locked_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    first, second = (Output(folder, clock=SetClock(0.0), rotation=Rotation()) for _ in range(2))
    begin(first)
    folder.rename(tmp_path / "aside")
    rotate(first)
    with pytest.raises(ConfigError, match="another process records to it"):
        begin(second)
    first.close()


def test_files_of_others_stay(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl.gz"
    kept.write_text("mine")
    output = Output(tmp_path, clock=SetClock(0.0), rotation=Rotation(keep=1))
    for _ in range(3):
        rotate(output)
    output.close()
    assert kept.read_text() == "mine"
    assert len(names(tmp_path)) == 2


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    (folder / "1970-01-01T000000Z.jsonl.gz").symlink_to(outside)
    output = Output(folder, clock=SetClock(0.0), rotation=Rotation())
    begin(output)
    output.close()
    assert not outside.exists()
    assert output.current.name == "1970-01-01T000000Z-2.jsonl.gz"


def test_an_empty_file_that_exists_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "tuesday.jsonl.gz"
    path.touch(0o644)
    output = Output(path, clock=SetClock(0.0))
    output.lines.add(b"{}")
    output.close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)  # for a group: the owner's choice is kept when the recording goes on
    output = Output(path, clock=SetClock(0.0))
    output.lines.add(b"{}")
    output.close()
    assert path.stat().st_mode & 0o777 == 0o640


OLD = ["2026-01-01T000000Z.jsonl.gz", "2026-01-02T000000Z.jsonl.gz"]


def with_old_files(folder: Path) -> Output:
    for name in OLD:
        (folder / name).write_bytes(b"a recording")
    clock = SetClock(1_767_323_045.0)  # 2026-01-02T03:04:05Z
    return Output(folder, clock=clock, rotation=Rotation(keep=2))


def test_a_file_without_its_snapshot_costs_no_recording(tmp_path: Path) -> None:
    """However often a start fails, as it does on a full disk."""
    output = with_old_files(tmp_path)
    for _ in range(3):
        output.lines.add(b"{}")
        output.lines.flush()
        output.rotate()
    output.close()
    assert names(tmp_path) == OLD


def test_the_first_file_deletes_the_oldest_one_when_it_has_its_snapshot(tmp_path: Path) -> None:
    output = with_old_files(tmp_path)
    output.lines.add(b"{}")
    assert names(tmp_path) == [*OLD, "2026-01-02T030405Z.jsonl.gz.new"]
    output.finish_snapshot()
    assert names(tmp_path) == [OLD[1], "2026-01-02T030405Z.jsonl.gz"]
    output.close()
    assert names(tmp_path) == [OLD[1], "2026-01-02T030405Z.jsonl.gz"]


def test_what_a_killed_start_left_is_deleted_by_the_next_one(tmp_path: Path) -> None:
    output = with_old_files(tmp_path)
    for second in range(3):
        (tmp_path / f"2026-01-02T02000{second}Z.jsonl.gz.new").write_bytes(b"half a snapshot")
    output.lines.add(b"{}")
    assert names(tmp_path) == [*OLD, "2026-01-02T030405Z.jsonl.gz.new"]
    output.close()


def test_empty_files_push_out_no_recording(tmp_path: Path) -> None:
    """Older versions left them where a start failed."""
    output = with_old_files(tmp_path)
    for second in range(8):
        (tmp_path / f"2026-01-02T02000{second}Z.jsonl.gz").touch()
    begin(output)
    assert names(tmp_path) == [OLD[1], "2026-01-02T030405Z.jsonl.gz"]
    output.close()


def test_a_full_disk_leaves_nothing_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/dev/full` refuses every byte, as a full disk does."""
    output = with_old_files(tmp_path)
    open_ = os.open

    def open_full(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECTORY:
            return open_(path, flags)
        os.close(open_(path, flags, mode))
        return open_("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(os, "open", open_full)
    output.lines.add(b"{}")
    with pytest.raises(OSError, match="No space left"):
        output.finish_snapshot()
    with pytest.raises(OSError, match="No space left"):
        output.close()
    assert names(tmp_path) == OLD


def test_an_old_file_that_cannot_be_deleted_does_not_end_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tests may run as root, which can delete everything, so the error is made."""
    output = with_old_files(tmp_path)
    (tmp_path / "2026-01-02T020000Z.jsonl.gz").write_bytes(b"a recording")
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name == OLD[0]:
            raise PermissionError(1, "Operation not permitted")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    begin(output)
    output.close()
    assert names(tmp_path) == [
        OLD[0],
        "2026-01-02T020000Z.jsonl.gz",
        "2026-01-02T030405Z.jsonl.gz",
    ]
    (warning,) = caplog.records
    assert "cannot be deleted" in warning.message


def test_a_new_file_without_its_snapshot_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a start fails on a full disk; a file that was there stays, even an empty one."""
    path, empty = tmp_path / "new.jsonl.gz", tmp_path / "empty.jsonl.gz"
    empty.touch()
    for each in (path, empty):
        output = Output(each, clock=SetClock(0.0))
        output.lines.add(b"{}")
        output.close()
    assert names(tmp_path) == ["empty.jsonl.gz"]
    output = Output(path, clock=SetClock(0.0))
    begin(output)
    output.close()
    assert path.exists()


def test_nothing_is_written_to_the_recording_of_another_cluster(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    output = Output(path, clock=SetClock(0.0))
    output.begin(Header(recording=FORMAT, cluster="c1"))
    output.finish_snapshot()
    output.close()
    before = path.read_bytes()
    output = Output(path, clock=SetClock(0.0))
    with pytest.raises(ConfigError) as refused:
        output.begin(Header(recording=FORMAT, cluster="c2"))
    output.close()
    assert str(refused.value) == (
        f"{path}: exists and was recorded from another cluster. Fix: name another file"
    )
    assert path.read_bytes() == before


def test_a_file_that_disappears_while_old_files_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Output(tmp_path, clock=SetClock(1_767_323_045.0), rotation=Rotation(keep=1))
    begin(output)
    gone = tmp_path / "2025-12-31T000000Z.jsonl.gz"
    monkeypatch.setattr(files, "files_in", lambda folder: [gone, *files_in(folder)])
    rotate(output)
    output.close()
    assert names(tmp_path) == ["2026-01-02T030405Z-2.jsonl.gz"]


def test_a_file_that_is_deleted_while_it_is_written(tmp_path: Path) -> None:
    """A folder gets a new file; without one, nothing more would be recorded."""
    clock = SetClock(1_767_323_045.0)
    rotated = Output(tmp_path / "folder", clock=clock, rotation=Rotation())
    begin(rotated)
    due = [rotated.is_due]
    rotated.current.unlink()
    due.append(rotated.is_due)
    assert due == [False, True]
    rotate(rotated)
    rotated.close()
    assert names(tmp_path / "folder") == ["2026-01-02T030405Z.jsonl.gz"]

    single = Output(tmp_path / "r.jsonl.gz", clock=clock)
    begin(single)
    assert not single.is_due
    single.current.unlink()
    with pytest.raises(ConfigError, match=r"r\.jsonl\.gz: was deleted while it was written"):
        _ = single.is_due
    single.close()
