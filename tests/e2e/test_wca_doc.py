"""docs/from-wca-scheduler.md: every row that says so is run, in the page's order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stowplan.lab.controlplane import ControlPlane, find_binary
from stowplan.lab.controlplane.processes import free_port
from tests.e2e.static_stage import REPOSITORY, wait_for
from tests.e2e.test_static_doc import comparable, read_rows

pytestmark = pytest.mark.timeout(300)

PAGE = REPOSITORY / "docs" / "from-wca-scheduler.md"
ROWS = read_rows(PAGE.read_text(), ["WCA scheduler", "Stowplan", "run by a test"])
# The commands of the original's guide, in its order.
ORIGINALS = """\
make wca_scheduler_package
make wca_scheduler_docker_image
docker tag wca-scheduler:latest 100.64.176.12:80/wca-scheduler:latest
docker push 100.64.176.12:80/wca-scheduler:latest
kubectl apply -f wca-scheduler-service.yaml
""".splitlines()


def test_the_page_has_the_commands_of_the_original_in_their_order() -> None:
    left = iter(row.original for row in ROWS)
    missing = [command for command in ORIGINALS if command not in left]
    assert missing == []


def test_rows_are_run_or_say_why_not() -> None:
    assert all(row.checked == "yes" or re.match(r"no: \w+", row.checked) for row in ROWS)
    left_out = {row.ours.split()[0] for row in ROWS if row.checked != "yes"}
    assert left_out == {"make", "docker", "cp", "kube-scheduler"}
    assert [row for row in ROWS if not row.ours or (row.shown and row.checked != "yes")] == []
    tests = re.findall(r"tests/\w+/\w+\.py", PAGE.read_text())
    assert tests
    assert [name for name in tests if not (REPOSITORY / name).is_file()] == []


@pytest.fixture
def environment(control_plane: ControlPlane, tmp_path: Path) -> Iterator[dict[str, str]]:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(find_binary("kubectl"))
    path = [programs, Path(sys.executable).parent, os.environ["PATH"]]
    yield os.environ | {
        "PATH": os.pathsep.join(map(str, path)),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(control_plane.kubeconfig),
    }
    # The control plane is shared. The namespace stays, as nobody here would end it.
    for arguments in (["-k", "deploy/extender"], ["-f", "deploy/extender/static-pod"]):
        control_plane.kubectl("delete", "--ignore-not-found", "--wait=false", *arguments)


def once(command: str, environment: dict[str, str]) -> str:
    if command.startswith("curl ") and not shutil.which("curl"):
        with urllib.request.urlopen(command.split()[-1], timeout=30) as answer:
            page: bytes = answer.read()
        return page.decode()
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.e2e
def test_our_commands_do_what_the_page_says(environment: dict[str, str], tmp_path: Path) -> None:
    port = str(free_port())
    with ExitStack() as stack:
        for row in ROWS:
            if row.checked != "yes":
                continue
            if row.ours.startswith("stowplan extender"):
                start(row.ours.replace("31800", port), environment, tmp_path / "log", stack)
                continue
            command = row.ours.replace("localhost:31800", f"127.0.0.1:{port}")
            lines = once(command, environment).splitlines()
            if row.shown:
                assert list(map(comparable, lines)) == list(map(comparable, row.shown))


def start(command: str, environment: dict[str, str], log: Path, stack: ExitStack) -> None:
    with log.open("w") as stream:
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            cwd=REPOSITORY,
            env=environment,
            stdout=stream,
            stderr=stream,
        )
    stack.callback(process.wait)
    stack.callback(process.kill)
    wait_for("the extender to serve", lambda: '"Serving"' in log.read_text())
