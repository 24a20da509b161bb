"""Small lessons for tests of the frame: the answer is 42."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stowplan.learn.course import Course, Lesson

CHECK = """
from stowplan.learn.checking import Mistake, Note


def check(work, on):
    if work.ANSWER != 42:
        raise Mistake("wrong", found=work.ANSWER)
    return [Note("on", on=on)]
"""


def write_lesson(
    folder: Path,
    key: str,
    *,
    track: str = "workshop",
    file: str = "scheduler.py",
    time_limit_s: float | None = None,
    exercise: str = "ANSWER = 0  # TODO\n",
    solution: str = "ANSWER = 42\n",
    check: str = CHECK,
    messages: str = "wrong: The answer is not {found}.\n'on': Checked on {on}.\n",
    given: Mapping[str, str] | None = None,
) -> Lesson:
    """One in a folder of lessons."""
    own = folder / key
    own.mkdir(parents=True)
    limit = "" if time_limit_s is None else f"time_limit_s: {time_limit_s}\n"
    suffix = Path(file).suffix
    name = key[3:]
    texts = {
        "lesson.yaml": f"track: {track}\nfile: {file}\n{limit}",
        "lesson.en.md": f"# {name.capitalize()}\n\nA page about {name}.\n",
        "hint.en.md": f"A hint about {name}.\n",
        "messages.en.yaml": messages,
        f"exercise{suffix}": exercise,
        f"solution{suffix}": solution,
        "check.py": check,
    }
    for part, text in texts.items():
        (own / part).write_text(text, encoding="utf-8")
    for part, text in (given or {}).items():
        (own / "given").mkdir(exist_ok=True)
        (own / "given" / part).write_text(text, encoding="utf-8")
    return Course(folder).find(key)
