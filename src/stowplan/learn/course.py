"""The lessons there are: found on disk, in the order of their numbers.

A lesson is data (see the package); this module knows where its parts are and what a learner may
call it: `3`, `bind`, or `workshop/3`, the third lesson of a track.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.learn.texts import ENGLISH, is_complete, page_of
from stowplan.loader.files import read_file
from stowplan.loader.yaml_text import load_yaml

LESSONS: Final = Path(__file__).parent / "lessons"
TRACKS: Final = ("workshop", "tutorial", "framework")
_FOLDER_NAME: Final = re.compile(r"(?P<number>\d\d)_(?P<name>[a-z][a-z_]*)")
_DEFAULT_LIMIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Lesson:
    """One folder of `lessons`."""

    folder: Path
    number: int
    name: str
    track: str
    #: The number within its track, from 1.
    step: int
    #: What the learner's copy of the exercise is called.
    file: str
    time_limit_s: float

    @property
    def key(self) -> str:
        """`03_bind`: the folder's name, here and in the learner's directory."""
        return self.folder.name

    @property
    def exercise(self) -> Path:
        return self.folder / f"exercise{Path(self.file).suffix}"

    @property
    def solution(self) -> Path:
        return self.folder / f"solution{Path(self.file).suffix}"

    def given(self) -> list[Path]:
        """Files that the learner gets besides the exercise."""
        folder = self.folder / "given"
        # Not __pycache__, which an installer makes beside a program.
        return sorted(path for path in folder.glob("*") if path.is_file())

    def solved(self) -> dict[str, str]:
        """All files of the learner's once the lesson is solved, by name."""
        paths = {path.name: path for path in self.given()} | {self.file: self.solution}
        return {name: path.read_text(encoding="utf-8") for name, path in sorted(paths.items())}

    def page(self, language: str) -> str:
        return page_of(self.folder, "lesson", language)

    def hint(self, language: str) -> str:
        return page_of(self.folder, "hint", language)

    def title(self, language: str) -> str:
        return self.page(language).partition("\n")[0].removeprefix("#").strip()


class Course:
    """All lessons."""

    def __init__(self, folder: Path = LESSONS) -> None:
        self.lessons = tuple(_find(folder))

    def languages(self) -> set[str]:
        """The languages into which every page, hint and message is translated."""
        begun = {
            path.name.split(".")[1]
            for lesson in self.lessons
            for path in lesson.folder.glob("lesson.*.md")
        }
        folders = [each.folder for each in self.lessons]
        return {ENGLISH} | {each for each in begun if is_complete(each, folders)}

    def find(self, asked: str) -> Lesson:
        """The lesson of that number, name, folder's name or track/step."""
        word = asked.lower()
        for lesson in self.lessons:
            steps = {str(lesson.step), f"{lesson.step:02}"}
            names = {str(lesson.number), f"{lesson.number:02}", lesson.name, lesson.key}
            if word in names | {f"{lesson.track}/{step}" for step in steps}:
                return lesson
        numbers = [lesson.number for lesson in self.lessons]
        raise ConfigError(
            f"there is no lesson {asked!r}: give a number from {min(numbers)} to {max(numbers)}, "
            f"a name such as {self.lessons[0].name}, or a step of a track such as "
            f"{self.lessons[0].track}/1"
        )


def _find(folder: Path) -> Iterator[Lesson]:
    steps: dict[str, int] = {}
    for each in sorted(folder.iterdir()):
        match = _FOLDER_NAME.fullmatch(each.name)
        if match is None or not (each / "lesson.yaml").is_file():
            continue
        about: dict[str, Any] = load_yaml(read_file(each / "lesson.yaml"))
        track = about["track"]
        steps[track] = steps.get(track, 0) + 1
        yield Lesson(
            folder=each,
            number=int(match["number"]),
            name=match["name"],
            track=track,
            step=steps[track],
            file=about["file"],
            time_limit_s=float(about.get("time_limit_s", _DEFAULT_LIMIT_S)),
        )
