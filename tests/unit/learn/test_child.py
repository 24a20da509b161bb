"""Checks in a process of their own: whatever a program does, its learner gets words."""

from __future__ import annotations

from pathlib import Path

import pytest

from stowplan.errors import StowplanError
from stowplan.learn.child import check_in_child, limit_of
from stowplan.learn.course import Lesson
from stowplan.learn.work_check import CheckResult
from tests.unit.learn.lessons import write_lesson

#: Long enough for whatever does not hang, on a busy machine.
AMPLE_S = 60.0
SHORT_S = 1.0


@pytest.fixture
def lesson(tmp_path: Path) -> Lesson:
    return write_lesson(tmp_path / "lessons", "01_answer")


def checked(
    lesson: Lesson, text: str, *, limit_s: float = AMPLE_S
) -> tuple[CheckResult, list[str]]:
    file = lesson.folder.parent.parent / "scheduler.py"
    file.write_text(text)
    shown: list[str] = []
    verdict = check_in_child(
        lesson, file, on="virtual", language="en", show=shown.append, limit_s=limit_s
    )
    return verdict, shown


def test_what_it_prints_and_logs_is_shown(lesson: Lesson) -> None:
    verdict, shown = checked(
        lesson,
        "import logging, os\n"
        "print('one')\n"
        "logging.getLogger('learner').info('two %s', 2)\n"
        "os.write(2, b'three')\n"
        "ANSWER = 42\n",
    )
    assert verdict == CheckResult((), ("Checked on virtual.",))
    assert shown == ["one", "two 2", "three"]


def test_an_endless_loop_is_told_its_line(lesson: Lesson) -> None:
    verdict, _ = checked(lesson, "x = 0\nwhile True:\n    x += 1\n", limit_s=SHORT_S)
    [told] = verdict.mistakes
    assert "scheduler.py, line" in told
    assert "still busy here after 1 seconds" in told
    assert told.splitlines()[1].strip() in ("while True:", "x += 1")


def test_a_loop_that_catches_everything_ends_too(lesson: Lesson) -> None:
    text = "while True:\n    try:\n        x = 1\n    except BaseException:\n        pass\n"
    verdict, _ = checked(lesson, text, limit_s=SHORT_S)
    [told] = verdict.mistakes
    assert "still busy here" in told


def test_a_program_that_leaves_without_a_word(lesson: Lesson) -> None:
    verdict, shown = checked(lesson, "import os\nprint('bye')\nos._exit(7)\n")
    assert verdict.mistakes == (
        "The program ended the check itself (exit code 7). A lesson's file is not to exit.",
    )
    assert shown == ["bye"]


def test_a_program_that_prints_without_end_is_cut(lesson: Lesson) -> None:
    verdict, shown = checked(lesson, "for n in range(5000): print(n)\nANSWER = 42\n")
    assert verdict.is_passed
    assert shown[:2] == ["0", "1"]
    assert len(shown) == 201
    assert shown[-1] == "(4800 more lines are not shown)"


def test_a_thread_that_goes_on_keeps_nobody(lesson: Lesson) -> None:
    text = (
        "import threading\nthreading.Thread(target=threading.Event().wait).start()\nANSWER = 42\n"
    )
    verdict, _ = checked(lesson, text)
    assert verdict.is_passed


def test_memory_without_end_is_told(lesson: Lesson) -> None:
    verdict, _ = checked(lesson, "x = bytearray(1 << 40)\n")
    [told] = verdict.mistakes
    assert "line 1: MemoryError" in told


def test_a_file_named_like_a_module_of_pythons_is_not_taken_for_it(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text("raise SystemExit('not this one')\n")
    verdict, _ = checked(lesson, "import random\nANSWER = 42 + 0 * random.randrange(2)\n")
    assert verdict.is_passed


def test_a_defect_of_ours_is_called_so(tmp_path: Path) -> None:
    lesson = write_lesson(tmp_path / "lessons", "02_x", check="def check(work, on): return 1 / 0\n")
    verdict, shown = checked(lesson, "ANSWER = 42\n")
    [told] = verdict.mistakes
    assert "defect of Stowplan's" in told
    assert "ZeroDivisionError" in shown[-1]


def test_a_target_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    check = """
from stowplan.errors import StowplanError


def check(work, on):
    raise StowplanError("no control plane")
"""
    lesson = write_lesson(tmp_path / "lessons", "02_x", check=check)
    with pytest.raises(StowplanError, match="no control plane"):
        checked(lesson, "ANSWER = 42\n")


def test_real_time_gets_more_of_it(lesson: Lesson) -> None:
    limits = [limit_of(lesson, on) for on in ("virtual", "embedded", "real")]
    assert limits == sorted(limits)
    assert limits[0] == lesson.time_limit_s
