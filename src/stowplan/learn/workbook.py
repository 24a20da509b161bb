"""The learner's directory: a folder a lesson with the file to complete.

Nothing that a learner wrote is ever overwritten: `start` leaves files alone that are there, and
`reset` puts the old one aside.
"""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stowplan.errors import ConfigError
from stowplan.learn.course import Lesson

DIRECTORY_NAME: Final = "stowplan-lessons"


@dataclass(frozen=True, slots=True)
class Started:
    """The learner's file, and whether `start` created it."""

    file: Path
    is_new: bool


class Workbook:
    """The learner's directory; the module's docstring explains it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def find(cls, asked: Path | None, here: Path) -> Workbook:
        """The directory asked for; or the one that we are in or that is beside or above us."""
        if asked is not None:
            return cls(asked)
        for folder in (here, *here.parents):
            if (folder / DIRECTORY_NAME).is_dir():
                return cls(folder / DIRECTORY_NAME)
        return cls(here / DIRECTORY_NAME)

    def file(self, lesson: Lesson) -> Path:
        return self.directory / lesson.key / lesson.file

    def has(self, lesson: Lesson) -> bool:
        return self.file(lesson).is_file()

    def start(self, lesson: Lesson) -> Started:
        """Copy the lesson's files that do not exist yet."""
        file = self.file(lesson)
        is_new = not file.exists()
        with _in_words(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
            for source in lesson.given():
                if not (file.parent / source.name).exists():
                    shutil.copyfile(source, file.parent / source.name)
            if is_new:
                shutil.copyfile(lesson.exercise, file)
        return Started(file, is_new)

    def reset(self, lesson: Lesson) -> Path | None:
        """Restore the exercise; return the new path of the learner's file, if there was one."""
        file = self.file(lesson)
        kept = None
        with _in_words(file):
            if file.exists():
                kept = next(each for each in _spare_names(file) if not each.exists())
                file.rename(kept)
        self.start(lesson)
        return kept

    def text(self, lesson: Lesson) -> str:
        file = self.file(lesson)
        with _in_words(file):
            return file.read_bytes().decode("utf-8", errors="replace")

    def lesson_of(self, here: Path, keys: Mapping[str, Lesson]) -> Lesson | None:
        """The lesson in whose folder we are."""
        directory = self.directory.resolve()
        for folder in (here, *here.parents):
            if folder.parent == directory:
                return keys.get(folder.name)
        return None


def diff(old: Mapping[str, str], new: Mapping[str, str], old_name: str, new_name: str) -> list[str]:
    """A unified diff of files by name, without line ends; empty: they are equal."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        lines += difflib.unified_diff(
            [] if before is None else before.splitlines(),
            [] if after is None else after.splitlines(),
            "/dev/null" if before is None else f"{old_name}/{name}",
            "/dev/null" if after is None else f"{new_name}/{name}",
            lineterm="",
        )
    return lines


def _spare_names(file: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield file.with_name(f"{file.name}.{number}")
        number += 1


@contextmanager
def _in_words(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(error.strerror or str(error), where=str(error.filename or path)) from None
