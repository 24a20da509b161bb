"""Check a learner's work: load the file, run the lesson's check, and put the result into words.

It runs in this process; `child` runs it in a process of its own, for files that may hang. Every
error of the learner's file becomes a message with a line of that file; errors of ours, or of the
target, are raised.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from stowplan.learn.checking import FAULTS, Mistake, Note
from stowplan.learn.course import Lesson
from stowplan.learn.faults import LearnerErrors, shown
from stowplan.learn.texts import Texts
from stowplan.loader.files import read_file
from stowplan.loader.malformed import Malformed, text_of
from stowplan.loader.yaml_text import load_yaml_all


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check; without mistakes the lesson is passed."""

    mistakes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_passed(self) -> bool:
        return not self.mistakes


class Unreadable(Exception):
    """The file is no Python or no YAML; the text says where and what."""


def check_work(lesson: Lesson, file: Path, *, on: str, language: str) -> CheckResult:
    """Run the check of a lesson on a learner's file."""
    file = file.resolve()
    texts = Texts(language, lesson.folder)
    faults = LearnerErrors(file, texts)
    mistakes: list[str] = []
    notes: list[str] = []
    token = FAULTS.set(faults)
    try:
        with faults.listening():
            try:
                work = load(file, f"lesson_{lesson.key}", texts)
                found = _check_of(lesson)(work, on) or ()
                notes += [texts(note.key, **note.fields) for note in found]
            except Unreadable as error:
                mistakes.append(str(error))
            except Mistake as mistake:
                mistakes.append(_in_words(mistake, file, faults, texts))
            except (Exception, SystemExit) as error:
                if not faults.is_to_blame(error):
                    raise
                faults.add(error)
    finally:
        FAULTS.reset(token)
    return CheckResult((*faults.told, *mistakes), tuple(notes))


def load(file: Path, name: str, texts: Texts) -> ModuleType | list[Any]:
    """The learner's module, or the documents of their YAML file."""
    return _load_module(file, name, texts) if file.suffix == ".py" else _load_yaml(file, texts)


def _load_module(file: Path, name: str, texts: Texts) -> ModuleType:
    try:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Unreadable(_broken(file, texts, error)) from None
    except ValueError as error:  # null bytes, where Python does not call that a syntax error
        raise Unreadable(f"{shown(file)}: {error}") from None
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module  # dataclasses look there
    sys.path.append(str(file.parent))  # last, so that nothing of Python's is hidden
    try:
        exec(code, module.__dict__)  # noqa: S102 - to run it is what the learner asks for
    finally:
        sys.path.remove(str(file.parent))
    return module


def _broken(file: Path, texts: Texts, error: SyntaxError) -> str:
    place = texts("place", file=shown(file), line=error.lineno or 1)
    text = f"{place}: {error.msg}"
    line = (error.text or "").rstrip()
    if not line.strip():
        return text
    column = max(0, (error.offset or 1) - 1 - (len(line) - len(line.lstrip())))
    return f"{text}\n    {line.lstrip()}\n    {' ' * column}^"


def _load_yaml(file: Path, texts: Texts) -> list[Any]:
    try:
        content = text_of(read_file(file))
    except Malformed as error:
        raise Unreadable(f"{shown(file)}: {error}") from None
    try:
        return load_yaml_all(content)
    except Malformed as error:
        line = max(error.line, 1)
        lines = content.splitlines()
        quoted = f"\n    {lines[line - 1].strip()}" if line <= len(lines) else ""
        place = texts("place", file=shown(file), line=line)
        raise Unreadable(f"{place}: {error.reason}{quoted}") from None


def _check_of(lesson: Lesson) -> Callable[[Any, str], Iterable[Note] | None]:
    path = lesson.folder / "check.py"
    spec = importlib.util.spec_from_file_location(f"check_of_{lesson.key}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check: Callable[[Any, str], Iterable[Note] | None] = module.check
    return check


def _in_words(mistake: Mistake, file: Path, faults: LearnerErrors, texts: Texts) -> str:
    text = texts(mistake.key, **mistake.fields)
    at = inspect.unwrap(mistake.at) if callable(mistake.at) else None
    if at is None:
        return f"{shown(file)}: {text}"
    try:
        is_theirs = inspect.getsourcefile(at) == str(file)
        _, line = inspect.getsourcelines(at)
    except (TypeError, OSError):
        is_theirs, line = False, 0
    name = getattr(at, "__name__", "")
    return f"{faults.place(line, name)}: {text}" if is_theirs else f"{shown(file)}: {text}"
