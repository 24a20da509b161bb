"""Plausible wrong answers to the lessons, each written as edits of the lesson's solution.

`lessons_wrong/NN_name.yaml` has those of one lesson:

    never_awaits:
      why: calls bind and does not await it
      words: [without await, bind]      each must be in the message (case does not matter)
      in_child: true                    optional, for an answer that hangs: checked in a process of
                                        its own, with a time limit, as `learn check` does
      edits:
      - old: await api.bind(pod)        whole lines of the solution, without their indentation
        new: api.bind(pod)              the lines that replace them; empty to delete them

An edit must match exactly one place, so that a change of a solution cannot turn a wrong answer
into another one unnoticed.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import msgspec

from stowplan.learn.course import Lesson

FOLDER = Path(__file__).parent / "lessons_wrong"


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    old: str
    new: str

    def apply(self, text: str) -> str:
        old, new = self.old.splitlines(), self.new.splitlines()
        lines = text.split("\n")
        places = [
            at for at in range(len(lines)) if _indented(old, lines[at]) == lines[at:][: len(old)]
        ]
        if len(places) != 1:
            raise ValueError(f"the edit must match one place, not {len(places)}: {self.old!r}")
        at = places[0]
        return "\n".join([*lines[:at], *_indented(new, lines[at]), *lines[at + len(old) :]])


def _indented(lines: list[str], like: str) -> list[str]:
    """The lines with the indentation of another one before each that is not empty."""
    indentation = like[: len(like) - len(like.lstrip())]
    return [textwrap.indent(line, indentation) for line in lines]


class WrongAnswer(msgspec.Struct, forbid_unknown_fields=True):
    why: str
    words: list[str]
    edits: list[Edit]
    in_child: bool = False

    def text(self, lesson: Lesson) -> str:
        """The solution of its lesson, with the edits applied in their order."""
        text = lesson.solution.read_text(encoding="utf-8")
        for edit in self.edits:
            text = edit.apply(text)
        return text


def wrong_answers(lesson: Lesson) -> dict[str, WrongAnswer]:
    """Those of a lesson, by name."""
    text = (FOLDER / f"{lesson.key}.yaml").read_text(encoding="utf-8")
    return msgspec.yaml.decode(text, type=dict[str, WrongAnswer])
