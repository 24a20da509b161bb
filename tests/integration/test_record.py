"""`stowplan record` and `stowplan replay` as processes, on the embedded API server."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import ClusterConfig
from stowplan.clock import SystemClock
from stowplan.lab.controlplane.processes import free_port
from stowplan.lab.faults import Fault, FaultProxy
from stowplan.recording.entries import EntryType
from stowplan.recording.files import Output
from stowplan.recording.probe import first_header
from stowplan.recording.reading import Problems, read_sessions
from stowplan.recording.recorder import Recorder
from stowplan.sim.results import load
from stowplan.testing.device_builders import (
    claim_template,
    device_class,
    device_request,
    pod_claims,
    resource_claim,
    resource_slice,
)
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.integration.record_stage import (
    STOWPLAN,
    Stage,
    bound,
    entries,
    recorder,
    run,
    wait_until_bound,
)
from tests.waiting import wait_for


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with running_embedded_server(tmp_path) as server:
        yield server


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
        config = ("--kubeconfig", str(server.kubeconfig_path))
        second = run("record", str(path), "--for", "1s", *config)
        assert second.returncode == 2
        assert f"Error: {path}: another process records to it" in second.stderr
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert told.startswith(f"{path}: ")
    assert path.stat().st_mode & 0o077 == 0
    problems = Problems()
    sessions = [[entry.type for entry in each.entries] for each in read_sessions(path, problems)]
    (gap,) = load(path).gaps
    assert gap.note.startswith("the recorder was killed after ")
    assert len(sessions) == 2
    assert sessions[-1][-1] is EntryType.END
    assert problems.count == 0  # a kill damages nothing
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
    assert "FAIL a.json.gz: placed is 20 (>=1x: 20)" in failing.stderr
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


@contextmanager
def without_permissions(
    server: EmbeddedServer, folder: Path, *resources: str
) -> Iterator[tuple[str, str]]:
    """Options for an account that may not list these resources; empty is every resource."""
    with FaultProxy(server.url, seed=1) as proxy:
        kubeconfig = folder / "through-proxy"
        kubeconfig.write_text(server.kubeconfig_path.read_text().replace(server.url, proxy.url))
        for resource in resources:
            proxy.inject(Fault("list", resource=resource, times=1000, status=403))
        yield "--kubeconfig", str(kubeconfig)


@pytest.mark.parametrize("command", ["record", "shadow"])
def test_missing_permissions_are_one_message(
    server: EmbeddedServer, tmp_path: Path, command: str
) -> None:
    Stage(server).node("a")
    path = [str(tmp_path / "r.jsonl.gz")] if command == "record" else []
    kinds = ("persistentvolumes", "services", "storageclasses")
    with without_permissions(server, tmp_path, *kinds) as account:
        done = run(command, *path, "--for", "2s", *account)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "persistentvolumes" in line]
    assert line.startswith("Warning: this account may not list ")
    assert all(kind in line for kind in kinds)
    assert "Fix: apply the ClusterRole in deploy/record" in line
    assert done.stderr.count("Warning") == 1
    assert len(done.stderr.splitlines()) <= 3  # and that it began, and how far it is
    if command == "record":  # the server's message names the account, so it is not in the file
        header = first_header(Path(*path))
        assert header is not None
        assert header.unread == dict.fromkeys(kinds, "forbidden")
    with without_permissions(server, tmp_path, "") as account:
        done = run(command, *path, "--for", "2s", *account)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: this account may not list nodes and pods, ")
    assert "Fix: apply the ClusterRole in deploy/record" in line


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
        told, _ = process.communicate(timeout=30)
    assert re.fullmatch(rf"{folder}: \d+ entries in [3-9] files, \d\.\d KiB\n", told), told
    kept = sorted(folder.glob("*.jsonl.gz"))
    assert len(kept) == 2
    for path in kept:
        types = [entry.type for entry in entries(path)]
        assert types[0] is EntryType.ADDED
        assert EntryType.SYNCED in types
        assert types[-1] is EntryType.END
    assert load(folder).gaps == []  # rotation loses nothing
    for command in (["replay"], ["replay", "--follow"], ["compare"]):
        done = run(*command, str(folder))
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert "gap" not in done.stdout


class TickingClock(SystemClock):
    """Every reading is a second later than the one before it."""

    def __init__(self) -> None:
        self._read = 0.0

    def monotonic(self) -> float:
        self._read += 1.0
        return self._read


def test_all_entries_of_a_snapshot_have_the_time_0(server: EmbeddedServer, tmp_path: Path) -> None:
    """They are one state of the cluster, however long it takes to write them."""
    stage, path = Stage(server), tmp_path / "r.jsonl.gz"
    stage.node("a")
    stage.pod("one", "a")

    async def record() -> None:
        clock, listed = TickingClock(), asyncio.Event()
        async with ApiClient(ClusterConfig(server=server.url)) as client:
            recorder = Recorder(
                client,
                Output(path, clock=clock),
                clock=clock,
                on_progress=lambda _: listed.set(),
            )
            recording = asyncio.create_task(recorder.run())
            await asyncio.wait_for(listed.wait(), 30)
            recording.cancel()
            with suppress(asyncio.CancelledError):
                await recording

    asyncio.run(record())
    # By this clock it is long ago that the list was made, and no watch may be open yet.
    *snapshot, end = [each for each in entries(path) if each.type is not EntryType.GAP]
    assert {"Node", "Pod"} <= {entry.kind for entry in snapshot}
    assert snapshot[-1].type is EntryType.SYNCED
    assert {entry.at for entry in snapshot} == {0.0}
    assert end.at > 0


def test_two_recorders_cannot_share_a_folder(server: EmbeddedServer, tmp_path: Path) -> None:
    Stage(server).node("a")
    folder = tmp_path / "recordings"
    config = ("--kubeconfig", str(server.kubeconfig_path))
    with recorder(server.kubeconfig_path, f"{folder}/") as process:
        wait_for("a recording", lambda: list(folder.glob("*.jsonl.gz")))
        second = run("record", f"{folder}/", "--for", "1s", *config)
        assert second.returncode == 2
        assert second.stderr.splitlines()[-1] == (
            f"Error: {folder}: another process records to it. Fix: name another folder"
        )
        assert len(list(folder.iterdir())) == 1
        process.send_signal(signal.SIGKILL)  # the lock goes with the process
        process.wait(timeout=30)
        third = run("record", f"{folder}/", "--for", "1s", *config)
    assert third.returncode == 0, third.stderr
    assert len(list(folder.iterdir())) == 2


def test_a_folder_with_names_of_two_keys_is_no_recording(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Files of one recorder are one recording; those of the next one have another key."""
    Stage(server).node("a")
    folder = tmp_path / "recordings"
    flags = ("--hash-names", "--rotate-after", "2s", "--kubeconfig", str(server.kubeconfig_path))
    first = run("record", f"{folder}/", "--for", "5s", *flags)
    assert (first.returncode, "Warning" in first.stderr) == (0, False), first.stderr
    assert len(list(folder.iterdir())) > 1
    assert load(folder).gaps == []
    second = run("record", f"{folder}/", "--for", "1s", *flags)
    assert second.returncode == 0, second.stderr
    (line,) = [line for line in second.stderr.splitlines() if "Warning" in line]
    assert line.startswith(f"Warning: {folder} has older files, such as ")
    replayed = run("replay", str(folder))
    assert replayed.returncode == 2
    assert "their names are hashed with different keys. Fix: move the files up to 2" in (
        replayed.stderr
    )


def test_recorders_with_one_key_make_one_recording(server: EmbeddedServer, tmp_path: Path) -> None:
    stage = Stage(server)
    stage.node("a")
    stage.pod("web")
    key, folder, file = tmp_path / "key", tmp_path / "recordings", tmp_path / "r.jsonl.gz"
    key.write_text("a secret of thirty bytes or so\n")
    flags = ("--hash-key", str(key), "--for", "1s", "--kubeconfig", str(server.kubeconfig_path))
    for path in (folder, file):
        for _ in range(2):
            done = run("record", f"{path}/" if path == folder else str(path), *flags)
            assert (done.returncode, "Warning" in done.stderr) == (0, False), done.stderr
        assert len(load(path).gaps) == 1  # the time between the two
        # Under two names it would be two pods.
        done = run("replay", str(path), "-o", "json")
        assert json.loads(done.stdout)["counts"]["bound"] == 1, done.stdout + done.stderr
    assert b"web" not in gzip.decompress(file.read_bytes())
    key.write_text("another secret of many bytes")
    refused = run("record", str(file), *flags)
    assert (refused.returncode, refused.stderr) == (
        2,
        f"Error: {file}: exists and has names that are hashed with another key."
        " Fix: name another file, or, if it was recorded with --hash-key, give that key\n",
    )


@pytest.mark.parametrize("options", [(), ("--hash-names",)], ids=["kept", "hashed"])
def test_claims_of_templates_are_made_again(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The recorded claim was made for the recorded pod; the replayed pod gets one of its own."""
    path = tmp_path / "r.jsonl.gz"
    pick = 'device.attributes["gpu.example.com"].model == "A100"'
    alternatives = [device_request("gpu", name, pick) for name in ("large", "small")]
    pair = [device_request("gpu", name) for name in ("one", "two")]
    same = [{"requests": ["one", "two"], "matchAttribute": "gpu.example.com/model"}]
    with running_embedded_server(tmp_path, device_claims=True) as server:
        stage = Stage(server)
        stage.node("a")
        stage.create(device_class("gpu"))
        stage.create(resource_slice("gpu.example.com", 4, node="a", attributes={"model": "A100"}))
        stage.create(claim_template("one-gpu", device_request(first_available=alternatives)))
        stage.create(resource_claim("pair", *pair, constraints=same))
        with recorder(server.kubeconfig_path, path, *options) as process:
            wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
            claims = pod_claims({"both": "pair"}, {"gpu": "one-gpu"})
            stage.pod("train", claims=claims)
            implicit = {"deviceclass.resource.kubernetes.io/gpu": "1"}
            stage.pod("implicit", resources=implicit)
            wait_for(
                "the claims", lambda: [e.kind for e in entries(path)].count("ResourceClaim") >= 2
            )
            wait_for("the pods", lambda: len(bound(path)) == 2)
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)
    log = tmp_path / "decisions.jsonl"
    done = run("replay", str(path), "-o", "json", "--decisions", str(log))
    assert json.loads(done.stdout)["counts"]["bound"] == 2, done.stdout + done.stderr
    assert ("one-gpu" in gzip.decompress(path.read_bytes()).decode()) == (not options)


def test_a_file_that_must_not_be_continued_stays_as_it_is(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    Stage(server).node("a")
    flags = ("--for", "3s", "--kubeconfig", str(server.kubeconfig_path))
    manifest, kept, hashed = (tmp_path / name for name in ("gpus.yaml", "kept.gz", "hashed.gz"))
    manifest.write_text("kind: DeviceClass\n")
    for path, options in ((kept, ()), (hashed, ("--hash-names",))):
        done = run("record", str(path), *options, *flags)
        assert done.returncode == 0, done.stderr
        # All of the cluster is in the file when this is printed; namespaces are among it.
        listed = sum(entry.type is EntryType.ADDED for entry in entries(path))
        assert listed > 1
        assert done.stderr.splitlines()[0] == f"Recording to {path}; {listed} objects listed"
        # The list is among the entries, so they are not all changes.
        assert done.stdout.startswith(f"{path}: {len(list(entries(path)))} entries, ")
    for path, options, why in (
        (manifest, (), "exists and is not a recording"),
        (kept, ("--hash-names",), "exists and has names that are not hashed"),
        (hashed, (), "exists and has names that are hashed."),
        (hashed, ("--hash-names",), "exists and has names that are hashed with another key"),
    ):
        before = path.read_bytes()
        done = run("record", str(path), *options, *flags)
        assert (done.returncode, path.read_bytes()) == (2, before), done.stderr
        assert done.stderr.startswith(f"Error: {path}: {why}")
        assert "Fix: name another file" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_shadow_that_sees_no_binding(server: EmbeddedServer) -> None:
    Stage(server).node("a")
    done = run("shadow", "--for", "1s", "--kubeconfig", str(server.kubeconfig_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "No binding was seen, so there is nothing to compare\n"


def test_a_shadow_that_is_killed_has_written_its_decisions(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    stage, decisions = Stage(server), tmp_path / "decisions.jsonl"
    stage.node("a")
    command = [*STOWPLAN, "shadow", "--metrics", "0", "--decisions", str(decisions)]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(server.kubeconfig_path)], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = ""
        while "The cluster is known" not in said:
            said += (line := process.stderr.readline())
            assert line, said
        (url,) = re.findall(r"^Metrics on (\S+)$", said, re.MULTILINE)

        def page() -> str:
            with urllib.request.urlopen(url, timeout=30) as response:
                return str(response.read(), "utf-8")

        assert "stowplan_shadow_skipped_total 0.0" in page()
        stage.pod("foreign", "a", scheduler="second")
        stage.pod("web", "a")
        wait_for("a line", lambda: decisions.read_text().endswith("\n"))
        assert "stowplan_shadow_skipped_total 1.0" in page()
    finally:
        process.kill()
        process.communicate()
    (line,) = decisions.read_text().splitlines()
    assert json.loads(line)["pod"] == "default/web"


def test_a_shadow_tells_of_a_plugin_that_fails(server: EmbeddedServer, tmp_path: Path) -> None:
    stage, plugin = Stage(server), tmp_path / "boom.py"
    stage.node("a")
    plugin.write_text(
        "import stowplan\n\nclass Boom(stowplan.Plugin):\n    name = 'Boom'\n\n"
        "    def filter(self, pod, node):\n        raise ValueError('went off')\n"
    )
    command = [*STOWPLAN, "shadow", "--metrics", "0", "--plugin", f"{plugin}:Boom"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(server.kubeconfig_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = process.stderr.readline().removeprefix("Metrics on ").strip()
        assert process.stderr.readline().startswith("The cluster is known")

        def page() -> str:
            with urllib.request.urlopen(url, timeout=30) as response:
                return str(response.read(), "utf-8")

        assert "\nstowplan_shadow_agreement_ratio" not in page()  # there is no decision yet
        stage.pod("web", "a")
        wait_for(
            "the failure",
            lambda: 'stowplan_shadow_decisions_total{verdict="failed"} 1.0' in page(),
        )
        assert "\nstowplan_shadow_agreement_ratio 0.0" in page()
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "default/web is on a, here a plugin failed: running" in out
    assert "1: a plugin failed\n" in out
    assert 'Error: a plugin failed for 1 decision: running "Boom" filter plugin: Value' in err
    assert "Traceback" not in err


def test_a_server_that_cannot_be_reached_leaves_no_file(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    kubeconfig, path = tmp_path / "dead", tmp_path / "dead.gz"
    dead = f"http://127.0.0.1:{free_port()}"
    kubeconfig.write_text(server.kubeconfig_path.read_text().replace(server.url, dead))
    for target in (path, f"{tmp_path}/recordings/"):
        done = run("record", str(target), "--for", "5s", "--kubeconfig", str(kubeconfig))
        assert done.returncode == 1, done.stderr
    assert not path.exists()
    assert not (tmp_path / "recordings").exists()


def test_a_recording_of_another_cluster_is_not_continued(tmp_path: Path) -> None:
    """A new API server is another cluster: everything in it has other UIDs."""
    path, folder = tmp_path / "r.jsonl.gz", f"{tmp_path}/recordings/"
    told, before = [], b""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with running_embedded_server(tmp_path / name) as server:
            Stage(server).node("a")
            config = ("--for", "1s", "--kubeconfig", str(server.kubeconfig_path))
            before = path.read_bytes() if path.exists() else b""
            told += [run("record", str(path), *config), run("record", folder, *config)]
    assert [each.returncode for each in told] == [0, 0, 2, 0]
    assert path.read_bytes() == before
    why = f"{path}: exists and was recorded from another cluster. Fix: name another file"
    assert told[2].stderr.splitlines()[-1] == f"Error: {why}"
    assert "Warning" not in told[1].stderr
    assert "of another cluster" in told[3].stderr


def test_mistakes_are_told_in_a_line(server: EmbeddedServer, tmp_path: Path) -> None:
    config = ("--kubeconfig", str(server.kubeconfig_path))
    nowhere = run("record", str(tmp_path / "no" / "folder" / "x.gz"), *config)
    assert nowhere.returncode == 2
    folder = tmp_path / "no" / "folder"
    assert f"the folder {folder} does not exist. Fix: mkdir -p {folder}" in nowhere.stderr
    full = run("record", "/dev/full", *config)
    assert full.returncode == 1
    assert full.stderr.splitlines()[-1] == (
        "Error: /dev/full cannot be written: No space left on device; nothing is recorded"
    )
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
    assert "--speed: cannot be combined with --follow" in together.stderr


def test_a_recorder_whose_file_is_deleted_fails(server: EmbeddedServer, tmp_path: Path) -> None:
    stage, path = Stage(server), tmp_path / "r.jsonl.gz"
    stage.node("a")
    with recorder(server.kubeconfig_path, path) as process:
        wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
        path.unlink()
        _, told = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"Error: {path}: was deleted while it was written, so nothing is recorded." in told


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_terminal_that_is_closed_ends_a_recording_in_good_order(
    server: EmbeddedServer, tmp_path: Path, *, is_ignored: bool
) -> None:
    """Under nohup, which ignores SIGHUP, it goes on."""
    stage, path = Stage(server), tmp_path / "r.jsonl.gz"
    stage.node("a")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    try:
        with recorder(server.kubeconfig_path, path) as process:
            wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
            process.send_signal(signal.SIGHUP)
            if is_ignored:
                stage.node("b")
                wait_for(
                    "the second node",
                    lambda: any(b'"name":"b"' in bytes(each.object) for each in entries(path)),
                )
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 0
    assert entries(path)[-1].type is EntryType.END
