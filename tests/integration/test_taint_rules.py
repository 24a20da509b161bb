"""DeviceTaintRules in the commands that run beside a scheduler, on the embedded API server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stowplan.apiserver.faults import Fault
from stowplan.apiserver.server import ApiServer
from stowplan.recording.entries import EntryType
from stowplan.testing.device_builders import (
    device_class,
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
    scheduler,
)
from tests.integration.test_console import console, get
from tests.waiting import wait_for

GATE = ("--feature-gates", "DRADeviceTaintRules=true")
RULE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "a-is-broken"},
    "spec": {
        "deviceSelector": {"driver": "gpu.example.com", "pool": "a"},
        "taint": {"key": "example.com/broken", "value": "yes", "effect": "NoSchedule"},
    },
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """Two nodes with a GPU each; the one of the larger node is out of service."""
    with running_embedded_server(tmp_path) as server:
        stage = Stage(server)
        stage.create(device_class("gpu"))
        for node, cpu in (("a", "64"), ("b", "4")):
            stage.node(node, cpu)
            stage.create(resource_slice("gpu.example.com", node=node))
        stage.create(RULE)
        yield server


def ask_for_gpu(server: EmbeddedServer, pod: str, node: str = "") -> None:
    stage = Stage(server)
    stage.create(resource_claim(f"claim-of-{pod}", "gpu"))
    stage.pod(pod, node, claims=pod_claims({"gpu": f"claim-of-{pod}"}, None))


def refuse(server: EmbeddedServer, status: int) -> None:
    """As a server without the kind (404), or for a user without the right (403)."""
    reason = {403: "Forbidden", 404: "NotFound"}[status]

    def inject(running: ApiServer) -> None:
        running.faults.append(
            Fault(
                path="/devicetaintrules",
                status=status,
                reason=reason,
                message="devicetaintrules: refused",
                times=None,
            )
        )

    server.call(inject)


def record(server: EmbeddedServer, path: Path, *options: str) -> str:
    """Record a pod that goes to the node whose GPU is out of service; what was said meanwhile."""
    with recorder(server.kubeconfig_path, path, *options) as process:
        wait_for("the snapshot", lambda: EntryType.SYNCED in [e.type for e in entries(path)])
        ask_for_gpu(server, "web", "a")
        wait_for("the binding", lambda: any(bound(path).values()))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    return str(told)


def replayed_to(path: Path, *options: str) -> str:
    done = run("replay", str(path), "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    (node,) = json.loads(done.stdout)["placements"].values()
    return str(node)


def followed(path: Path, *options: str) -> dict[str, Any]:
    done = run("replay", str(path), "--follow", "-o", "json", *options)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["decisions"] == 1
    return report


def test_a_replay_obeys_recorded_rules_if_the_gate_is_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl.gz"
    assert "Warning" not in record(server, path)
    (rule,) = [json.loads(bytes(e.object)) for e in entries(path) if e.kind == RULE["kind"]]
    assert rule["spec"]["deviceSelector"] == RULE["spec"]["deviceSelector"]
    assert replayed_to(path) == "a"
    assert replayed_to(path, *GATE) == "b"
    assert followed(path)["agreement"] == 1
    (difference,) = followed(path, *GATE)["differences"]
    assert difference["best"] == ["b"]
    assert difference["note"] == "DynamicResources: cannot allocate all claims"


def test_rules_with_hashed_names_match_what_they_matched(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    path = tmp_path / "r.jsonl.gz"
    record(server, path, "--hash-names")
    (rule,) = [json.loads(bytes(e.object)) for e in entries(path) if e.kind == RULE["kind"]]
    assert rule["metadata"]["name"] != "a-is-broken"
    assert rule["spec"]["deviceSelector"]["pool"] != "a"
    (difference,) = followed(path, *GATE)["differences"]
    assert difference["note"] == "DynamicResources: cannot allocate all claims"


@pytest.mark.parametrize("status", [403, 404])
def test_a_recording_without_rules_is_made_and_told_where_they_are_asked_for(
    server: EmbeddedServer, tmp_path: Path, status: int
) -> None:
    refuse(server, status)
    path = tmp_path / "r.jsonl.gz"
    assert "devicetaintrules" not in record(server, path)
    assert not [entry for entry in entries(path) if entry.kind == RULE["kind"]]
    assert "Warning" not in run("replay", str(path)).stderr
    told = f"Warning: {path} has no DeviceTaintRules: the recorder could not read them\n"
    for options in ((), ("--follow",)):
        done = run("replay", str(path), *options, *GATE)
        assert (done.returncode, done.stderr.count(told)) == (0, 1), done.stderr


def is_judged(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=30) as response:
        page = response.read().decode()
    return re.search(r"^stowplan_shadow_decisions_total{.*} 1", page, re.MULTILINE) is not None


def shadowed(server: EmbeddedServer, *options: str) -> tuple[dict[str, Any], str]:
    """The report of a shadow that sees a pod go to the node whose GPU is out of service."""
    command = [*STOWPLAN, "shadow", "-o", "json", "--metrics", "0", *options]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(server.kubeconfig_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while "The cluster is known" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        ask_for_gpu(server, "web", "a")
        (metrics,) = re.findall(r"^Metrics on (\S+)$", said, re.MULTILINE)
        # Judged a second after the binding was seen.
        wait_for("its judgement", lambda: is_judged(metrics))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    return json.loads(out), said + err


@pytest.mark.parametrize("is_on", [True, False])
def test_a_shadow_obeys_rules_if_the_gate_is_on(server: EmbeddedServer, is_on: bool) -> None:
    report, said = shadowed(server, *(GATE if is_on else ()))
    assert report["decisions"] == 1
    assert report["agreement"] == (0 if is_on else 1)
    assert "Warning" not in said


def test_a_shadow_whose_gate_is_on_names_rules_that_it_cannot_read(server: EmbeddedServer) -> None:
    refuse(server, 403)
    report, said = shadowed(server, *GATE)
    assert report["agreement"] == 1
    assert "Warning: this account may not list devicetaintrules: " in said


@pytest.mark.parametrize("is_on", [True, False])
def test_a_console_obeys_rules_if_the_gate_is_on(
    server: EmbeddedServer, tmp_path: Path, is_on: bool
) -> None:
    ask_for_gpu(server, "web")
    command = ["console", "--port=0", "--kubeconfig", str(server.kubeconfig_path)]
    with console(tmp_path / "log", *command, *(GATE if is_on else ())) as url:
        wait_for("the cluster", lambda: len(get(url, "cluster")["names"]) == 2)
        said = get(url, "pods/default/web")
    assert ('"tainted": 1' in json.dumps(said)) is is_on


def test_a_console_whose_gate_is_on_names_rules_that_it_cannot_read(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    refuse(server, 404)
    log, kubeconfig = tmp_path / "log", str(server.kubeconfig_path)
    with console(log, "console", "--port=0", "--kubeconfig", kubeconfig, *GATE) as url:
        assert len(get(url, "cluster")["names"]) == 2
    assert "does not serve DeviceTaintRules: they are ignored. Fix: " in log.read_text()


def test_a_gate_without_effect_is_told(tmp_path: Path) -> None:
    done = run("replay", str(tmp_path / "none"), "--feature-gates", "DRAListTypeAttributes=true")
    told = "DRAListTypeAttributes=true has no effect: Stowplan does not have this feature"
    assert f"Warning: --feature-gates: {told}" in done.stderr
    unknown = run("shadow", "--feature-gates", "Nope=true")
    assert unknown.returncode == 2
    assert "--feature-gates: unrecognized feature gate: Nope" in unknown.stderr


def test_explain_obeys_the_rules_of_a_live_cluster(server: EmbeddedServer) -> None:
    """It has no gate: rules that it may list are obeyed."""
    config = ("--kubeconfig", str(server.kubeconfig_path))
    ask_for_gpu(server, "first", "b")
    ask_for_gpu(server, "web")
    done = run("explain", "web", "--node", "a", *config)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    tainted = "of 1 here, 1 has a taint that the request does not tolerate"
    assert tainted in " ".join(done.stdout.split())
    data = json.loads(run("explain", "web", "--fix", "-o", "json", *config).stdout)
    assert data["state"] == "Pending"
    refuse(server, 403)
    without = run("explain", "web", "--node", "a", *config)
    assert tainted not in " ".join(without.stdout.split())
    assert without.stderr == ""


@pytest.mark.parametrize("is_on", [True, False])
def test_a_scheduler_without_the_right_to_read_rules_does_not_start(
    server: EmbeddedServer, tmp_path: Path, is_on: bool
) -> None:
    refuse(server, 403)
    if not is_on:
        with scheduler(server.kubeconfig_path):
            Stage(server).pod("web")
            wait_for("the pod to be bound", lambda: Stage(server).node_of("web"))
        return
    with scheduler(server.kubeconfig_path, *GATE) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert '"command failed" err="devicetaintrules: refused"' in told
    assert "Traceback" not in told
