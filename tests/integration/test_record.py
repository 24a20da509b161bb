"""`stowplan record` and `stowplan replay` as processes, on the embedded API server."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.api.resources import NODES, PODS
from stowplan.lab.faults import Fault, FaultProxy
from stowplan.recording.entries import Entry, EntryType
from stowplan.recording.reading import Problems, is_recording, read_sessions
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.waiting import wait_for

STOWPLAN = (sys.executable, "-m", "stowplan")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_embedded_server(tmp_path) as server:
        yield server


class Stage:
    """Objects of the cluster that is recorded."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server

    def node(self, name: str, cpu: str = "4") -> None:
        offers = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        node = {"metadata": {"name": name}, "status": {"allocatable": offers, "capacity": offers}}

        async def create(client: ApiClient) -> None:
            await client.create(NODES, node)

        self._do(create)

    def pod(self, name: str, node: str = "") -> None:
        container = {
            "name": "c",
            "image": "example.test/x",
            "env": [{"name": "PASSWORD", "value": "s3cret"}],
            "resources": {"requests": {"cpu": "500m"}},
        }

        async def create(client: ApiClient) -> None:
            pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
            await client.create(PODS, pod, namespace="default")
            if node:
                created = await client.get(PODS, name, namespace="default")
                await client.bind("default", name, created.metadata.uid, node)

        self._do(create)

    def delete(self, name: str) -> None:
        async def delete(client: ApiClient) -> None:
            await client.delete(PODS, name, namespace="default", grace_period_s=0)

        self._do(delete)

    def _do(self, work: Any) -> None:
        async def run() -> None:
            async with ApiClient(ClusterConfig(server=self._server.url)) as client:
                await work(client)

        self._server.run(run())


@contextmanager
def recorder(kubeconfig: Path, path: Path | str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [*STOWPLAN, "record", str(path), "--kubeconfig", str(kubeconfig), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def entries(path: Path) -> list[Entry]:
    if not is_recording(path):  # nothing is in it yet
        return []
    return [entry for session in read_sessions(path, Problems()) for entry in session.entries]


def bound(path: Path) -> dict[str, str]:
    """The nodes of pods as the file tells them."""
    found: dict[str, str] = {}
    for entry in entries(path):
        if entry.kind == "Pod" and entry.type in (EntryType.ADDED, EntryType.MODIFIED):
            pod = json.loads(bytes(entry.object))
            found[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
    return found


def wait_until_bound(path: Path, **pods: str) -> None:
    wait_for(f"{pods} in the file", lambda: pods.items() <= bound(path).items())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*STOWPLAN, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_what_was_written_before_a_kill_is_read_and_the_file_is_continued(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    stage, path = Stage(server), tmp_path / "r.jsonl.gz"
    stage.node("a")
    with recorder(server.kubeconfig_path, path) as process:
        wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
        stage.pod("one", "a")
        wait_until_bound(path, one="a")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    stage.delete("one")
    stage.pod("two", "a")
    with recorder(server.kubeconfig_path, path) as process:
        wait_until_bound(path, one="a", two="a")
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert told.startswith(f"{path}: ")
    assert path.stat().st_mode & 0o077 == 0
    problems = Problems()
    sessions = [[entry.type for entry in each.entries] for each in read_sessions(path, problems)]
    assert len(sessions) == 2
    assert sessions[-1][-1] is EntryType.END
    assert problems.count == 1  # the end of the first session, which was killed
    assert "s3cret" not in path.read_bytes().decode("latin-1")


def test_replays_are_equal_byte_by_byte(server: EmbeddedServer, tmp_path: Path) -> None:
    stage, path = Stage(server), tmp_path / "r.jsonl.gz"
    for name in ("a", "b", "c"):
        stage.node(name)
    with recorder(server.kubeconfig_path, path, "--hash-names") as process:
        wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
        for number in range(20):
            stage.pod(f"p{number}", "abc"[number % 3])
        stage.delete("p3")
        wait_for("all pods in the file", lambda: len(bound(path)) == 20)
        wait_for("the deletion", lambda: EntryType.DELETED in [e.type for e in entries(path)])
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    logs = []
    for name in ("1", "2"):
        log = tmp_path / f"decisions-{name}.jsonl"
        done = run("replay", str(path), "--decisions", str(log), "-o", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["counts"]["bound"] == 20
        logs.append(log.read_bytes())
    assert logs[0] == logs[1]
    assert logs[0].count(b'"kind": "decided"') == 20
    results = [tmp_path / "a.json.gz", tmp_path / "b.json.gz"]
    for result in results:
        assert run("replay", str(path), "--result", str(result)).returncode == 0
    page = tmp_path / "page.html"
    compared = run("compare", str(path), *map(str, results), "--html", str(page), "-o", "json")
    assert compared.returncode == 0, compared.stderr
    shown, first, second = json.loads(compared.stdout)["runs"]
    assert first["figures"] == second["figures"]
    assert shown["figures"]["placed"] == first["figures"]["placed"] == 20
    assert "CPU requested" in page.read_text()
    failing = run("compare", str(path), str(results[0]), "--fail-on", "placed>=1x")
    assert failing.returncode == 1
    assert "FAIL a.json.gz" not in failing.stdout
    assert "placed is 20, and placed>=1x fails" in failing.stderr
    followed = run("replay", str(path), "--follow", "-o", "json")
    report = json.loads(followed.stdout)
    assert report["decisions"] == 20
    # Nobody scored anything: pods were bound in turn, which is what spreading would do.
    assert report["verdicts"]["pending"] == 0


def test_a_gap_after_410_is_told_and_the_recording_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    stage, path = Stage(server), tmp_path / "r.jsonl.gz"
    stage.node("a")
    with FaultProxy(server.url, seed=1) as proxy:
        kubeconfig = tmp_path / "through-proxy"
        kubeconfig.write_text(server.kubeconfig_path.read_text().replace(server.url, proxy.url))
        with recorder(kubeconfig, path) as process:
            wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
            proxy.inject(Fault("watch", resource="pods", times=1, status=410))
            proxy.cut_watches()
            stage.pod("missed", "a")
            wait_until_bound(path, missed="a")
            wait_for("the gap", lambda: EntryType.GAP in [e.type for e in entries(path)])
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
    done = run("replay", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_gets_files_that_are_whole_each_and_the_oldest_go(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    stage, folder = Stage(server), tmp_path / "recordings"
    stage.node("a")
    options = ("--rotate-after", "2s", "--keep", "2")
    with recorder(server.kubeconfig_path, f"{folder}/", *options) as process:
        wait_for("a file", lambda: list(folder.glob("*.jsonl.gz")))
        first = min(folder.glob("*.jsonl.gz"))
        wait_for("the first file to be deleted", lambda: not first.exists())
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    kept = sorted(folder.glob("*.jsonl.gz"))
    assert len(kept) == 2
    for path in kept:
        types = [entry.type for entry in entries(path)]
        assert types[0] is EntryType.ADDED
        assert EntryType.SYNCED in types
        assert types[-1] is EntryType.END


def test_mistakes_are_told_in_a_line(server: EmbeddedServer, tmp_path: Path) -> None:
    config = ("--kubeconfig", str(server.kubeconfig_path))
    nowhere = run("record", str(tmp_path / "no" / "folder" / "x.gz"), *config)
    assert nowhere.returncode == 2
    assert "cannot be written: No such file or directory" in nowhere.stderr
    small = run("record", f"{tmp_path}/", "--rotate-size", "1Ki", *config)
    assert "--rotate-size: is too small. Fix: give at least 1Mi" in small.stderr
    junk = tmp_path / "junk.gz"
    junk.write_bytes(gzip.compress(os.urandom(1000)))
    for arguments in (["replay", str(junk)], ["replay", str(junk), "--follow"]):
        done = run(*arguments)
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert "Traceback" not in done.stderr
    together = run("replay", str(junk), "--follow", "--speed", "1x")
    assert "--speed: does not go with --follow" in together.stderr
