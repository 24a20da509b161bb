"""Lessons are found on disk and by whatever name a learner gives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from flit_core.common import Module  # type: ignore[import-untyped]  # flit_core has no types

from stowplan.errors import ConfigError
from stowplan.learn import texts
from stowplan.learn.course import Course
from stowplan.learn.workbook import Workbook
from tests.unit.learn.lessons import write_lesson

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    write_lesson(tmp_path, "01_pending", track="workshop", file="pod.yaml", exercise="a: 1\n")
    write_lesson(tmp_path, "02_bind", track="workshop")
    write_lesson(tmp_path, "03_empty", track="tutorial", time_limit_s=5)
    (tmp_path / "notes").mkdir()
    (tmp_path / "04_draft").mkdir()
    return Course(tmp_path)


def test_folders_that_are_no_lessons_are_left_out(course: Course) -> None:
    assert [lesson.key for lesson in course.lessons] == ["01_pending", "02_bind", "03_empty"]
    assert [lesson.step for lesson in course.lessons] == [1, 2, 1]
    assert [lesson.time_limit_s for lesson in course.lessons] == [30, 30, 5]


@pytest.mark.parametrize("asked", ["2", "02", "bind", "02_bind", "workshop/2", "workshop/02"])
def test_a_lesson_has_many_names(course: Course, asked: str) -> None:
    assert course.find(asked).key == "02_bind"


@pytest.mark.parametrize("asked", ["0", "4", "draft", "workshop/3", "", "-1", "../01_pending"])
def test_an_unknown_lesson_is_told_which_there_are(course: Course, asked: str) -> None:
    with pytest.raises(ConfigError, match=r"no lesson .* from 1 to 3, .*pending.*workshop/1"):
        course.find(asked)


def test_the_parts_of_a_lesson_follow_from_its_file(course: Course) -> None:
    pod, bind, _ = course.lessons
    assert pod.exercise.name == "exercise.yaml"
    assert bind.solution.name == "solution.py"
    assert bind.given() == []


def test_a_solved_lesson_has_the_files_that_were_given_too(tmp_path: Path) -> None:
    lesson = write_lesson(tmp_path, "01_bind", given={"pod.yaml": "kind: Pod\n"})
    assert lesson.solved() == {"pod.yaml": "kind: Pod\n", "scheduler.py": "ANSWER = 42\n"}


def test_a_language_is_offered_only_if_every_text_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = tmp_path / "texts"
    frame.mkdir()
    (frame / "frame.en.yaml").write_text("place: here\n")
    monkeypatch.setattr(texts, "_FOLDER", frame)
    english = "wrong: Not {found}.\n"
    lessons = [write_lesson(tmp_path, name, messages=english) for name in ("01_bind", "02_print")]
    parts = [
        (frame / "frame.ja.yaml", "place: ここ\n"),
        *((each.folder / "lesson.ja.md", "# 割り当て\n\n本文\n") for each in lessons),
        *((each.folder / "hint.ja.md", "ヒント\n") for each in lessons),
        *((each.folder / "messages.ja.yaml", "wrong: '{found} ではない'\n") for each in lessons),
    ]
    for path, text in parts:
        assert Course(tmp_path).languages() == {"en"}, f"{path.name} is missing"
        path.write_text(text)
        texts._read.cache_clear()
    assert Course(tmp_path).languages() == {"en", "ja"}
    assert lessons[0].title("ja") == "割り当て"
    assert lessons[0].title("en") == "Bind"


def test_no_translation_is_kept_that_is_not_offered() -> None:
    course = Course()
    found = [path for lesson in course.lessons for path in lesson.folder.iterdir()]
    found += (REPOSITORY / "src/stowplan/learn/texts").iterdir()
    written = {path.suffixes[0][1:] for path in found if len(path.suffixes) == 2}
    assert written == course.languages()


def test_what_an_installer_leaves_beside_given_files_is_not_given(tmp_path: Path) -> None:
    lesson = write_lesson(tmp_path, "01_bind", given={"pod.yaml": "kind: Pod\n"})
    (lesson.folder / "given" / "__pycache__").mkdir()
    started = Workbook(tmp_path / "mine").start(lesson)
    assert started.is_new
    names = sorted(path.name for path in started.file.parent.iterdir())
    assert names == ["pod.yaml", "scheduler.py"]


def test_all_of_a_lesson_is_in_the_package() -> None:
    """What is built from the checkout has the data files, too."""
    packed = {Path(path).resolve() for path in Module("stowplan", REPOSITORY).iter_files()}
    for lesson in Course().lessons:
        needed = [lesson.exercise, lesson.solution, lesson.folder / "check.py"]
        needed += [*lesson.given(), *lesson.folder.glob("*.md"), *lesson.folder.glob("*.yaml")]
        assert packed.issuperset(needed)
    assert REPOSITORY / "src/stowplan/learn/texts/frame.en.yaml" in packed
