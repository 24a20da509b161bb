"""docs/from-static-scheduler.md: every row that says so is run, in the page's order.

Once the right column as it stands, once the left one: the original's own commands, with only the
paths of its files replaced.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stowplan.lab.controlplane import find_binary
from stowplan.lab.controlplane.processes import free_port
from tests.e2e.static_stage import REPOSITORY, StaticProcess, StaticStage, static_stage, wait_for

pytestmark = pytest.mark.timeout(300)

PAGE = REPOSITORY / "docs" / "from-static-scheduler.md"
HEADING = ["Static Scheduler", "Stowplan", "run by a test"]
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - ")

# The commands of the original's README, in its order.
ORIGINALS = """\
kind create cluster --config example/kind.yaml
export KUBECONFIG="$(kind get kubeconfig-path --name="kind")"
kubectl apply -f example/statefulset.yaml
kubectl get pods
kubectl label node kind-worker rf.scheduler.test/web-0=whatever
python3 -m venv venv
. venv/bin/activate
pip install -r requirements.txt
./scheduler.py --name test
kubectl get pods
kubectl get pods -o wide
kubectl label node kind-worker rf.scheduler.test/web-1=whatever rf.scheduler.test/web-2=whatever
./scheduler.py --name test
kubectl get pods -o wide
./scheduler.py --name test --daemon -vv
kubectl label node kind-worker \
rf.scheduler.test/web-0- rf.scheduler.test/web-1- rf.scheduler.test/web-2-
kubectl label node kind-control-plane \
rf.scheduler.test/web-0=a rf.scheduler.test/web-1=a rf.scheduler.test/web-2=a
kubectl delete pod -l app=nginx
pip install pytest pytest-cov
pytest . -v --cov scheduler --cov-report term-missing
""".splitlines()


@dataclass
class Row:
    """One step: the original's command (or none), ours, and what is printed below the table."""

    original: str
    ours: str
    checked: str
    shown: list[str] = field(default_factory=list)


def read_rows(text: str, heading: list[str] = HEADING) -> list[Row]:
    rows: list[Row] = []
    in_table = in_block = is_output = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("```"):
            in_block = not in_block
            is_output = in_block and line == "```"  # one with a language is no output
        elif in_block:
            if is_output:
                rows[-1].shown.append(line)
        elif not line.startswith("|"):
            in_table = False
        elif cells == heading:
            in_table = True
        elif in_table and not set(line) <= set("|-"):
            original, ours, checked = cells
            rows.append(Row(original.strip("`"), ours.strip("`"), checked))
    return rows


ROWS = read_rows(PAGE.read_text())


def comparable(line: str) -> str:
    """Without ages, addresses, times and the space that pads columns."""
    line = LOG_LINE.sub("TIME - ", line)
    line = re.sub(r"(?<= )\d+\.\d+(\.\d+){2}(?= )", "IP", line)
    line = re.sub(r"(?<= )(\d+[dhms])+(?= |$)", "AGE", line)
    line = re.sub(r"(?<= )\d\.\d+e\+09$", "TIME", line)
    return re.sub(r" +", " ", line).strip()


def test_the_page_has_the_commands_of_the_original_in_their_order() -> None:
    left = iter(row.original for row in ROWS)
    missing = [command for command in ORIGINALS if command not in left]
    assert missing == []


def test_rows_are_run_or_say_why_not() -> None:
    reasons = {row.checked for row in ROWS}
    assert "yes" in reasons
    assert all(reason == "yes" or re.match(r"no: \w+", reason) for reason in reasons)
    left_out = {row.ours.split()[0] for row in ROWS if row.checked != "yes"}
    assert left_out == {"kind", "python3", ".", "pip", "make"}, "what needs the network, or Docker"
    assert [row for row in ROWS if not row.ours or (row.shown and row.checked != "yes")] == []


def test_what_may_differ_is_made_equal_and_nothing_else() -> None:
    assert comparable("web-1   1/1   Running   0   6m21s   10.244.1.2   n") == (
        "web-1 1/1 Running 0 AGE IP n"
    )
    assert comparable("web-1   0/1     Pending   0          0s") == "web-1 0/1 Pending 0 AGE"
    assert comparable('x{pod="web-0"} 1.5859144423931713e+09') == 'x{pod="web-0"} TIME'
    assert comparable("2020-04-03 13:29:47,153 - __main__ - INFO - 1s") == (
        "TIME - __main__ - INFO - AGE"
    )


class Walk:
    """Runs one column in a shell, as in the two windows of the page."""

    def __init__(self, stage: StaticStage, directory: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._directory = directory
        self._port = free_port()
        self._daemon: StaticProcess | None = None
        programs = directory / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(find_binary("kubectl"))
        path = [programs, Path(sys.executable).parent, os.environ["PATH"]]
        self._environment = stage.admin() | {
            "PATH": os.pathsep.join(map(str, path)),
            "HOME": str(directory),
            "SCHED_PROMETHEUS_PORT": str(self._port),
        }

    def run(self, command: str, shown: list[str]) -> None:
        command = command.replace("localhost:8000", f"127.0.0.1:{self._port}")
        if "--daemon" in command:
            self._start(command)
            return
        answer = self._fetch(command) if command.startswith("curl") else self._once(command)
        expected = [comparable(line) for line in shown]
        if not expected:
            return
        if LOG_LINE.match(shown[0]):
            wait_for(f"these lines: {shown}", lambda: self._has_logged(expected))
        elif command.startswith("curl"):
            page = list(map(comparable, answer.splitlines()))
            assert [line for line in expected if line not in page] == [], answer
        elif not command.startswith(("kubectl get", "stowplan pins")):
            assert list(map(comparable, answer.splitlines())) == expected
        else:
            wait_for(
                f"{command!r} to show:\n" + "\n".join(shown),
                lambda: list(map(comparable, self._once(command).splitlines())) == expected,
            )

    def _once(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=REPOSITORY,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _fetch(self, command: str) -> str:
        """Not every machine has curl."""
        if shutil.which("curl"):
            return self._once(command)
        assert self._daemon is not None
        return self._daemon.metrics()

    def _start(self, command: str) -> None:
        log = self._directory / "log"
        with log.open("w") as stream:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=REPOSITORY,
                env=self._environment,
                stdout=stream,
                stderr=stream,
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self._daemon = StaticProcess(process, log, self._port)

    def _has_logged(self, expected: list[str]) -> bool:
        assert self._daemon is not None
        lines = [comparable(line) for line in self._daemon.lines if " - INFO - " in line]
        return lines == expected


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaticStage]:
    with static_stage(tmp_path_factory.mktemp("static")) as running:
        yield running


@pytest.fixture
def stage(whole: StaticStage) -> Iterator[StaticStage]:
    yield whole
    whole.clear()


@pytest.mark.e2e
def test_our_commands_do_what_the_page_says(stage: StaticStage, tmp_path: Path) -> None:
    with ExitStack() as stack:
        walk = Walk(stage, tmp_path, stack)
        for row in ROWS:
            if row.checked == "yes":
                walk.run(row.ours, row.shown)


@pytest.mark.e2e
def test_the_commands_of_the_original_still_do_it(stage: StaticStage, tmp_path: Path) -> None:
    with ExitStack() as stack:
        walk = Walk(stage, tmp_path, stack)
        for row in ROWS:
            if row.checked == "yes" and row.original:
                command = row.original.replace("example/", "examples/static/")
                walk.run(re.sub(r"^\./scheduler", "examples/static/scheduler", command), row.shown)
