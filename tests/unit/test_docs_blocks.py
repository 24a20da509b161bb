"""Every command block of README, docs and examples runs in a test or says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_blocks import KEYS, REPOSITORY, Block, blocks, pages, read_blocks

PAGES = pages()


def problems(block: Block) -> list[str]:
    """What is wrong with a block, in words."""
    found = []
    if block.looks_like_commands:
        found.append("has commands: mark it `sh`, or `console` if it shows output")
    if not block.is_command:
        return found
    found += [f"<!-- {key}: --> is unknown" for key, _ in block.comments if key not in KEYS]
    if (reason := block.get("not run")) and len(reason.split()) < 3:
        found.append("the reason why it is not run is too short")
    for name in block.all("run by"):
        test = REPOSITORY / name
        if not test.is_file():
            found.append(f"run by {name}, which is not there")
        elif Path(block.page).name not in test.read_text() and block.page not in test.read_text():
            found.append(f"run by {name}, which does not name the page")
    if block.language == "console" and not block.text.startswith("$ "):
        found.append("a console block begins with a command after `$ `")
    return found


def test_the_pages_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/decide.md", "examples/hello/README.md"} <= {
        *PAGES
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_command_block_is_run_or_says_why_not(page: str) -> None:
    found = [f"{block}: {problem}" for block in blocks(page) for problem in problems(block)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```\nstowplan pins\n```\n", "has commands"),
        ("```text\n$ stowplan pins\n```\n", "has commands"),
        ("```\nPYTHONPATH=x stowplan pins\n```\n", "has commands"),
        ("<!-- not run: no -->\n```sh\nstowplan pins\n```\n", "too short"),
        ("<!-- not runn: needs a cluster -->\n```sh\nstowplan pins\n```\n", "is unknown"),
        ("<!-- run by: tests/nowhere.py -->\n```sh\nmake test\n```\n", "is not there"),
        ("<!-- run by: tests/waiting.py -->\n```sh\nmake test\n```\n", "does not name the page"),
        ("```console\nPOD\n```\n", "begins with a command"),
    ],
)
def test_what_is_wrong_with_a_block(text: str, problem: str) -> None:
    (block,) = read_blocks("docs/page.md", text)
    assert any(problem in each for each in problems(block))


def test_comments_belong_to_the_block_right_below() -> None:
    first, second = read_blocks(
        "page.md",
        "<!-- shows: a -->\n<!-- shows: b -->\n```sh\none\n```\n"
        "<!-- not run: needs a robot -->\n\n  ```sh\n  two\n  ```\n",
    )
    assert (first.all("shows"), first.is_run, first.text) == (["a", "b"], True, "one\n")
    assert (second.comments, second.is_run, second.text) == ([], True, "two\n")


def test_the_steps_of_a_console_block() -> None:
    (block,) = read_blocks("page.md", "```console\n$ one \\\n> two\nout\n$ three\n```\n")
    assert block.steps() == [("one \\\ntwo", ["out"]), ("three", [])]
