"""Man pages and completion scripts of the wheel: up to date, complete, and without warnings."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from stowplan.cli.flags_table import FLAGS
from stowplan.cli.main import COMMANDS
from tests.missing_part import skip_or_fail
from tools.man_pages import FOLDER, files

MAN = FOLDER / "man"
PAGES = sorted((MAN / "man1").iterdir())


def test_all_files_are_up_to_date() -> None:
    kept = {path: path.read_text() for path in FOLDER.rglob("*") if path.is_file()}
    assert kept == files(), "run `make docs` and commit data/share"


def test_every_command_and_program_has_a_page() -> None:
    commands = {f"stowplan-{name}" for name in COMMANDS}
    programs = {"stowplan", "kube-scheduler", "static-scheduler"}
    assert {page.stem for page in PAGES} == commands | programs


def rendered(page: Path) -> str:
    done = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=100", page.relative_to(MAN)],
        cwd=MAN, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return re.sub(".\b", "", done.stdout)


def require_mandoc() -> None:
    if shutil.which("mandoc") is None:
        message = "man pages were not checked: apt install mandoc"
        skip_or_fail(message)


def test_mandoc_has_nothing_to_complain_about() -> None:
    require_mandoc()
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *(page.relative_to(MAN) for page in PAGES)],
        cwd=MAN, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    # A date would make a page differ between builds; .so is how two names share a page.
    accepted = ("missing date", ".so is fragile")
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if not any(text in line for text in accepted)] == []


def test_a_page_shows_what_help_shows() -> None:
    require_mandoc()
    shown = rendered(MAN / "man1" / "kube-scheduler.1")
    assert [name for name in FLAGS if f"--{name}" not in shown] == []
    assert "SECURE SERVING FLAGS" in shown
    assert "\n       kube-scheduler [flags]\n" in shown
    config = rendered(MAN / "man1" / "stowplan-config.1")
    assert "stowplan config migrate [OPTIONS] FILE" in config
    assert "-o, --output [json|yaml]" in config
    assert "  stowplan completion bash > ~/.local/share/bash-completion/completions/stowplan\n" in (
        rendered(MAN / "man1" / "stowplan-completion.1")
    ), "lines of a block stay apart"
