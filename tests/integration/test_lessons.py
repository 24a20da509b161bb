"""Every lesson on disk: its solution passes, the exercise as delivered does not, and each plausible
wrong answer is told what is wrong with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.learn.child import check_in_child
from stowplan.learn.course import TRACKS, Course, Lesson
from stowplan.learn.judging import Verdict, judge

LESSONS = Course().lessons
LANGUAGES = sorted(Course().languages())
#: Where solutions are tried; `make lessons-real` says `real`, which takes ten minutes.
ON = os.environ.get("LESSONS_ON", "virtual")
#: Of real time, for an answer that hangs.
HANGING_S = 3.0


def expected_of(lesson: Lesson) -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = yaml.safe_load((lesson.wrong / "expected.yaml").read_text())
    return read


WRONG = [
    pytest.param(lesson, name, about, id=f"{lesson.key}-{name}")
    for lesson in LESSONS
    for name, about in expected_of(lesson).items()
]
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[each.key for each in LESSONS])


def judged(lesson: Lesson, file: Path, on: str = "virtual") -> Verdict:
    return judge(lesson, file, on=on, language="en")


def test_there_are_sixteen_lessons() -> None:
    assert [lesson.number for lesson in LESSONS] == list(range(1, 17))
    tracks = [lesson.track for lesson in LESSONS]
    assert tracks == [TRACKS[0]] * 4 + [TRACKS[1]] * 5 + [TRACKS[2]] * 7


@each_lesson
def test_the_solution_passes(lesson: Lesson) -> None:
    assert judged(lesson, lesson.solution, ON).mistakes == ()


@each_lesson
def test_the_exercise_as_delivered_does_not_pass(lesson: Lesson) -> None:
    verdict = judged(lesson, lesson.exercise)
    assert verdict.mistakes
    assert "TODO" in lesson.exercise.read_text()
    for text in verdict.mistakes:
        assert lesson.exercise.name in text, "it should say where to look"
        assert "Error: " not in text, "an exercise runs as it is"


@pytest.mark.parametrize(("lesson", "name", "about"), WRONG)
def test_a_wrong_answer_is_told_its_mistake(
    lesson: Lesson, name: str, about: dict[str, Any]
) -> None:
    file = lesson.wrong / name
    if about.get("in_child"):
        show: list[str] = []
        verdict = check_in_child(
            lesson, file, on="virtual", language="en", show=show.append, limit_s=HANGING_S
        )
    else:
        verdict = judged(lesson, file)
    told = "\n".join(verdict.mistakes)
    missing = [word for word in about["words"] if word.lower() not in told.lower()]
    assert told, f"it passed, although: {about['why']}"
    assert not missing, f"{missing} not in: {told}"


@each_lesson
def test_there_are_at_least_three_wrong_answers_and_all_are_tried(lesson: Lesson) -> None:
    files = {path.name for path in lesson.wrong.iterdir() if path.is_file()} - {"expected.yaml"}
    expected = expected_of(lesson)
    assert files == set(expected)
    assert len(files) >= 3
    for about in expected.values():
        assert about["why"]
        assert about["words"]


@each_lesson
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_is_one_page(lesson: Lesson, language: str) -> None:
    for page in (lesson.page(language), lesson.hint(language)):
        lines = page.splitlines()
        assert len(lines) <= 70
        assert all(len(line) <= 80 for line in lines), [line for line in lines if len(line) > 80]
    assert lesson.page(language).startswith("# ")
    assert len(lesson.title(language)) <= 60


@each_lesson
def test_wrong_answers_differ_from_the_solution(lesson: Lesson) -> None:
    solution = lesson.solution.read_bytes()
    for name in expected_of(lesson):
        assert (lesson.wrong / name).read_bytes() != solution
