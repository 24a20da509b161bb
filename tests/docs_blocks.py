"""The command blocks of README, docs and examples, and how the tests run them.

A command block is a fenced block marked `sh` (commands) or `console` (commands after `$ `, and what
they print). The blocks of a page run in order, in one folder with the files of the checkout, on one
embedded cluster; variables and the working folder carry over. HTML comments right above a block,
which readers do not see, say what the tests must know:

    <!-- not run: needs Docker -->          the reason why no test runs it
    <!-- run by: tests/e2e/test_x.py -->    another test runs it; that file must name the page
    <!-- run until: is ready -->            a program that does not end: wait for this text, go on,
                                            press Ctrl-C at the end of the page
    <!-- shows: 3 of 3 pods -->             text that must be in the output; may be repeated
    <!-- exit code: 1 -->                   the exit code, if it must not be 0
    <!-- first: touch config.yaml -->       a command to run before, for what the page assumes

A block without a comment is run and must end with exit code 0, so a new one cannot be forgotten.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)$")
_COMMENT = re.compile(r"^ *<!-- (?P<key>[a-z ]+): (?P<value>.+) -->$")
_PROGRAMS = "stowplan|make|kubectl|python3?|pip|pytest|curl|docker|podman|buildah|helm|\\.venv/\\S+"
_COMMAND = re.compile(rf"^ *(\$ \S|(\w+=\S+ )*({_PROGRAMS}) \S)", re.MULTILINE)
KEYS = ("not run", "run by", "run until", "shows", "exit code", "first")


@dataclass
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    comments: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.comments if name == key]

    def get(self, key: str) -> str:
        return next(iter(self.all(key)), "")

    @property
    def is_command(self) -> bool:
        return self.language in ("sh", "console")

    @property
    def looks_like_commands(self) -> bool:
        """Whether a block without a language, or of plain text, is full of commands."""
        return self.language in ("", "text", "bash", "shell") and bool(_COMMAND.search(self.text))

    @property
    def is_run(self) -> bool:
        return self.is_command and not self.get("not run") and not self.get("run by")

    def steps(self) -> list[tuple[str, list[str]]]:
        """The commands of a `console` block, each with the lines that it prints."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.startswith("> ") and not found[-1][1]:
                found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
            else:
                found[-1][1].append(line)
        return found


def pages() -> list[str]:
    """The Markdown files of the checkout that people read.

    Not the lessons': tests/integration/test_lessons.py knows what a learner has done before each.
    """
    files = [*REPOSITORY.glob("*.md")]
    for folder in ("docs", "examples", "deploy"):
        files += (REPOSITORY / folder).rglob("*.md")
    return sorted(str(path.relative_to(REPOSITORY)) for path in files)


def blocks(page: str) -> list[Block]:
    return read_blocks(page, (REPOSITORY / page).read_text(encoding="utf-8"))


def read_blocks(page: str, text: str) -> list[Block]:
    found: list[Block] = []
    comments: list[tuple[str, str]] = []
    block: Block | None = None
    indent = ""
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if block is not None:
            if fence and not fence["language"] and fence["indent"] == indent:
                found.append(block)
                block = None
            else:
                block.text += line.removeprefix(indent) + "\n"
        elif fence:
            indent = fence["indent"]
            block = Block(page, number, fence["language"].strip(), "", comments)
            comments = []
        elif comment := _COMMENT.match(line):
            comments.append((comment["key"], comment["value"]))
        else:
            comments = []
    return found
