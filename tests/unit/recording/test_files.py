"""Files of a folder: in order whatever the clock does; files of others are not touched."""

from __future__ import annotations

from pathlib import Path

from stowplan.recording.files import Output, Rotation


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


def test_a_clock_that_is_set_back_deletes_the_oldest_all_the_same(tmp_path: Path) -> None:
    clock = SetClock(1_767_323_045.0)  # 2026-01-02T03:04:05Z
    output = Output(tmp_path, clock=clock, rotation=Rotation(keep=2))
    output.lines.add(b"{}")
    clock.wall -= 86_400
    for _ in range(2):
        output.rotate()
    output.close()
    # The first is the oldest; names go on behind the latest.
    assert names(tmp_path) == ["2026-01-02T030405Z-2.jsonl.gz", "2026-01-02T030405Z-3.jsonl.gz"]
    assert output.current.name == "2026-01-02T030405Z-3.jsonl.gz"
    clock.wall += 2 * 86_400
    output.rotate()
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


def test_files_of_others_stay(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl.gz"
    kept.write_text("mine")
    output = Output(tmp_path, clock=SetClock(0.0), rotation=Rotation(keep=1))
    for _ in range(3):
        output.rotate()
    output.close()
    assert kept.read_text() == "mine"
    assert len(names(tmp_path)) == 2


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    (folder / "1970-01-01T000000Z.jsonl.gz").symlink_to(outside)
    output = Output(folder, clock=SetClock(0.0), rotation=Rotation())
    output.lines.add(b"{}")
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
