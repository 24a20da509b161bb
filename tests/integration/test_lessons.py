"""Every lesson on disk: its solution passes, the exercise as delivered fails, and the check names
the mistake of each plausible wrong answer.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import PODS
from stowplan.learn.child import check_in_child
from stowplan.learn.course import TRACKS, Course, Lesson
from stowplan.learn.work_check import CheckResult, check_work
from tests.embedded_fixtures import EmbeddedServer
from tests.integration import wrong_answers as wrong
from tests.integration.wrong_answers import Edit, WrongAnswer, wrong_answers
from tests.waiting import wait_for

LESSONS = Course().lessons
LANGUAGES = sorted(Course().languages())
#: Where solutions are tried; `make lessons-real` says `real`, which takes ten minutes.
ON = os.environ.get("LESSONS_ON", "virtual")
#: Of real time, for an answer that hangs.
HANGING_S = 6.0


WRONG = [
    pytest.param(lesson, name, answer, id=f"{lesson.key}-{name}")
    for lesson in LESSONS
    for name, answer in wrong_answers(lesson).items()
]
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[each.key for each in LESSONS])


def judged(lesson: Lesson, file: Path, on: str = "virtual") -> CheckResult:
    return check_work(lesson, file, on=on, language="en")


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


@pytest.mark.parametrize(("lesson", "name", "answer"), WRONG)
def test_the_mistake_of_a_wrong_answer_is_named(
    lesson: Lesson, name: str, answer: WrongAnswer, tmp_path: Path
) -> None:
    file = tmp_path / f"{name}{lesson.solution.suffix}"
    file.write_text(answer.text(lesson), encoding="utf-8")
    if answer.in_child:
        show: list[str] = []
        verdict = check_in_child(
            lesson, file, on="virtual", language="en", show=show.append, limit_s=HANGING_S
        )
    else:
        verdict = judged(lesson, file)
    told = "\n".join(verdict.mistakes)
    missing = [word for word in answer.words if word.lower() not in told.lower()]
    assert told, f"it passed, although: {answer.why}"
    assert not missing, f"{missing} not in: {told}"


@each_lesson
def test_there_are_at_least_three_wrong_answers(lesson: Lesson) -> None:
    answers = wrong_answers(lesson)
    assert len(answers) >= 3
    assert all(answer.why and answer.words for answer in answers.values())
    solution = lesson.solution.read_text(encoding="utf-8")
    assert solution not in {answer.text(lesson) for answer in answers.values()}


def test_every_file_of_wrong_answers_has_a_lesson() -> None:
    assert {path.stem for path in wrong.FOLDER.iterdir()} == {lesson.key for lesson in LESSONS}


@pytest.mark.parametrize("old", ["return", "raise", "return 1\nelse:"])
def test_an_edit_that_does_not_match_one_place_is_an_error(old: str) -> None:
    with pytest.raises(ValueError, match="must match one place"):
        Edit(old=old, new="pass").apply("if a:\n    return\nelse:\n    return\n")


@each_lesson
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_is_one_page(lesson: Lesson, language: str) -> None:
    for page in (lesson.page(language), lesson.hint(language)):
        lines = page.splitlines()
        assert len(lines) <= 70
        assert all(len(line) <= 80 for line in lines), [line for line in lines if len(line) > 80]
    assert lesson.page(language).startswith("# ")
    assert len(lesson.title(language)) <= 60


@contextmanager
def lesson_3_with_its_pod(kubeconfig: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the scheduler of lesson 3 on a cluster that has the pod of lesson 1."""

    async def create_pod() -> None:
        pod = yaml.safe_load(Course().find("pending").solution.read_text())
        async with ApiClient(load_cluster_config(kubeconfig=str(kubeconfig))) as api:
            await api.create(PODS, pod, namespace="default")

    asyncio.run(create_pod())
    program = subprocess.Popen(
        [sys.executable, str(Course().find("bind").solution)],
        env=os.environ | {"KUBECONFIG": str(kubeconfig), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate(timeout=60)


def test_lesson_3_without_a_node_ends_in_a_sentence(embedded_server: EmbeddedServer) -> None:
    with lesson_3_with_its_pod(embedded_server.kubeconfig_path) as program:
        _, err = program.communicate(timeout=60)
    assert err == ("no node is ready; add one (stowplan apiserver --nodes 3) and start again\n")
    assert program.returncode == 1


def test_lesson_3_runs_on_the_cluster_of_lesson_1(tmp_path: Path) -> None:
    page = Course().find("pending").page("en")
    command = re.findall(r"^stowplan (apiserver .*)$", page, re.MULTILINE)[0]
    words = shlex.split(command.replace("--port 8001", "--port 0"))
    server = subprocess.Popen(
        [sys.executable, "-m", "stowplan", *words], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    try:
        wait_for("the kubeconfig", (tmp_path / "kc").exists)
        with lesson_3_with_its_pod(tmp_path / "kc") as program:
            assert program.stdout is not None
            lines = iter(program.stdout.readline, "")
            assert any("phase: 'Running' PrgContSched." in line for line in lines)
    finally:
        server.terminate()
        server.wait(60)
