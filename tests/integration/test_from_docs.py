"""docs/from-{workshop,random-scheduler,mini-kube-scheduler}.md: rows that say so are run, in order.

kubectl and the schedulers talk to `stowplan apiserver`, as the pages have it; only what is about
rights goes to the real control plane, since the pretend one has none. Files of lessons are
completed as a learner would have, with the solutions.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.learn.course import Course
from tests.controlplane_fixtures import require_binaries
from tests.e2e.test_static_doc import Row, comparable, read_rows
from tests.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PATIENCE_S = 60.0
PAGES = {
    "from-workshop.md": "workshop",
    "from-random-scheduler.md": "tutorial",
    "from-mini-kube-scheduler.md": "mini-kube-scheduler",
}
# The commands of each original, in its order.
ORIGINALS = {
    "from-workshop.md": """\
oc new-app python~https://github.com/GrahamDumpleton/os-sample-python.git --name shell
oc get pods
oc exec -ti shell-1-mhc8g bash
pip install kubernetes
oc get pods
oc adm policy add-role-to-user admin system:serviceaccount:$PROJECT:default
oc get pods
""",
    "from-random-scheduler.md": """\
go run main.go
go run main.go
go run main.go
kubectl apply -f pod.yaml
kubectl get pod nginx
go run main.go
kubectl apply -f pod.yaml
kubectl get pod nginx
kubectl apply -f pod.yaml
go run main.go
kubectl get event | grep Scheduled
""",
    "from-mini-kube-scheduler.md": "hack/install-etcd.sh\nmake start\n",
}
# The coin of the random scheduler falls on its right side.
LOADED_DICE = """\
import random, runpy, sys
fair = random.randrange
random.randrange = lambda *n: {(2,): 0, (100,): 47}[n] if n in ((2,), (100,)) else fair(*n)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_PIPE = "\N{BROKEN BAR}"


def rows_of(page: str) -> list[Row]:
    """Blocks with a language are code to read, not what a command shows."""
    text = re.sub(r"^```\w+\n.*?^```\n", "", (DOCS / page).read_text(), flags=re.DOTALL | re.M)
    rows = read_rows(text.replace(r"\|", _PIPE), [PAGES[page], "Stowplan", "run by a test"])
    for row in rows:
        row.original, row.ours = (text.replace(_PIPE, "|") for text in (row.original, row.ours))
    return rows


def simplified(line: str) -> str:
    """Without what differs from run to run."""
    line = re.sub(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ", "TIME ", line)
    line = re.sub(r"^ +\d+\.\d{3}  ", "AT  ", line)
    line = re.sub(r" in \d+\.\d s$", " in SOME s", line)
    line = re.sub(r"^\d+[ms]\w* ", "AGE ", line)
    return comparable(line)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_commands_of_the_original_in_their_order(page: str) -> None:
    left = iter(row.original for row in rows_of(page))
    missing = [command for command in ORIGINALS[page].splitlines() if command not in left]
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_rows_are_run_or_say_why_not(page: str) -> None:
    rows = rows_of(page)
    assert all(row.checked == "yes" or re.match(r"no: \w+", row.checked) for row in rows)
    assert [row for row in rows if row.checked == "yes" and not row.ours] == []
    assert [row for row in rows if row.shown and row.checked != "yes"] == []
    named = re.findall(r"\]\(([^)#]+)|(tests/\w+/\w+\.py)", (DOCS / page).read_text())
    targets = [DOCS / link if link else REPOSITORY / test for link, test in named]
    assert targets
    assert [target for target in targets if not target.exists()] == []


def test_the_code_on_the_pages_is_the_code_that_runs() -> None:
    solution = Course().find("print").solution.read_text()
    scenario = (REPOSITORY / "examples" / "scenarios" / "mini_kube_scheduler.py").read_text()
    for page, source in (("from-workshop.md", solution), ("from-mini-kube-scheduler.md", scenario)):
        # The workshop's page has its own script besides, which tests/integration/test_examples.py
        # runs.
        block, *_ = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
        assert block in source, page


@pytest.mark.parametrize("on", ["real", "virtual"])
def test_make_start_plays_the_scenario(on: str) -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "start", f"ON={on}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    command = f".venv/bin/stowplan simulate examples/scenarios/mini_kube_scheduler.py --on {on}"
    assert done.stdout.splitlines()[-1] == command
    assert ("stowplan.controlplane build" in done.stdout) == (on == "real")


def test_make_start_plays_it_with_ones_own_scheduler() -> None:
    scheduler = "examples/steps/step7_event_handlers.py"
    done = subprocess.run(
        ["make", "--no-print-directory", "start", "ON=virtual", f"SCHEDULER={scheduler}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "minischeduler: Node/Add brings back pod default/pod1" in done.stdout
    assert "scenario: pod1 is bound to node10" in done.stdout


class Walk:
    """Types the right column of a page, in a folder with the checkout's examples."""

    def __init__(self, directory: Path, real: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._log = directory / "scheduler.log"
        #: So many lines of it have been on the page.
        self._told = 0
        (directory / "examples").symlink_to(REPOSITORY / "examples")
        # Else one in a folder above would be found.
        (directory / "stowplan-lessons").mkdir()
        programs = directory / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(require_binaries("kubectl")["kubectl"])
        path = [programs, Path(sys.executable).parent, os.environ["PATH"]]
        self._environment = os.environ | {
            "PATH": os.pathsep.join(map(str, path)),
            "KUBECACHEDIR": str(directory / "cache"),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
        }
        self._real = self._environment | {"KUBECONFIG": str(real)}

    def run(self, row: Row) -> None:
        command, expected = row.ours, [simplified(line) for line in row.shown]
        if command.startswith("stowplan apiserver"):
            self._serve(command)
        elif command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environment[name] = value.replace("$PWD", str(self._directory))
        elif command.startswith("python "):
            self._start(command)
        elif command.startswith("stowplan learn start"):
            self._stop()
            self._once(command)
            self._complete(command.split()[3])
        elif command.startswith(("kubectl get", "kubectl auth")):
            wait_for(
                f"{command!r} to show:\n" + "\n".join(row.shown),
                lambda: self._lines(command) == expected,
                PATIENCE_S,
            )
        elif not self._is_log(row):
            self._compare(command, expected)
        else:
            self._once(command)
        if self._is_log(row):
            self._hear(expected)

    def _is_log(self, row: Row) -> bool:
        """Whether what is shown comes from the scheduler in its window."""
        is_stamped = re.match(r"\d{4}/|minischeduler|pod: ", row.shown[0]) if row.shown else None
        return self._scheduler is not None and is_stamped is not None

    def _compare(self, command: str, expected: list[str]) -> None:
        lines = self._lines(command)
        if expected:
            assert lines == expected, command

    def _lines(self, command: str) -> list[str]:
        return [simplified(line) for line in self._once(command).splitlines()]

    def _once(self, command: str) -> str:
        about_rights = re.search(r"\brole|auth can-i|configmap|deploy\.yaml", command)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._directory,
            env=self._real if about_rights else self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        # grep finds nothing yet; the right is not known yet.
        may_fail = command.startswith(("kubectl get", "kubectl auth"))
        assert done.returncode == 0 or may_fail, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _serve(self, command: str) -> None:
        log = self._directory / "server.log"
        with log.open("w") as stream:
            self._background(command.replace("8001", "0").split(), stream.fileno())
        wait_for("the API server", lambda: "Serving" in log.read_text(), PATIENCE_S)

    def _start(self, command: str) -> None:
        self._stop()
        self._told = 0
        argv = [sys.executable, "-c", LOADED_DICE, *command.split()[1:]]
        with self._log.open("w") as stream:
            self._scheduler = self._background(argv, stream.fileno())

    def _stop(self) -> None:
        """Ctrl-C, before somebody turns to the next stage."""
        if self._scheduler is not None:
            self._scheduler.send_signal(signal.SIGINT)
            self._scheduler.wait(PATIENCE_S)
            self._scheduler = None

    def _background(self, argv: list[str], stream: int) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv, cwd=self._directory, env=self._environment, stdout=stream, stderr=stream
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def _hear(self, expected: list[str]) -> None:
        """The scheduler prints these next, and nothing in between."""

        def new() -> list[str]:
            return [simplified(line) for line in self._log.read_text().splitlines()[self._told :]]

        def has_come() -> bool:
            # What it has printed since it started, if the page had none of that before.
            return new()[-len(expected) :] == expected if new() else False

        wait_for(f"{expected} in {self._log}", has_come, PATIENCE_S)
        self._told += len(new())

    def _complete(self, number: str) -> None:
        lesson = Course().find(number)
        shutil.copyfile(
            lesson.solution, self._directory / "stowplan-lessons" / lesson.key / lesson.file
        )


@pytest.fixture
def real(control_plane: ControlPlane) -> Iterator[Path]:
    yield control_plane.kubeconfig
    # The control plane is shared.
    for kinds, names in (
        ("role,rolebinding", ("pod-watcher", "pod-binder", "prgcontsched")),
        ("clusterrole,clusterrolebinding", ("prgcontsched-nodes",)),
        ("configmap,serviceaccount,deployment", ("prgcontsched",)),
    ):
        control_plane.kubectl("delete", "--ignore-not-found", "--wait=false", kinds, *names)


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", PAGES)
def test_our_commands_do_what_the_page_says(page: str, real: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        walk = Walk(tmp_path, real, stack)
        for row in rows_of(page):
            if row.checked == "yes":
                walk.run(row)
