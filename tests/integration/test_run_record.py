"""`stowplan run --record` as a process: what it records, and that it schedules whatever happens."""

from __future__ import annotations

import gzip
import json
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stowplan.lab.controlplane.processes import free_port
from stowplan.recording.entries import EntryType
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.integration.record_stage import (
    Stage,
    entries,
    run,
    scheduler,
    wait_until_bound,
)
from tests.waiting import wait_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_embedded_server(tmp_path) as server:
        yield server


def decisions(path: Path) -> list[dict[str, Any]]:
    found = [entry for entry in entries(path) if entry.type is EntryType.DECISION]
    return [json.loads(bytes(entry.object)) for entry in found]


#: `stowplan`, but recording is tried again at once and not after a minute.
IMPATIENT = (
    sys.executable,
    "-c",
    "from stowplan.server.recording import RecordingProcess;"
    "RecordingProcess.__init__.__kwdefaults__['retry_s'] = 0.1;"
    "from stowplan.__main__ import main; main()",
)


def test_a_scheduler_records_the_cluster_and_its_attempts(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Its own from the ledger, and those of all schedulers from events."""
    stage, folder = Stage(server), tmp_path / "recordings"
    stage.node("a")
    with scheduler(server.kubeconfig_path, "--record", str(folder)) as process:
        wait_for("a recording", lambda: list(folder.glob("*.jsonl.gz")))
        (path,) = folder.glob("*.jsonl.gz")
        wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
        stage.pod("one")
        stage.pod("much", cpu="64")
        wait_until_bound(path, one="a")
        expected = {
            (result, source)
            for result in ("scheduled", "unschedulable")
            for source in ("event", "ledger")
        }
        wait_for(
            "decisions",
            lambda: expected <= {(each["result"], each["source"]) for each in decisions(path)},
        )
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    assert entries(path)[-1].type is EntryType.END
    told_of = {(each["pod"], each["source"]): each for each in decisions(path)}
    own, said = (told_of["default/one", source] for source in ("ledger", "event"))
    assert (own["node"], own["scheduler"]) == ("a", "default-scheduler")
    assert (own["evaluatedNodes"], own["feasibleNodes"]) == (1, 1)
    (said,) = [
        each
        for each in decisions(path)
        if (each["pod"], each["source"]) == ("default/one", "event")
    ]
    assert (said["node"], said["scheduler"]) == ("a", "default-scheduler")
    followed = run("replay", str(path), "--follow")
    assert "1 attempt scheduled, by the scheduler's ledger" in followed.stdout, followed.stderr
    assert "Insufficient" not in gzip.decompress(path.read_bytes()).decode()


def test_attempts_before_the_recorder_has_listed_the_cluster_are_recorded(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """A scheduler that starts decides at once; its recorder is a process that starts, too."""
    stage, folder = Stage(server), tmp_path / "recordings"
    stage.node("a")
    stage.pod("early")
    with scheduler(server.kubeconfig_path, "--record", str(folder)) as process:
        wait_for("the pod to be bound", lambda: stage.node_of("early") == "a")
        wait_for("a recording", lambda: list(folder.glob("*.jsonl.gz")))
        (path,) = folder.glob("*.jsonl.gz")
        wait_for("its attempt", lambda: "ledger" in [each["source"] for each in decisions(path)])
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    (own,) = [each for each in decisions(path) if each["source"] == "ledger"]
    assert (own["pod"], own["node"]) == ("default/early", "a")


def test_a_scheduler_goes_on_where_it_cannot_record(server: EmbeddedServer, tmp_path: Path) -> None:
    stage, folder = Stage(server), tmp_path / "file" / "folder"
    (tmp_path / "file").write_text("")
    stage.node("a")
    port = free_port()
    flags = ("--record", str(folder), "--port", str(port))
    with scheduler(server.kubeconfig_path, *flags) as process:
        wait_for("the failure", lambda: metric(port, "stowplan_recording_failures_total") == 1)
        assert metric(port, "stowplan_recording") == 0
        stage.pod("one")
        wait_for("the binding", lambda: stage.node_of("one") == "a")
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    (line,) = [line for line in told.splitlines() if "ecording" in line]
    assert "Recording failed; scheduling goes on" in line
    assert "cannot be written: Not a directory" in line


def limit_file_size(process: subprocess.Popen[str], size: int) -> None:
    """Refuse a scheduler, its processes and those to come any byte of a file beyond this size."""
    children = Path("/proc", str(process.pid), "task").glob("*/children")
    pids = [process.pid, *(int(pid) for each in children for pid in each.read_text().split())]
    for pid in pids:
        with suppress(ProcessLookupError):  # the recording is just being tried again
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))


def attempts(folder: Path) -> list[str]:
    """The pods of the scheduler's attempts in a folder of recordings."""
    found = (each for path in folder.glob("*.jsonl.gz") for each in decisions(path))
    return [each["pod"] for each in found if each["source"] == "ledger"]


def schedule_while_recording_fails(
    stage: Stage, process: subprocess.Popen[str], folder: Path, port: int, *, spoil: Any, mend: Any
) -> str:
    """Spoil a recording that is being written, bind a pod, and mend it; what the log then says."""
    stage.node("a")
    wait_for("the recording", lambda: metric(port, "stowplan_recording") == 1)
    stage.pod("before")
    wait_for("its attempt", lambda: "default/before" in attempts(folder))
    spoil()
    stage.pod("meanwhile")
    wait_for("the binding", lambda: stage.node_of("meanwhile") == "a")
    wait_for("two retries", lambda: (metric(port, "stowplan_recording_failures_total") or 0) >= 3)
    assert metric(port, "stowplan_recording") == 0
    mend()
    wait_for("the next recording", lambda: metric(port, "stowplan_recording") == 1)
    stage.pod("after")
    wait_for("its attempt", lambda: "default/after" in attempts(folder))
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    began, failed, resumed = (line for line in told.splitlines() if "ecording" in line)
    assert "Recording began" in began
    assert "Recording failed; scheduling goes on, and recording is tried again" in failed
    assert "Recording goes on" in resumed
    return failed


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can limit running processes")
def test_a_scheduler_goes_on_while_the_disk_is_full(server: EmbeddedServer, tmp_path: Path) -> None:
    """The system refuses bytes as it does when the disk is full, with another error code."""
    folder, port = tmp_path / "recordings", free_port()
    flags = ("--record", str(folder), "--port", str(port))
    with scheduler(server.kubeconfig_path, *flags, stowplan=IMPATIENT) as process:
        failed = schedule_while_recording_fails(
            *(Stage(server), process, folder, port),
            spoil=lambda: limit_file_size(process, 1),
            mend=lambda: limit_file_size(process, resource.RLIM_INFINITY),
        )
    assert "cannot be written: File too large; what was written before is readable" in failed
    assert "default/before" in attempts(folder)
    # The retries left nothing that --record-keep would count as a recording.
    for path in folder.iterdir():
        assert EntryType.SYNCED in [entry.type for entry in entries(path)], path


def test_a_scheduler_goes_on_while_the_folder_is_no_folder(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It is noticed when the next file begins."""
    folder, aside, port = tmp_path / "recordings", tmp_path / "aside", free_port()

    def spoil() -> None:
        folder.rename(aside)
        folder.write_text("")

    def mend() -> None:
        folder.unlink()
        aside.rename(folder)

    flags = ("--record", str(folder), "--record-after", "3s", "--port", str(port))
    with scheduler(server.kubeconfig_path, *flags, stowplan=IMPATIENT) as process:
        failed = schedule_while_recording_fails(
            Stage(server), process, folder, port, spoil=spoil, mend=mend
        )
    assert "cannot be written: File exists" in failed


def metric(port: int, name: str) -> float | None:
    """The value of a metric without labels; None if it cannot be read yet."""
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as response,
    ):
        for line in response.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    return None
