"""Whatever a learner's file does wrong becomes words with a line of that file."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from pathlib import Path

import pytest

from stowplan.errors import StowplanError
from stowplan.learn.course import Lesson
from stowplan.learn.work_check import CheckResult, check_work
from tests.unit.learn.lessons import write_lesson

RUNS_MAIN = """
import asyncio

from stowplan.learn.checking import call, part


def check(work, on):
    asyncio.run(call(part(work, "main", is_async=True)))
"""


@pytest.fixture
def lesson(tmp_path: Path) -> Lesson:
    return write_lesson(tmp_path / "lessons", "01_answer")


@pytest.fixture
def running(tmp_path: Path) -> Lesson:
    return write_lesson(tmp_path / "lessons", "02_main", check=RUNS_MAIN)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def judged(lesson: Lesson, text: str | bytes, name: str = "scheduler.py") -> CheckResult:
    file = Path(name)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return check_work(lesson, file, on="virtual", language="en")


def test_an_answer_that_is_right(lesson: Lesson) -> None:
    assert judged(lesson, "ANSWER = 42\n") == CheckResult((), ("Checked on virtual.",))


def test_a_mistake_is_in_the_words_of_the_lesson(lesson: Lesson) -> None:
    verdict = judged(lesson, "ANSWER = 41\n")
    assert verdict.mistakes == ("scheduler.py: The answer is not 41.",)
    assert not verdict.is_passed


def test_a_syntax_error_has_its_line_and_no_traceback(lesson: Lesson) -> None:
    [told] = judged(lesson, "ANSWER = 42\nif ANSWER = 1:\n    pass\n").mistakes
    place, line, mark = told.splitlines()
    assert place.startswith("scheduler.py, line 2: ")
    assert line == "    if ANSWER = 1:"
    assert mark.strip() == "^"


def test_the_mark_is_below_the_place_in_an_indented_line(lesson: Lesson) -> None:
    [told] = judged(lesson, "def f():\n    return 1 +\n").mistakes
    place, line, mark = told.splitlines()
    assert "line 2" in place
    assert line == "    return 1 +"
    assert mark.index("^") >= line.index("+")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "line 1"),
        ("  ANSWER = 42\n", "line 1: unexpected indent"),
        ("if True:\nANSWER = 42\n", "line 2: expected an indented block"),
        ("ANSWER = 'x\n", "line 1: unterminated string literal"),
        (b"ANSWER = '\xff'\n", "scheduler.py"),
        (b"ANSWER = 42\0\n", "scheduler.py"),
        ("# -*- coding: nonsense -*-\n", "nonsense"),
        ("(" * 300 + ")" * 300 + "\n", "line 1"),
    ],
)
def test_no_python_at_all(lesson: Lesson, text: str | bytes, words: str) -> None:
    [told] = judged(lesson, text).mistakes
    assert words in told
    assert "Traceback" not in told


def test_an_error_while_it_is_loaded(lesson: Lesson) -> None:
    [told] = judged(lesson, "def answer():\n    return 42 / 0\n\nANSWER = answer()\n").mistakes
    assert told == "scheduler.py, line 2: ZeroDivisionError: division by zero\n    return 42 / 0"


def test_a_module_that_is_not_there(lesson: Lesson) -> None:
    [told] = judged(lesson, "import no_such_thing\n").mistakes
    assert told.startswith("scheduler.py, line 1: ModuleNotFoundError: ")


def test_a_program_that_exits(lesson: Lesson) -> None:
    [told] = judged(lesson, "import sys\nsys.exit(3)\n").mistakes
    assert told.startswith("scheduler.py, line 2: the program ends itself here, by sys.exit(3)")


def test_an_error_far_below_is_told_by_the_learners_line(running: Lesson) -> None:
    [told] = judged(
        running, "import json\n\nasync def main():\n    json.loads('nonsense')\n"
    ).mistakes
    assert told.startswith("scheduler.py, line 4: JSONDecodeError: ")
    assert told.endswith("\n    json.loads('nonsense')")


def test_all_errors_of_a_group_are_told(running: Lesson) -> None:
    text = """
import asyncio

async def one(): raise ValueError("first")
async def two(): raise KeyError("second")

async def main():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(one())
        tasks.create_task(two())
"""
    first, second = judged(running, text).mistakes
    assert "line 4: ValueError: first" in first
    assert "line 5: KeyError: 'second'" in second


def test_a_coroutine_that_nobody_awaits_is_told(running: Lesson) -> None:
    text = "import asyncio\n\nasync def main():\n    asyncio.sleep(1)\n"
    [told] = judged(running, text).mistakes
    assert told.startswith("scheduler.py, line 4: sleep is called without await")
    assert told.endswith("    asyncio.sleep(1)")


def test_an_error_in_the_log_is_told(running: Lesson) -> None:
    text = """
import logging

async def main():
    try:
        {}["nothing"]
    except KeyError:
        logging.getLogger("stowplan.api.informer").exception("A handler failed; continuing")
"""
    [told] = judged(running, text).mistakes
    assert "line 6: KeyError: 'nothing'" in told


def test_an_error_comes_before_the_mistake_that_follows_from_it(tmp_path: Path) -> None:
    check = """
from stowplan.learn.checking import Mistake, play, start


def check(work, on):
    async def scenario(cluster):
        start(cluster, work.main)
        await cluster.sleep(1)
        raise Mistake("wrong", found="there")

    play(scenario, on)
"""
    lesson = write_lesson(tmp_path / "lessons", "03_main", check=check)
    error, mistake = judged(lesson, "async def main():\n    raise ValueError('oh')\n").mistakes
    assert "line 2: ValueError: oh" in error
    assert mistake == "scheduler.py: The answer is not there."


def test_a_mistake_names_the_function_that_it_is_about(tmp_path: Path) -> None:
    check = """
from stowplan.learn.checking import Mistake


def check(work, on):
    raise Mistake("wrong", at=work.Thing.method, found=1)
"""
    lesson = write_lesson(tmp_path / "lessons", "03_at", check=check)
    text = "class Thing:\n    x = 1\n\n    def method(self):\n        pass\n"
    assert judged(lesson, text).mistakes == (
        "scheduler.py, line 4, in method: The answer is not 1.",
    )
    borrowed = "import textwrap\n\nclass Thing:\n    method = textwrap.wrap\n"
    assert judged(lesson, borrowed).mistakes == ("scheduler.py: The answer is not 1.",)
    assert judged(lesson, "class Thing:\n    method = len\n").mistakes == (
        "scheduler.py: The answer is not 1.",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ANSWER = 42\n", "no main in this file any more"),
        ("main = 42\n", "no main in this file any more"),
        ("def main(): pass\n", "main has to be a coroutine function"),
        ("async def main(api): pass\n", "main does not take what it is called with"),
    ],
)
def test_parts_that_a_check_needs(running: Lesson, text: str, words: str) -> None:
    [told] = judged(running, text).mistakes
    assert words in told


def test_a_defect_of_ours_is_no_mistake_of_theirs(tmp_path: Path) -> None:
    lesson = write_lesson(tmp_path / "lessons", "03_x", check="def check(work, on): return 1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        judged(lesson, "ANSWER = 42\n")


def test_a_target_that_cannot_be_had_is_no_mistake_of_theirs(tmp_path: Path) -> None:
    check = """
from stowplan.errors import StowplanError


def check(work, on):
    raise StowplanError("no control plane")
"""
    lesson = write_lesson(tmp_path / "lessons", "03_x", check=check)
    with pytest.raises(StowplanError, match="no control plane"):
        judged(lesson, "ANSWER = 42\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: [1, 2\n", "pod.yaml, line 3: did not find expected ',' or ']'"),
        ("a:\n  b: 1\n c: 2\n", "pod.yaml, line 3: "),
        ("a: 1\n\tb: 2\n", "pod.yaml, line 2: "),
        (b"\xff\xfe\xff", "pod.yaml: "),
        ("a: \0\n", "pod.yaml, line 1: "),
        ("a: !!python/object:os.system {}\n", "pod.yaml, line 1: "),
    ],
)
def test_no_yaml_at_all(tmp_path: Path, text: str | bytes, words: str) -> None:
    lesson = write_lesson(tmp_path / "lessons", "03_pod", file="pod.yaml")
    [told] = judged(lesson, text, "pod.yaml").mistakes
    assert told.startswith(words)
    assert "Traceback" not in told


def test_documents_are_given_as_a_list(tmp_path: Path) -> None:
    check = """
from stowplan.learn.checking import Mistake


def check(work, on):
    raise Mistake("wrong", found=work)
"""
    lesson = write_lesson(tmp_path / "lessons", "03_pod", file="pod.yaml", check=check)
    assert judged(lesson, "---\na: 1\n---\n---\nb\n", "pod.yaml").mistakes == (
        "pod.yaml: The answer is not [{'a': 1}, 'b'].",
    )
    assert judged(lesson, "", "pod.yaml").mistakes == ("pod.yaml: The answer is not [].",)


def test_nothing_is_left_behind(running: Lesson) -> None:
    path, handlers = list(sys.path), list(logging.getLogger().handlers)
    depth, filters = sys.get_coroutine_origin_tracking_depth(), list(warnings.filters)
    judged(running, "import asyncio\n\nasync def main():\n    asyncio.sleep(1)\n    oh\n")
    assert sys.path == path
    assert logging.getLogger().handlers == handlers
    assert sys.get_coroutine_origin_tracking_depth() == depth
    assert list(warnings.filters) == filters
    assert asyncio.run(asyncio.sleep(0, "goes on")) == "goes on"
