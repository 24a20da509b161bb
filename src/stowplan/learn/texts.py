"""Texts by language: pages and messages are data files, `NAME.LANGUAGE.EXT`.

A translation adds files, no code. It is offered once it has every text that English has, so that
no learner meets a mixture of two languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from stowplan.errors import ConfigError
from stowplan.loader.files import read_file
from stowplan.loader.yaml_text import load_yaml

ENGLISH: Final = "en"
_FOLDER: Final = Path(__file__).parent / "texts"
_VARIABLES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")


class Texts:
    """Messages of one language: the frame's own, and a lesson's where one is given."""

    def __init__(self, language: str, folder: Path | None = None) -> None:
        self.language = language
        folders = [_FOLDER] if folder is None else [_FOLDER, folder]
        self._texts: dict[str, str] = {}
        for place in folders:
            self._texts.update(_messages(place, language))

    def __call__(self, key: str, /, **fields: object) -> str:
        try:
            return self._texts[key].format_map(fields)
        except KeyError as error:
            raise KeyError(f"message {key!r} is not there, or wants the field {error}") from None


def is_complete(language: str, lessons: Iterable[Path]) -> bool:
    """True if a language has every page, hint and message of the lessons and of the frame."""
    lessons = list(lessons)
    pages = [folder / f"{name}.{language}.md" for folder in lessons for name in ("lesson", "hint")]
    return all(path.is_file() for path in pages) and all(
        _messages(folder, language).keys() >= _messages(folder, ENGLISH).keys()
        for folder in (_FOLDER, *lessons)
    )


def _messages(folder: Path, language: str) -> Mapping[str, str]:
    name = "frame" if folder == _FOLDER else "messages"
    return _read(folder / f"{name}.{language}.yaml")


@cache
def _read(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return {}
    read: Any = load_yaml(read_file(path)) or {}
    return {str(key): str(value) for key, value in read.items()}


def page_of(folder: Path, name: str, language: str) -> str:
    return (folder / f"{name}.{language}.md").read_text(encoding="utf-8")


def chosen_language(asked: str | None, available: Iterable[str], environ: Mapping[str, str]) -> str:
    """The language that was asked for, else the environment's if there is a translation."""
    known = set(available)
    if asked:
        if asked not in known:
            raise ConfigError(
                f"the lessons are not translated into {asked!r}; there is "
                f"{', '.join(sorted(known))}",
                where="--lang",
            )
        return asked
    wished = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    code = wished.partition(".")[0].partition("_")[0]
    return code if code in known else ENGLISH
