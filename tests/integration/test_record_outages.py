"""An outage that lasts until the recorder ends is a gap, for every command that reads the file."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stowplan.lab.faults import ALWAYS, Fault, FaultProxy
from stowplan.sim.results import load
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.integration.record_stage import Stage, entries, recorder, run
from tests.waiting import wait_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_embedded_server(tmp_path) as server:
        Stage(server).node("a")
        yield server


@contextmanager
def recorded(
    server: EmbeddedServer, path: Path | str, *options: str
) -> Iterator[tuple[FaultProxy, subprocess.Popen[str]]]:
    """A recorder that watches, behind a proxy."""
    with FaultProxy(server.url, seed=1) as proxy:
        kubeconfig = server.kubeconfig_path.with_name("through-proxy")
        kubeconfig.write_text(server.kubeconfig_path.read_text().replace(server.url, proxy.url))
        with recorder(kubeconfig, path, *options) as process:
            read_until(process, "Recording to")
            stage = Stage(server)
            stage.node("b")
            stage.pod("one", "b")
            wait_for("both watches", lambda: seen(Path(path)) >= {"b", "one"})
            yield proxy, process


def seen(path: Path) -> set[str]:
    """Names of nodes and pods that watches told."""
    changes = [e for e in entries(path) if e.kind in ("Node", "Pod") and e.at > 0]
    return {json.loads(bytes(each.object))["metadata"]["name"] for each in changes}


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text} was not said")


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it prints on stdout, and its last line on stderr."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out, err.splitlines()[-1]


def test_a_server_that_is_gone_until_the_end(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    with recorded(server, path) as (proxy, process):
        proxy.go_away()
        read_until(process, "cannot be reached")
        out, said = ended(process)
    (gap,) = load(path).gaps
    assert re.fullmatch(r"no connection to the API server in the last \d+\.\d s", gap.note)
    assert said == f"Warning: {gap.note}: what changed since then is not recorded"
    assert out.endswith(", 1 gap\n")
    for command in (["replay"], ["replay", "--follow"]):
        done = run(*command, str(path))
        assert (done.returncode, gap.note in done.stdout + done.stderr) == (0, True)
    assert run("compare", str(path), "--fail-on", "gaps>0").returncode == 1


def test_a_watch_that_is_refused(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    with recorded(server, path) as (proxy, process):
        fault = proxy.inject(Fault("watch", resource="pods", times=ALWAYS, status=403))
        proxy.cut_watches()
        wait_for("more than a second", lambda: fault.seen > 3)
        _, said = ended(process)
    (gap,) = load(path).gaps
    assert re.fullmatch(r"no watch in the last \d+\.\d s: Pod", gap.note)
    assert gap.note in said


def test_a_list_that_is_needed_and_does_not_come(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    with recorded(server, path) as (proxy, process):
        fault = proxy.inject(Fault("list", resource="nodes", times=ALWAYS, status=500))
        proxy.inject(Fault("watch", resource="nodes", times=1, status=410))
        proxy.cut_watches()
        wait_for("a list", lambda: fault.seen > 0)
        ended(process)
    (gap,) = load(path).gaps
    assert re.fullmatch(r"no watch in the last \d+\.\d s: Node", gap.note)


def test_the_file_before_a_rotation(server: EmbeddedServer, tmp_path: Path) -> None:
    """Read alone, each file must say what is unknown at its end."""
    folder = tmp_path / "recordings"
    with recorded(server, f"{folder}/", "--rotate-after", "2s") as (proxy, process):
        proxy.go_away()
        read_until(process, "cannot be reached")
        before = len(list(folder.iterdir()))
        wait_for("a rotation", lambda: len(list(folder.iterdir())) > before)
        ended(process)
    *_, earlier, last = sorted(folder.iterdir())
    for path in (earlier, last):
        (gap,) = load(path).gaps
        assert gap.note.startswith("no connection to the API server in the last ")
