"""`stowplan demo` as its user meets it: on a (pseudo-)terminal, in a pipe, and as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyte
import pytest

PATIENCE_S = 60.0
#: Python's warnings (unclosed sockets, coroutines never awaited) would show up on stderr.
COMMAND = [
    sys.executable,
    "-W",
    "default",
    "-m",
    "stowplan",
    "demo",
]
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


def environment(**more: str) -> dict[str, str]:
    # The colors and the size of the terminal that runs the tests are not ours.
    unwanted = {"NO_COLOR", "COLUMNS", "LINES"}
    kept = {k: v for k, v in os.environ.items() if k not in unwanted and "STOWPLAN" not in k}
    return {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **more}


def run_demo(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *argv], capture_output=True, text=True, env=environment(), timeout=PATIENCE_S
    )


class OnTerminal:
    """The demo on a pseudo-terminal, and what its user sees there."""

    def __init__(self, *argv: str, columns: int = 80, rows: int = 24, **env: str) -> None:
        self.raw = b""
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = pty.openpty()
        self._set_size(columns, rows)
        self.process = subprocess.Popen(
            [*COMMAND, *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**env),
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.screen.display)

    def hides_cursor(self) -> bool:
        return bool(self.screen.cursor.hidden)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self._set_size(columns, rows)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Let the demo draw until something is to be seen."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"not seen in time:\n{self.text}"
            assert self._pump(), f"the demo ended too early:\n{self.text}"

    def end(self, number: signal.Signals) -> int:
        """Send a signal and read what comes until the end; the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        deadline = time.monotonic() + PATIENCE_S
        while self._pump():
            assert time.monotonic() < deadline, f"did not end:\n{self.text}"
        return self.process.wait(PATIENCE_S)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _pump(self) -> bool:
        """Read what there is; False when the other side is closed."""
        if not select.select([self._ours], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # Linux's way to say that nobody has the terminal open any more
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


@pytest.fixture
def live() -> Iterator[OnTerminal]:
    with OnTerminal("--speed", "5", NO_COLOR="1") as demo:
        yield demo


def node_rows(text: str) -> list[str]:
    return re.findall(r"^ (node-[abc]\d+) ", text, re.MULTILINE)


def port_of(text: str) -> int:
    found = re.search(r"http://127\.0\.0\.1:(\d+)", text)
    assert found is not None, text
    return int(found.group(1))


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def children_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_the_live_table(live: OnTerminal) -> None:
    reason = "0/12 nodes are available: 1 node(s) were unschedulable, 3 node(s) had"
    live.until(lambda: "expected to stay pending" in live.text and reason in live.text)
    text = live.text
    assert " Stowplan demo" in text
    assert node_rows(text) == [f"node-{zone}{n}" for zone in "abc" for n in (1, 2, 3, 4)]
    assert "cordoned" in text
    assert "dedicated=batch" in text
    assert re.search(r"node-\S+ +zone-\S+ +█+░* +\d+% .*(web|api)-\d", text)
    assert "default/warehouse-1" in text
    assert "Ctrl-C ends" in live.screen.display[-1]
    assert live.hides_cursor()
    assert not re.search(rb"\x1b\[[0-9;]*m", live.raw)  # NO_COLOR
    assert is_listening(port_of(text))
    assert children_of(live.process.pid) == ""


def test_ctrl_c_leaves_nothing_behind(live: OnTerminal) -> None:
    live.until(lambda: bool(re.search(r"[1-9]\d* placed", live.text)))
    port = port_of(live.text)
    assert live.end(signal.SIGINT) == 0
    assert not live.hides_cursor()
    assert live.raw.count(ENTER) == live.raw.count(LEAVE) == 1
    # Back on the user's own screen: the final table, and nothing else.
    last = live.raw.partition(LEAVE)[2].decode()
    assert last.startswith("POD ")
    assert re.search(r"^default/web-1 +node-", last, re.MULTILINE)
    *_, counts, lessons = last.splitlines()
    assert re.fullmatch(r"\d+ pods? placed, \d+ finished, \d+ pending.*", counts)
    assert lessons.endswith(" learn")
    assert not is_listening(port)


def test_sigterm_ends_it_as_well(live: OnTerminal) -> None:
    live.until(lambda: "NODE" in live.text)
    assert live.end(signal.SIGTERM) == 0
    assert not live.hides_cursor()
    assert b"Traceback" not in live.raw


def test_ctrl_z_gives_the_screen_back_for_a_while(live: OnTerminal) -> None:
    live.until(lambda: "NODE" in live.text)
    live.process.send_signal(signal.SIGTSTP)
    live.until(lambda: LEAVE in live.raw)
    stat = Path(f"/proc/{live.process.pid}/stat")
    live.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert not live.hides_cursor()
    live.process.send_signal(signal.SIGCONT)
    live.until(lambda: live.raw.count(ENTER) == 2 and "node-c4" in live.text)
    assert live.hides_cursor()
    assert live.end(signal.SIGINT) == 0
    assert not live.hides_cursor()


def test_the_table_follows_the_size_of_the_terminal() -> None:
    with OnTerminal("--speed", "5", columns=120, rows=40) as demo:
        demo.until(lambda: " LATEST" in demo.text and "placed default/" in demo.text)
        assert b"\x1b[1m" in demo.raw  # in color this time
        demo.resize(60, 15)
        demo.until(lambda: "more nodes" in demo.text and "Ctrl-C" in demo.screen.display[-1])
        assert " Stowplan demo" in demo.screen.display[0]
        assert demo.end(signal.SIGINT) == 0


def test_once_on_a_terminal_ends_with_the_final_table() -> None:
    with OnTerminal("--once", "--speed", "20") as demo:
        assert demo.wait() == 0
        assert demo.raw.count(ENTER) == demo.raw.count(LEAVE) == 1
        assert b"pods placed" in demo.raw.partition(LEAVE)[2]
        assert not demo.hides_cursor()


def test_once_in_a_pipe(tmp_path: Path) -> None:
    done = run_demo("--once", "--speed", "20")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    happened, _, table = done.stdout.partition("\nPOD ")
    lines = happened.splitlines()
    assert re.fullmatch(r"API server on http://127\.0\.0\.1:\d+", lines[0])
    assert any(line.startswith("12 nodes in 3 zones; node-a4, ") for line in lines)
    placed = [line for line in lines if line.startswith("placed ")]
    where = r"placed default/\S+ on node-[abc]\d"
    why = r"score \d+, \d+ of 12 nodes fit|the only one of 12 nodes that fits"
    assert all(re.fullmatch(rf"{where} \(({why})\)", line) for line in placed)
    (huge,) = (line for line in lines if line.startswith("pending default/warehouse-1: 0/12 nodes"))
    assert huge.endswith("(expected to stay pending)")
    assert any(line.startswith("pending default/audit-1: Scheduling is blocked") for line in lines)
    gate = lines.index("opened the gate of default/audit-1")
    assert any(line.startswith("placed default/audit-1 on ") for line in lines[gate:])

    *rows, summary, lessons = table.splitlines()[1:]
    without_node = [row.split()[0] for row in rows if row.split()[1] == "<none>"]
    assert without_node == ["default/warehouse-1"]
    assert len(rows) == len(placed) + 1
    assert re.fullmatch(
        rf"{len(placed)} pods placed, \d+ finished, 1 pending, as expected", summary
    )
    # The last line is a command that works as it stands.
    learn = lessons.partition(": ")[2]
    nobody = f"{learn} --lessons-dir {tmp_path}"
    shown = subprocess.run(["sh", "-c", nobody], capture_output=True, text=True, check=True)
    # And so is the last line of what that prints.
    assert shown.stdout.splitlines()[-1] == f"Next: {learn} start 1"


def test_the_console_shows_the_demo() -> None:
    with subprocess.Popen(
        [*COMMAND, "--console=0"], stdout=subprocess.PIPE, text=True, env=environment()
    ) as demo:
        assert demo.stdout is not None
        try:
            lines = (line for line in demo.stdout if line.startswith("console on "))
            url = next(lines).removeprefix("console on ").strip()
            placed = next(line for line in demo.stdout if line.startswith("placed default/"))
            with urllib.request.urlopen(f"{url}api/cluster", timeout=30) as answer:
                assert len(json.load(answer)["names"]) == 12
            pod = placed.split()[1]
            with urllib.request.urlopen(f"{url}api/pods/{pod}", timeout=30) as answer:
                said = json.load(answer)
            assert said["explanation"]["pod"] == pod
            assert said["attempts"][0]["result"] in ("scheduled", "binding")
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()
        assert demo.wait(PATIENCE_S) == 0


def test_once_as_json() -> None:
    done = run_demo("--once", "--speed", "20", "--seed", "3", "-o", "json")
    assert done.returncode == 0
    assert "placed default/web-1 on " in done.stderr
    final: dict[str, Any] = json.loads(done.stdout)
    assert (final["seed"], final["missing"]) == (3, [])
    assert len(final["nodes"]) == 12
    pods = {pod["pod"]: pod for pod in final["pods"]}
    assert final["placed"] == len(pods) - 1
    assert pods["default/warehouse-1"]["node"] is None
    assert pods["default/warehouse-1"]["expectedToStayPending"]
    assert pods["default/warehouse-1"]["why"].startswith("0/12 nodes are available: ")
    names = {node["name"]: node for node in final["nodes"]}
    assert {pod["node"] for pod in pods.values()} - {None} <= set(names)
    assert all(
        node["milliCpu"]["requested"] <= node["milliCpu"]["allocatable"] for node in names.values()
    )


def test_once_fails_when_a_pod_stays_pending_that_should_not() -> None:
    done = run_demo("--once", "--speed", "50", "--nodes", "1")
    assert done.returncode == 1
    assert re.fullmatch(
        r"Error: \d+ pods stayed pending that should not: default/.* and \d+ more\n", done.stderr
    )
    assert "0/1 nodes are available: 1 Insufficient" in done.stdout


def test_once_that_is_interrupted_is_no_success() -> None:
    with subprocess.Popen(
        [*COMMAND, "--once"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while "placed" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest, complaints = process.stdout.read(), process.stderr.read()
        assert process.wait(PATIENCE_S) == 130
    assert complaints == ""
    assert re.search(r"^POD ", rest, re.MULTILINE)


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        [*COMMAND, "--speed", "20"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_S) == 141


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_demo("--once", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: --port: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another address or port\n"
    )
    assert done.stdout == ""
