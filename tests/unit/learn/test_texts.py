"""Words by language."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
import yaml

from stowplan.errors import ConfigError
from stowplan.learn.course import LESSONS, Course
from stowplan.learn.texts import Texts, chosen_language

FRAME = LESSONS.parent / "texts"


def test_a_lessons_messages_come_beside_the_frames(tmp_path: Path) -> None:
    (tmp_path / "messages.en.yaml").write_text("wrong: Not {found}.\n")
    say = Texts("en", tmp_path)
    assert say("wrong", found=1) == "Not 1."
    assert say("place", file="a.py", line=3) == "a.py, line 3"


def test_a_missing_message_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no_such"):
        Texts("en", tmp_path)("no_such")
    with pytest.raises(KeyError, match=r"place.*file"):
        Texts("en", tmp_path)("place")


def test_fields_are_not_read_as_more_of_the_message(tmp_path: Path) -> None:
    (tmp_path / "messages.en.yaml").write_text("wrong: Not {found}.\n")
    assert Texts("en", tmp_path)("wrong", found="{line}") == "Not {line}."


@pytest.mark.parametrize(
    ("asked", "environ", "language"),
    [
        (None, {}, "en"),
        (None, {"LANG": "ja_JP.UTF-8"}, "ja"),
        (None, {"LANG": "ja_JP.UTF-8", "LC_ALL": "C"}, "en"),
        (None, {"LC_MESSAGES": "ja", "LANG": "en_US"}, "ja"),
        (None, {"LANG": "de_DE.UTF-8"}, "en"),
        ("ja", {"LANG": "en_US"}, "ja"),
        ("en", {"LANG": "ja_JP"}, "en"),
    ],
)
def test_the_language_is_chosen(asked: str | None, environ: dict[str, str], language: str) -> None:
    assert chosen_language(asked, {"en", "ja"}, environ) == language


def test_an_unknown_language_is_told_which_there_are() -> None:
    with pytest.raises(ConfigError, match=r"--lang: .* into 'tlh'; there is en, ja"):
        chosen_language("tlh", {"ja", "en"}, {})


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_message_can_be_filled_in_and_translations_have_the_same_fields() -> None:
    folders = [FRAME, *(lesson.folder for lesson in Course().lessons)]
    for folder in folders:
        for path in [*folder.glob("messages.*.yaml"), *folder.glob("frame.*.yaml")]:
            texts = yaml.safe_load(path.read_text())
            english = yaml.safe_load((folder / re.sub(r"\..*\.", ".en.", path.name)).read_text())
            assert texts.keys() <= english.keys(), path
            for key, text in texts.items():
                assert _fields(text) == _fields(english[key]), (path, key)
