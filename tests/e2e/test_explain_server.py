"""A running scheduler explains its pods over HTTPS, to those whom the real API server allows."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stowplan.api.objects import Pod
from stowplan.lab.controlplane import ControlPlane
from stowplan.lab.controlplane.processes import free_port
from stowplan.testing import as_manifest, node, pod
from tests.controlplane_fixtures import require_binaries
from tests.waiting import wait_for

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
#: The role in docs/explain.md.
ROLE = {"nonResourceURLs": ["/v1/*"], "verbs": ["get"]}


#: On a busy machine a decision may seem to take long, and the next ones are kept without details.
_RUN_WITH_ALL_DETAILS = """
import sys
from stowplan.cli.main import main
from stowplan.scheduler import ledger

ledger.DETAIL_SHARE = float("inf")
sys.argv[:1] = ["stowplan", "run"]
main()
"""


class Stage(NamedTuple):
    port: int
    reader: str
    stranger: str
    kubeconfig: Path
    ledger: Path
    log: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def get(self, path: str, token: str | None = None) -> tuple[int, Json]:
        token = self.reader if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        tls = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=tls)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two nodes, one tainted; a pod that is placed, two that fit nowhere, one that is gated."""
    require_binaries("etcd", "kube-apiserver")
    folder = tmp_path_factory.mktemp("explain-server")
    with ControlPlane() as plane:
        tokens = {}
        for name in ("reader", "stranger"):
            account = {"metadata": {"name": name}}
            plane.api.create("/api/v1/namespaces/default/serviceaccounts", account)
            tokens[name] = plane.service_account_token("default", name)
        plane.api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "asks"}, "rules": [ROLE]})
        plane.api.create(
            f"{RBAC}/clusterrolebindings",
            {
                "metadata": {"name": "asks"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "asks",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
            },
        )
        for made in (
            node("worker-1", cpu=4),
            node("worker-2", cpu=4),
            node("gpu", cpu=8, taints=["dedicated=gpu:NoSchedule"]),
        ):
            plane.api.create("/api/v1/nodes", as_manifest(made))

        def create(made: Pod) -> None:
            manifest = as_manifest(made)
            manifest["metadata"].pop("uid", None)
            plane.api.create(PODS, manifest)

        create(pod("placed", cpu=1))
        log, port, ledger = folder / "stowplan.log", free_port(), folder / "ledger.db"
        command = [
            *(sys.executable, "-c", _RUN_WITH_ALL_DETAILS, f"--kubeconfig={plane.kubeconfig}"),
            *(f"--secure-port={port}", "--leader-elect=false", f"--ledger={ledger}"),
        ]
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)
        found = Stage(
            port, tokens["reader"], tokens["stranger"], Path(plane.kubeconfig), ledger, log
        )

        def is_tried(name: str) -> bool:
            assert process.poll() is None, log.read_text()
            return found.get(f"/v1/attempts/default/{name}")[0] == 200

        def is_placed() -> bool:
            assert process.poll() is None, log.read_text()
            return found.get("/v1/explain/default/placed")[1].get("state") == "Scheduled"

        try:
            wait_for("the first pod to be placed", is_placed)
            create(pod("gated", gates=["example.com/wait"]))
            for name in ("big", "big-2"):
                create(pod(name, cpu=6))
                wait_for(f"{name} to be tried", partial(is_tried, name))
            yield found
        finally:
            process.terminate()
            assert process.wait(30) == 0, log.read_text()


def test_a_pending_pod_is_explained_with_its_place_in_the_queue(stage: Stage) -> None:
    status, said = stage.get("/v1/explain/default/big")
    assert status == 200
    assert said["summary"].startswith("default/big is pending. None of 3 nodes can take it: 2 are")
    assert {each["plugin"] for each in said["reasons"]} == {"NodeResourcesFit", "TaintToleration"}
    waiting = said["waiting"]
    assert waiting["place"] == "unschedulable"
    assert waiting["attempts"] >= 1
    assert 0 < waiting["nextTrySeconds"] <= 300
    assert waiting["plugins"] == ["NodeResourcesFit", "TaintToleration"]


def test_a_gated_and_a_placed_pod(stage: Stage) -> None:
    _, gated = stage.get("/v1/explain/default/gated")
    assert (gated["state"], gated["waiting"]["place"]) == ("SchedulingGated", "gated")
    assert gated["waiting"]["plugins"] == ["SchedulingGates"]
    _, placed = stage.get("/v1/explain/default/placed")
    assert placed["node"] in ("worker-1", "worker-2")
    assert "Attempt 1 chose it when it fitted on 2 of 3 nodes" in placed["summary"]
    assert placed["best"][0]["node"] == placed["node"]


def test_one_node_beside_the_best(stage: Stage) -> None:
    status, said = stage.get("/v1/explain/default/big?node=gpu")
    assert status == 200
    assert [each["plugin"] for each in said["node"]["obstacles"]] == ["TaintToleration"]
    assert stage.get("/v1/explain/default/big?node=none")[0] == 404
    assert stage.get("/v1/explain/default/placed?node=gpu")[0] == 409


def test_all_pending_pods_by_cause(stage: Stage) -> None:
    _, said = stage.get("/v1/pending")
    assert (said["counts"]["unschedulable"], said["counts"]["gated"]) == (2, 1)
    first, second = said["groups"]
    assert (first["pods"], first["reason"]) == (2, "Insufficient cpu")
    assert first["examples"] == ["default/big", "default/big-2"]
    assert first["summary"].startswith("0/3 nodes are available: ")
    assert second["state"] == "SchedulingGated"
    assert stage.get("/v1/pending?namespace=other")[1].get("groups", []) == []


def test_attempts_of_the_ledger(stage: Stage) -> None:
    _, said = stage.get("/v1/attempts/default/placed")
    (attempt,) = said["attempts"]
    assert (attempt["attempt"], attempt["result"]) == (1, "scheduled")
    assert "details" not in attempt
    _, one = stage.get("/v1/attempts/default/big/1")
    assert one["of"] >= 1
    details = one["attempt"]["details"]
    assert [(each["nodes"], each["names"]) for each in details["reasons"]] == [
        (2, "worker-[1-2]"),
        (1, "gpu"),
    ]
    assert (details["requests"]["cpu"], details["waited"] > 0) == ("6", True)
    _, placed = stage.get("/v1/attempts/default/placed/1")
    details = placed["attempt"]["details"]
    assert details["refused"] == {"TaintToleration": 1}
    assert {"Filter", "Reserve", "Permit", "PreBind", "Bind"} <= details["durations"].keys()
    for path in ("default/big/999", "default/none", "default/gated"):
        status, problem = stage.get(f"/v1/attempts/{path}")
        assert (status, problem["kind"]) == (404, "Status")
    assert stage.get("/v1/attempts/default/big/x")[0] == 400


def test_only_those_with_the_right_are_answered(stage: Stage) -> None:
    paths = ("/v1/explain/default/big", "/v1/pending", "/v1/attempts/default/big")
    for path in paths:
        status, problem = stage.get(path, token=stage.stranger)
        assert status == 403
        assert f'cannot get path "{path}"' in problem["message"]
        assert stage.get(path, token="")[0] == 403
        assert stage.get(path, token="wrong")[0] == 401
    assert stage.get("/configz")[0] == 403, "the role is for /v1/ alone"


# The command


def explain(
    stage: Stage, *arguments: str, url: str = "", token: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stowplan", "explain", *arguments, "--kubeconfig"]
    command += [str(stage.kubeconfig), "--insecure-skip-tls-verify"]
    server = {"STOWPLAN_SERVER": url or stage.url, "STOWPLAN_TOKEN": token}
    env = {**os.environ, **server, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_the_command_asks_the_scheduler_with_the_users_own_credentials(stage: Stage) -> None:
    for token in (stage.reader, ""):  # a token, and those of the kubeconfig
        done = explain(stage, "big", token=token)
        assert (done.returncode, done.stderr) == (0, "")
        first, *_ = done.stdout.split("\n\n")
        assert first.startswith("default/big is pending. None of 3 nodes can take it")
        assert "failed" in done.stdout
        assert "; next try in " in done.stdout
        assert ", or when a node is added" in " ".join(done.stdout.split())
    placed = explain(stage, "placed", "-o", "json")
    assert json.loads(placed.stdout)["state"] == "Scheduled"
    node_text = explain(stage, "big", "--node", "gpu").stdout
    assert "default/big does not fit on gpu: a plugin refuses it." in node_text
    pending = explain(stage, "--pending").stdout.splitlines()
    assert pending[1].split()[:3] == ["2", "Insufficient", "cpu"]
    gated = explain(stage, "gated").stdout
    assert "SchedulingGates keeps it out of the queue" in gated


def test_an_attempt_from_the_server_and_from_the_file(stage: Stage) -> None:
    remote = explain(stage, "big", "--at", "1")
    assert (remote.returncode, remote.stderr) == (0, "")
    assert remote.stdout.startswith("default/big, attempt 1 of ")
    assert ": unschedulable after " in remote.stdout
    assert "0/3 nodes are available: " in remote.stdout
    assert "worker-[1-2]" in remote.stdout
    read = wait_for("the file", lambda: _recorded(stage, "placed"))
    assert read.startswith("default/placed, attempt 1 of 1, ")
    assert ": bound to worker-" in read
    assert "Best nodes, the chosen one first:" in read
    read = " ".join(read.split())
    assert "It asked for 1 cpu" in read
    assert "It fitted on 2 of 3 nodes. The others: NODES PLUGIN REASON NAMES 1 TaintToler" in read
    assert "in the queue, PreFilter " in read
    assert ", Bind " in read


def _recorded(stage: Stage, name: str) -> str:
    done = explain(stage, name, "--at", "1", "--ledger", str(stage.ledger))
    return done.stdout if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def other_server() -> Iterator[str]:
    """Something else that listens, without TLS."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_every_mistake_is_one_line_that_says_what_to_do(stage: Stage, other_server: str) -> None:
    api_server = next(
        line.split()[1]
        for line in stage.kubeconfig.read_text().splitlines()
        if line.split()[:1] == ["server:"]
    )
    mistakes = [
        (explain(stage, "big", token=stage.stranger), 'cannot get path "/v1/explain/default/big"'),
        (explain(stage, "big", token=stage.stranger), "Fix: a role for /v1/*"),
        (explain(stage, "big", token="wrong"), "does not accept the credentials"),
        (explain(stage, "none"), 'pod "default/none" not found; the scheduler does not watch'),
        (explain(stage, "plaecd"), 'pod "default/plaecd" not found; did you mean "placed"?'),
        (explain(stage, "big", "-n", "shop"), '; there is one in the namespace "default"'),
        (explain(stage, "big", "--node", "none"), 'node "none" not found'),
        (explain(stage, "big", "--at", "9999"), "has no attempt 9999"),
        (explain(stage, "big", url=f"https://127.0.0.1:{free_port()}"), "Connection refused"),
        (explain(stage, "big", url=f"https://{other_server}"), "TLS failed"),
        (explain(stage, "big", url=f"http://{other_server}"), "is not an address such as https"),
        (explain(stage, "big", url=api_server), "is not a scheduler of this Stowplan version"),
    ]
    for done, problem in mistakes:
        assert problem in done.stderr, done
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1
        assert (done.returncode != 0, done.stdout) == (True, "")


def test_a_certificate_that_nothing_vouches_for_is_refused_with_the_remedy(stage: Stage) -> None:
    command = [sys.executable, "-m", "stowplan", "explain", "big", "--server", stage.url]
    command += ["--kubeconfig", str(stage.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "certificate" in done.stderr
    assert "Fix: --certificate-authority FILE" in done.stderr
    assert done.stderr.count("\n") == 1


def test_options_that_do_not_go_together(stage: Stage) -> None:
    url = ("--server", stage.url)
    for arguments, problem in (
        (("big", "--fix", *url), "--server goes without --fix"),
        (("big", "--at", "1", "--fix"), "--at goes with a POD"),
        (("big", "--ledger", "x"), "--ledger goes with --at"),
        (("big", "--at", "0", *url), "0 is not in the range"),
    ):
        done = explain(stage, *arguments)
        assert done.returncode == 2
        assert problem in done.stderr
    without = explain(stage, "big", "--at", "1", STOWPLAN_SERVER="")
    assert "--at needs --server URL or --ledger FILE" in without.stderr
    fixed = explain(stage, "big", "--fix")  # STOWPLAN_SERVER is only a default
    assert ": it fits on gpu" in fixed.stdout
