"""Progress is kept beside the learner's files, and never lost in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.learn.progress import FILE_NAME, LessonProgress, Passed

PASSED = Passed("2026-01-02T03:04:05Z", "virtual")


def test_nothing_is_passed_where_there_is_no_file(tmp_path: Path) -> None:
    assert LessonProgress(tmp_path / "nowhere").passed("01_pending") is None


def test_progress_is_read_again(tmp_path: Path) -> None:
    LessonProgress(tmp_path).note("03_bind", PASSED)
    LessonProgress(tmp_path).note("01_pending", PASSED)
    progress = LessonProgress(tmp_path)
    assert progress.passed("03_bind") == PASSED
    assert progress.passed("01_pending") == PASSED
    assert progress.passed("02_print") is None
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_a_lesson_can_be_forgotten(tmp_path: Path) -> None:
    progress = LessonProgress(tmp_path)
    progress.note("03_bind", PASSED)
    progress.forget("03_bind")
    progress.forget("04_deploy")
    assert LessonProgress(tmp_path).passed("03_bind") is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"passed": []}', '{"passed": {"03_bind": true}}', "\0\0"],
)
def test_a_file_that_is_not_ours_is_told_and_left_alone(tmp_path: Path, content: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"progress.json: .* delete the file to start over"):
        LessonProgress(tmp_path)
    assert path.read_text() == content


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"progress.json: cannot write it: No such file"):
        LessonProgress(tmp_path / "gone").note("03_bind", PASSED)


def test_the_file_can_be_read_by_people(tmp_path: Path) -> None:
    LessonProgress(tmp_path).note("03_bind", PASSED)
    read = json.loads((tmp_path / FILE_NAME).read_text())
    assert read == {"passed": {"03_bind": {"at": "2026-01-02T03:04:05Z", "on": "virtual"}}}
