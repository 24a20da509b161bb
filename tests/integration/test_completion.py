"""Completion in real shells: a line is typed on a terminal, then Tab, and the line is whole."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyte
import pytest

from tests.missing_part import skip_or_fail
from tests.waiting import wait_for

PROGRAMS = Path(sys.executable).parent
#: How each shell starts without the files of its user, and loads the script.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {script}"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source {script}"),
    "fish": (["fish", "--no-config", "--private", "-i"], "source {script}"),
}
#: What is typed before Tab, and the line after it.
LINES = [
    ("stowplan compl", "stowplan completion"),
    ("stowplan config migr", "stowplan config migrate"),
    ("stowplan run --leader-elect-lease-d", "--leader-elect-lease-duration"),
    ("stowplan run --log-format j", "--log-format json"),
    ("stowplan run --log-format=j", "--log-format=json"),
    ("stowplan kube-scheduler --tls-priv", "--tls-private-key-file"),
    ("stowplan kube-scheduler -v 2 --leader-elect=f", "--leader-elect=false"),
    ("stowplan kube-scheduler --feature-gates AllB", "--feature-gates AllBeta=true"),
    ("stowplan config check uniq", "stowplan config check unique-name.yaml"),
    ("stowplan pins --kubeconfig uniq", "stowplan pins --kubeconfig unique-name.yaml"),
]


def require(shell: str) -> None:
    if shutil.which(shell) is None:
        message = f"completion in {shell} was not tested: apt install {shell}"
        skip_or_fail(message)


def environment(home: Path) -> dict[str, str]:
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8"}


class Terminal:
    """A shell on a pseudo-terminal, and its screen."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._screen = pyte.Screen(120, 40)
        self._stream = pyte.ByteStream(self._screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command],  # fish wants a controlling terminal
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment(folder),
        )  # fmt: skip
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        def shown() -> bool:
            while select.select([self._ours], [], [], 0)[0]:
                self._stream.feed(os.read(self._ours, 65536))
            return text in "\n".join(self._screen.display)

        try:
            wait_for(text, shown)
        except AssertionError as waited:
            screen = "\n".join(line.rstrip() for line in self._screen.display).strip()
            raise AssertionError(f"{waited}\n{screen}") from None

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)


@contextmanager
def terminal(command: list[str], folder: Path) -> Iterator[Terminal]:
    made = Terminal(command, folder)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_commands_options_choices_and_files(shell: str, tmp_path: Path) -> None:
    require(shell)
    (tmp_path / "unique-name.yaml").touch()
    script = tmp_path / "script"
    script.write_bytes(
        subprocess.check_output([PROGRAMS / "stowplan", "completion", shell], timeout=60)
    )
    start, load = SHELLS[shell]
    with terminal(start, tmp_path) as shown:
        shown.type(load.format(script=shlex.quote(str(script))) + "; echo lo''aded\n")
        shown.wait_for("loaded")
        for typed, whole in LINES:
            shown.type(typed)
            shown.wait_for(typed)
            shown.type("\t")
            shown.wait_for(whole)
            shown.type("\x03clear; echo cle''ared\n")
            shown.wait_for("cleared")


def test_an_unknown_shell_is_refused_in_one_line() -> None:
    done = subprocess.run(
        [PROGRAMS / "stowplan", "completion", "tcsh"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr


def test_names_of_commands_are_completed_without_importing_the_commands() -> None:
    program = (
        "import sys\n"
        "from stowplan.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(sorted({'numpy', 'aiohttp', 'stowplan.cli.run'} & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60,
        env=os.environ | {"_STOWPLAN_COMPLETE": "bash_complete", "COMP_WORDS": "stowplan pi",
                          "COMP_CWORD": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,pin\nplain,pins\n[]\n", "")
