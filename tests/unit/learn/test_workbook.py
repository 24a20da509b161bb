"""The learner's directory: nothing that somebody wrote is ever lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.errors import ConfigError
from stowplan.learn.course import Lesson
from stowplan.learn.workbook import DIRECTORY_NAME, Workbook, diff
from tests.unit.learn.lessons import write_lesson


@pytest.fixture
def lesson(tmp_path: Path) -> Lesson:
    return write_lesson(tmp_path / "lessons", "01_bind", given={"pod.yaml": "kind: Pod\n"})


@pytest.fixture
def book(tmp_path: Path) -> Workbook:
    return Workbook(tmp_path / DIRECTORY_NAME)


def test_starting_copies_the_exercise_and_what_is_given(book: Workbook, lesson: Lesson) -> None:
    started = book.start(lesson)
    assert started.is_new
    assert started.file.read_text() == "ANSWER = 0  # TODO\n"
    assert (started.file.parent / "pod.yaml").read_text() == "kind: Pod\n"


def test_starting_again_overwrites_nothing(book: Workbook, lesson: Lesson) -> None:
    file = book.start(lesson).file
    file.write_text("ANSWER = 7\n")
    (file.parent / "pod.yaml").unlink()
    again = book.start(lesson)
    assert not again.is_new
    assert file.read_text() == "ANSWER = 7\n"
    assert (file.parent / "pod.yaml").exists()


def test_resetting_keeps_what_was_written_each_time(book: Workbook, lesson: Lesson) -> None:
    assert book.reset(lesson) is None
    for number in (1, 2, 3):
        book.file(lesson).write_text(f"ANSWER = {number}\n")
        kept = book.reset(lesson)
        assert kept is not None
        assert kept.name == f"scheduler.py.{number}"
        assert kept.read_text() == f"ANSWER = {number}\n"
        assert book.file(lesson).read_text() == "ANSWER = 0  # TODO\n"


def test_the_directory_is_found_from_within_and_from_beside(tmp_path: Path) -> None:
    directory = tmp_path / DIRECTORY_NAME
    inside = directory / "03_bind"
    assert Workbook.find(None, tmp_path).directory == directory
    inside.mkdir(parents=True)
    assert Workbook.find(None, tmp_path).directory == directory
    assert Workbook.find(None, inside).directory == directory
    assert Workbook.find(Path("other"), inside).directory == Path("other")


def test_the_lesson_is_known_whose_folder_one_is_in(book: Workbook, lesson: Lesson) -> None:
    folder = book.start(lesson).file.parent
    keys = {lesson.key: lesson}
    assert book.lesson_of(folder, keys) is lesson
    assert book.lesson_of(folder / "deep", keys) is lesson
    assert book.lesson_of(folder.parent, keys) is None
    assert book.lesson_of(folder.parent / "99_other", keys) is None


def test_a_file_in_the_way_is_told(book: Workbook, lesson: Lesson) -> None:
    book.directory.write_text("not a directory")
    with pytest.raises(ConfigError, match=r"stowplan-lessons.*: (File exists|Not a directory)"):
        book.start(lesson)


def test_text_that_is_no_utf8_is_shown_all_the_same(book: Workbook, lesson: Lesson) -> None:
    book.start(lesson).file.write_bytes(b"ANSWER = '\xff'\n")
    assert book.text(lesson) == "ANSWER = '\N{REPLACEMENT CHARACTER}'\n"


def test_a_diff_has_new_and_gone_files() -> None:
    old = {"a.py": "one\ntwo\n", "b.py": "same\n", "gone.py": "x\n"}
    new = {"a.py": "one\nthree\n", "b.py": "same\n", "new.py": "y\n"}
    lines = diff(old, new, "old", "new")
    assert lines == [
        *["--- old/a.py", "+++ new/a.py", "@@ -1,2 +1,2 @@", " one", "-two", "+three"],
        *["--- old/gone.py", "+++ /dev/null", "@@ -1 +0,0 @@", "-x"],
        *["--- /dev/null", "+++ new/new.py", "@@ -0,0 +1 @@", "+y"],
    ]
    assert diff(old, old, "old", "new") == []
