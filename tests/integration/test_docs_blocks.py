"""The command blocks of README, docs and examples, run page by page; see tests/docs_blocks.py."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stowplan.apiserver.kubelet import KubeletOptions
from tests.docs_blocks import REPOSITORY, Block, blocks, pages
from tests.embedded_fixtures import running_embedded_server
from tests.waiting import wait_for

PATIENCE_S = 60.0
PAGES = [page for page in pages() if any(block.is_run for block in blocks(page))]
#: Variables that a terminal of a user does not have.
OF_THE_TESTS = re.compile(r"COV_|COVERAGE|PYTEST|PYTHON|STOWPLAN|KUBE|SCHED_|E2E|EXAMPLES_SHARE")


class Shell:
    """A terminal in which the blocks of one page are typed."""

    def __init__(self, folder: Path, kubeconfig: Path, stack: ExitStack) -> None:
        self._folder = folder / "page"
        self._state = folder / "state.sh"
        self._logs = folder
        self._stack = stack
        self._folder.mkdir()
        for path in REPOSITORY.iterdir():
            if path.name not in (".git", "dist", "build", "bench-results"):
                (self._folder / path.name).symlink_to(path)
        programs = folder / "bin"
        programs.mkdir()
        if kubectl := _kubectl():
            (programs / "kubectl").symlink_to(kubectl)
        kept = {name: text for name, text in os.environ.items() if not OF_THE_TESTS.match(name)}
        self._environment = kept | {
            "PATH": os.pathsep.join(
                [str(programs), str(Path(sys.executable).parent), kept["PATH"]]
            ),
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            # Of programs whose port the page does not name.
            "STOWPLAN_PORT": "0",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, block: Block) -> None:
        for command in block.all("first"):
            self._once(block, command, 0)
        if text := block.get("run until"):
            self._start(block, text)
        elif block.language == "console":
            for command, expected in block.steps():
                shown = self._once(block, command, None)
                assert matches(shown.splitlines(), expected), f"{block}: $ {command}\n{shown}"
        else:
            shown = self._once(block, block.text, int(block.get("exit code") or 0))
            for text in block.all("shows"):
                assert text in shown, f"{block}: does not show {text!r}:\n{shown}"

    def _once(self, block: Block, commands: str, code: int | None) -> str:
        log = self._logs / f"{block.line}.log"
        with log.open("w") as stream:
            process = self._popen(commands, stream.fileno())
            ended = process.wait(PATIENCE_S)
        shown = log.read_text()
        assert code in (None, ended), f"{block}: exit code {ended}\n{commands}\n{shown}"
        assert "Traceback" not in shown, f"{block}:\n{shown}"
        return shown

    def _start(self, block: Block, text: str) -> None:
        log = self._logs / f"{block.line}.log"
        with log.open("w") as stream:
            process = self._popen(block.text, stream.fileno())

        def is_shown() -> bool:
            assert process.poll() is None, f"{block} has ended:\n{log.read_text()}"
            return text in log.read_text()

        wait_for(f"{block} to show {text!r}", is_shown, PATIENCE_S)
        self._stack.callback(self._interrupt, block, process, log)

    def _interrupt(self, block: Block, process: subprocess.Popen[bytes], log: Path) -> None:
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE_S) in (0, 130), f"{block}:\n{log.read_text()}"
        assert "Traceback" not in log.read_text(), f"{block}:\n{log.read_text()}"

    def _popen(self, commands: str, stream: int) -> subprocess.Popen[bytes]:
        script = (
            f"[ -f {self._state} ] && . {self._state}\n"
            f'trap \'{{ export -p; echo "cd \\"$PWD\\""; }} > {self._state}\' EXIT\n'
            f"set -e -o pipefail\n{commands}"
        )
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        return process


def _kubectl() -> str | None:
    from stowplan.lab.controlplane import BinaryMissing, find_binary

    try:
        return str(find_binary("kubectl"))
    except BinaryMissing:
        return shutil.which("kubectl")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what a block left in the background, too."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def matches(shown: list[str], expected: list[str]) -> bool:
    """Whether the output is the page's; `...` stands for any lines, or for the rest of one."""
    if not expected:
        return True
    first, *rest = expected
    if first.strip() == "...":
        return any(matches(shown[at:], rest) for at in range(len(shown) + 1)) if rest else True
    if not shown or not _is_line(shown[0], first):
        return False
    return matches(shown[1:], rest) if rest else len(shown) == 1


def _is_line(shown: str, expected: str) -> bool:
    """Times, ages and the padding of columns may differ."""
    beginning, dots, _ = expected.partition("...")
    if dots:
        return _plain(shown).startswith(_plain(beginning).rstrip())
    return _plain(shown) == _plain(expected)


def _plain(line: str) -> str:
    line = re.sub(r"\b\d+\.\d+ s\b", "SOME s", line)
    line = re.sub(r"^ +\d+\.\d{3}  ", "AT  ", line)
    line = re.sub(r"(?<= )(\d+[dhms])+(?= |$)", "AGE", line)
    line = re.sub(r"(?<= )\d+\.\d+(\.\d+){2}(?= )", "IP", line)
    return re.sub(r" +", " ", line).rstrip()


@contextmanager
def shell(folder: Path) -> Iterator[Shell]:
    quick = KubeletOptions(start_delay_s=0.05, stop_delay_s=0.05)
    with running_embedded_server(folder, kubelet=quick) as server, ExitStack() as stack:
        yield Shell(folder, server.kubeconfig_path, stack)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    chosen = [block for block in blocks(page) if block.is_run]
    if any("kubectl" in block.text + block.get("first") for block in chosen) and not _kubectl():
        pytest.skip("there is no kubectl: `make controlplane` builds it")
    with shell(tmp_path) as terminal:
        for block in chosen:
            terminal.run(block)


@pytest.mark.parametrize(
    ("shown", "expected", "is_match"),
    [
        ("a\nb", "a\nb", True),
        ("a\nb", "a", False),
        ("a", "a\nb", False),
        ("a\nb\nc\nd", "a\n...\nd", True),
        ("a\nb\nc", "a\n...", True),
        ("a\nb\nc", "a\n...\nd", False),
        ("pod   unschedulable: 0/9 nodes", "pod unschedulable: ...", True),
        ("     0.012  step 1", "     0.000  step 1", True),
        ("     0.012  step 2", "     0.000  step 1", False),
        ("40 pods in 0.7 s", "40 pods in 0.5 s", True),
        ("41 pods in 0.5 s", "40 pods in 0.5 s", False),
    ],
)
def test_what_may_differ_from_the_page(shown: str, expected: str, is_match: bool) -> None:
    assert matches(shown.splitlines(), expected.splitlines()) is is_match


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("false", "exit code 1"),
        ("python -c 1/0 || true", "Traceback"),
        ("echo 3 of 3", "does not show '4 of 4'"),
    ],
)
def test_a_block_that_fails_is_named(text: str, problem: str, tmp_path: Path) -> None:
    block = Block("page.md", 7, "sh", text, [("shows", "4 of 4")])
    with shell(tmp_path) as terminal, pytest.raises(AssertionError, match=r"page\.md:7") as failed:
        terminal.run(block)
    assert problem in str(failed.value)


def test_the_folder_and_variables_carry_over(tmp_path: Path) -> None:
    with shell(tmp_path) as terminal:
        terminal.run(Block("page.md", 1, "sh", "mkdir new\ncd new\nexport NEW='a b'\n"))
        shows = [("shows", "new:a b")]
        terminal.run(Block("page.md", 2, "sh", 'echo "$(basename "$PWD"):$NEW"', shows))


def test_a_program_that_does_not_end_is_interrupted(tmp_path: Path) -> None:
    until = [("run until", "is ready")]
    quiet, loud, ended = (tmp_path / name for name in ("quiet", "loud", "ended"))
    for folder in (quiet, loud, ended):
        folder.mkdir()
    with shell(quiet) as terminal:
        waits = "trap 'exit 130' INT; echo is ready; sleep 60"
        terminal.run(Block("page.md", 1, "sh", waits, until))
    waits = "echo is ready; exec sleep 60"  # the signal itself ends it
    with pytest.raises(AssertionError, match=r"page\.md:2"), shell(loud) as terminal:
        terminal.run(Block("page.md", 2, "sh", waits, until))
    with pytest.raises(AssertionError, match="has ended"), shell(ended) as terminal:
        terminal.run(Block("page.md", 3, "sh", "true", until))
