"""`stowplan learn` as a learner uses it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stowplan.cli.main import main
from stowplan.learn.course import Course

COURSE = Course()


class Ran:
    """What a run of the command came to."""

    def __init__(self, code: object, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


class Learner:
    """Somebody at a shell."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.files = Path("stowplan-lessons")

    def __call__(self, *args: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["learn", *args])
        captured = self._capsys.readouterr()
        return Ran(ended.value.code, captured.out, captured.err)

    def solve(self, lesson: str) -> None:
        found = COURSE.find(lesson)
        shutil.copyfile(found.solution, self.files / found.key / found.file)


@pytest.fixture
def learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Learner:
    monkeypatch.chdir(tmp_path)
    for name in ("LANG", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    return Learner(capsys)


def test_the_list_shows_all_lessons_and_what_is_next(learn: Learner) -> None:
    ran = learn()
    assert ran.code == 0
    for lesson in COURSE.lessons:
        assert f"{lesson.number:2}            {lesson.title('en')}" in ran.out
    assert "0 of 16 lessons passed (stowplan-lessons)" in ran.out
    assert ran.out.endswith("Next: stowplan learn start 1\n")
    assert not learn.files.exists()


def test_from_the_start_to_the_next_lesson(learn: Learner) -> None:
    started = learn("start")
    assert started.code == 0
    assert started.out.startswith("1. A pod that waits\n")
    file = learn.files / "01_pending" / "pod.yaml"
    assert f"Complete {file}, then stowplan learn check 1" in started.out
    assert "begun" in learn().out

    failed = learn("check")
    assert failed.code == 1
    assert "Not yet:" in failed.out
    assert "Pod hello did not wait" in " ".join(failed.out.split())
    assert "stowplan learn hint 1" in failed.out

    learn.solve("1")
    passed = learn("check")
    assert passed.code == 0
    assert passed.out == "Lesson 1 is passed.\nNext: stowplan learn start 2\n"
    assert "1  passed" in learn().out


def test_what_the_program_prints_is_shown_and_where_it_is_wrong(learn: Learner) -> None:
    learn("start", "2")
    file = learn.files / "02_print" / "scheduler.py"
    file.write_text(file.read_text().replace("pod.metadata.name", "pod.metadata.nam"))
    ran = learn("check", "2")
    told = " ".join(ran.out.split())
    assert ran.code == 1
    assert f"{file}, line 14: AttributeError: 'ObjectMeta' object has no attribute 'nam'" in told
    assert "Traceback" not in ran.out + ran.err
    learn.solve("print")
    assert "  | pod: 'hello', phase: 'Pending' PrgContSched.\n" in learn("check", "print").out


def test_a_syntax_error_has_file_line_and_text(learn: Learner) -> None:
    learn("start", "3")
    file = learn.files / "03_bind" / "scheduler.py"
    file.write_text("import asyncio\n\nasync def schedule(api, namespace)\n    pass\n")
    ran = learn("check", "3")
    assert ran.code == 1
    assert f"  - {file}, line 3: expected ':'\n" in ran.out
    assert "        async def schedule(api, namespace)\n" in ran.out
    assert "Traceback" not in ran.out + ran.err


def test_within_a_lessons_folder_that_lesson_is_meant(
    learn: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn("start", "1")
    learn("start", "5")
    learn.solve("5")
    monkeypatch.chdir(learn.files / "05_empty")
    assert "Lesson 5 is passed." in learn("check").out
    assert learn("hint").out == learn("hint", "5").out


@pytest.mark.parametrize(
    ("here", "asked"),
    [
        (".", "Bind"),
        (".", "Workshop/3"),
        (".", "stowplan-lessons/03_bind/scheduler.py"),
        (".", "stowplan-lessons/03_bind/"),
        ("stowplan-lessons", "03_bind/scheduler.py"),
        ("stowplan-lessons/03_bind", "scheduler.py"),
        ("stowplan-lessons/03_bind", "."),
        ("stowplan-lessons/05_empty", "../03_bind"),
        ("stowplan-lessons/05_empty", "3"),
    ],
)
def test_ways_to_name_a_lesson(
    learn: Learner, here: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn("start", "3")
    learn("start", "5")
    monkeypatch.chdir(here)
    ran = learn("hint", asked)
    assert (ran.code, ran.out) == (0, learn("hint", "3").out), ran.err


@pytest.mark.parametrize(
    "asked", ["elsewhere/03_bind/scheduler.py", "17", "workshop/9", "", "scheduler.py"]
)
def test_what_names_no_lesson(learn: Learner, asked: str) -> None:
    learn("start", "3")
    ran = learn("check", asked)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"Error: there is no lesson '{asked}'")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("list", "stowplan learn"),
        ("next", "stowplan learn"),
        ("1", "stowplan learn start 1"),
        ("Bind", "stowplan learn start 3"),
        ("chek", "stowplan learn check"),
        ("zebra", "stowplan learn --help"),
    ],
)
def test_an_unknown_command_gets_a_suggestion(learn: Learner, word: str, meant: str) -> None:
    ran = learn(word)
    assert (ran.code, ran.out) == (2, "")
    assert f"Error: No such command '{word}'. Did you mean `{meant}`?\n" in ran.err


def test_pages_end_without_an_empty_line(learn: Learner) -> None:
    for command in ("hint", "read"):
        assert not learn(command, "1").out.endswith("\n\n")


def test_nothing_to_check_before_it_is_started(learn: Learner) -> None:
    ran = learn("check", "7")
    assert ran.code == 2
    assert ran.err == (
        "Error: there is no stowplan-lessons/07_choose/random_scheduler.py yet: "
        "stowplan learn start 7\n"
    )


def test_starting_twice_overwrites_nothing(learn: Learner) -> None:
    learn("start", "1")
    file = learn.files / "01_pending" / "pod.yaml"
    file.write_text("mine: true\n")
    ran = learn("start", "1")
    assert "is there already and stays as it is" in ran.out
    assert file.read_text() == "mine: true\n"


def test_reset_keeps_the_file_and_forgets_the_pass(learn: Learner) -> None:
    learn("start", "1")
    learn.solve("1")
    learn("check", "1")
    assert "1 of 16" in learn().out
    ran = learn("reset", "1")
    assert ran.code == 0
    assert (learn.files / "01_pending" / "pod.yaml.1").exists()
    assert "0 of 16" in learn().out


def test_the_solution_is_shown_as_a_difference_to_ones_own(learn: Learner) -> None:
    ran = learn("solution", "1")
    assert "--- exercise/pod.yaml\n+++ solution/pod.yaml" in ran.out
    learn("start", "1")
    ran = learn("solution", "1")
    assert "--- yours/pod.yaml" in ran.out
    assert "\n+  schedulerName: PrgContSched\n" in ran.out
    learn.solve("1")
    assert "is the solution, to the letter" in learn("solution", "1").out


def test_what_a_step_added(learn: Learner) -> None:
    ran = learn("diff", "3", "4")
    assert ran.code == 0
    assert "--- /dev/null\n+++ 04_deploy/deploy.yaml" in ran.out
    assert "scheduler.py" in ran.out
    assert "--- 03_bind/scheduler.py" not in ran.out, "the program is the same"
    steps = learn("diff", "framework/3", "framework/4")
    assert steps.out == learn("diff", "12", "13").out
    assert "\n+" in steps.out
    assert "have the same solution" in learn("diff", "5", "5").out


def test_pages_are_plain_in_a_pipe(learn: Learner) -> None:
    for lesson in COURSE.lessons:
        ran = learn("read", str(lesson.number))
        assert ran.code == 0
        assert "\x1b" not in ran.out
        assert "```" not in ran.out
        assert ran.out.startswith(f"{lesson.number}. {lesson.title('en')}\n")


@pytest.mark.parametrize("command", ["start", "read", "check", "hint", "solution", "reset"])
def test_a_lesson_that_there_is_not(learn: Learner, command: str) -> None:
    ran = learn(command, "17")
    assert ran.code == 2
    assert ran.err.startswith("Error: there is no lesson '17': give a number from 1 to 16")
    assert not learn.files.exists()


def test_a_language_that_there_is_not(learn: Learner) -> None:
    ran = learn("--lang", "tlh")
    assert ran.code == 2
    assert ran.err == "Error: --lang: the lessons are not translated into 'tlh'; there is en\n"


@pytest.mark.parametrize(
    "words",
    [("start", "1", "--lessons-dir", "mine"), ("--lessons-dir", "mine", "start", "1")],
)
def test_another_directory(learn: Learner, words: tuple[str, ...]) -> None:
    learn(*words)
    assert (learn.files.parent / "mine" / "01_pending" / "pod.yaml").exists()
    assert not learn.files.exists()


def test_play_with_ones_own_scheduler(learn: Learner) -> None:
    learn("start", "16")
    ran = learn("play", "16")
    assert ran.code == 1, "the exercise does not bring the pod back"
    learn.solve("16")
    ran = learn("play", "16")
    assert ran.code == 0, ran.out + ran.err
    assert "minischeduler: Node/Add brings back pod default/pod1" in ran.out
    assert "scenario: pod1 is bound to node10" in ran.out
    file = learn.files / "16_event_handlers" / "scheduler.py"
    assert learn("play", str(file)).out.replace(" in 0.", "")[:200] == ran.out[:200]


def test_play_says_what_it_lacks(learn: Learner) -> None:
    ran = learn("play", "16")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no stowplan-lessons/16_event_handlers/scheduler.py yet" in ran.err
    ran = learn("play", "nowhere.py")
    assert (ran.code, ran.err) == (2, "Error: nowhere.py: there is no such file\n")
    learn("start", "7")
    ran = learn("play", "7")
    assert ran.code == 2
    assert "random_scheduler.py: has no class MiniScheduler" in ran.err
    learn("start", "10")
    file = learn.files / "10_random" / "scheduler.py"
    file.write_text(file.read_text().replace("self.queue.put_nowait(pod)", "self.quue.put(pod)"))
    ran = learn("play", "10")
    assert ran.code == 1
    words = " ".join(ran.out.split())
    line = file.read_text().partition("self.quue")[0].count("\n") + 1
    assert f"scheduler.py, line {line}: AttributeError: 'MiniScheduler' object has no" in words
    assert "self.quue.put(pod)" in ran.out
    assert "Traceback" not in ran.out + ran.err


def test_progress_that_cannot_be_read(learn: Learner) -> None:
    learn.files.mkdir()
    (learn.files / "progress.json").write_text("{")
    ran = learn()
    assert ran.code == 2
    assert "progress.json: this is not a progress file of stowplan learn" in ran.err


def test_all_passed(learn: Learner) -> None:
    passed = {each.key: {"at": "2026-01-02T03:04:05Z", "on": "virtual"} for each in COURSE.lessons}
    learn.files.mkdir()
    (learn.files / "progress.json").write_text(json.dumps({"passed": passed}))
    ran = learn()
    assert "16 of 16 lessons passed" in ran.out
    assert "All 16 lessons are passed." in ran.out


def test_the_program_of_lesson_4_is_the_solution_of_lesson_3() -> None:
    given = COURSE.find("4").folder / "given" / "scheduler.py"
    assert given.read_text() == COURSE.find("3").solution.read_text()
