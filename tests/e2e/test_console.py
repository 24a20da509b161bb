"""The console on the real kube-apiserver: its users sign in with tokens of the cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from stowplan.lab.controlplane import ControlPlane
from stowplan.testing import as_manifest, node, pod
from tests.browser import open_browser
from tests.integration.test_console_access import Client, serving
from tests.integration.test_console_pages import TEXT, press, until, until_text
from tests.waiting import wait_for

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/console/serviceaccounts"
#: The role in docs/console.md.
ROLE = {"nonResourceURLs": ["/console/*"], "verbs": ["get"]}


class Stage(NamedTuple):
    client: Client
    reader: str
    stranger: str
    plane: ControlPlane


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Two nodes, a pod that fits nowhere, and a console that listens on all addresses."""
    api = control_plane.api
    api.create("/api/v1/namespaces", {"metadata": {"name": "console"}})
    tokens = {}
    for name in ("reader", "stranger"):
        api.create(ACCOUNTS, {"metadata": {"name": name}})
        tokens[name] = control_plane.service_account_token("console", name)
    api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "console"}, "rules": [ROLE]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "console"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "console"}
    api.create(
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "console"}, "roleRef": role, "subjects": [subject]},
    )
    for number in range(2):
        api.create("/api/v1/nodes", as_manifest(node(f"console-{number}", cpu=4)))
    huge = as_manifest(pod("huge", namespace="console", cpu=64))
    api.create("/api/v1/namespaces/console/pods", huge)
    log = tmp_path_factory.mktemp("console") / "log"
    options = ("--bind-address", "0.0.0.0", "--port", "0")
    kubeconfig = ("--kubeconfig", str(control_plane.kubeconfig))
    try:
        with serving(log, "console", *options, *kubeconfig) as client:
            yield Stage(client, tokens["reader"], tokens["stranger"], control_plane)
        said = log.read_text()
        assert not any(token in said for token in tokens.values())
    finally:
        for number in range(2):
            api.delete(f"/api/v1/nodes/console-{number}")
        api.delete("/api/v1/namespaces/console/pods/huge?gracePeriodSeconds=0")
        api.delete(f"{RBAC}/clusterrolebindings/console")
        api.delete(f"{RBAC}/clusterroles/console")


def test_tokens_of_the_cluster(stage: Stage) -> None:
    client = stage.client
    assert client.ask("api/cluster").status == 401
    assert client.ask("api/cluster", Authorization="Bearer nonsense").status == 401
    refused = client.ask("api/cluster", Authorization=f"Bearer {stage.stranger}")
    assert refused.status == 403
    assert refused.body["Error"] == (
        'User "system:serviceaccount:console:stranger" cannot get path /console/: it needs a'
        ' ClusterRole with nonResourceURLs: ["/console/*"], verbs: ["get"]. A new one'
        " works after 10 s at most"
    )
    assert client.sign_in(stage.stranger).status == 403
    shown = client.ask("api/cluster", Authorization=f"Bearer {stage.reader}")
    assert {"console-0", "console-1"} <= {*shown.body["names"]}


def test_a_deleted_account_is_signed_out(stage: Stage) -> None:
    api, client = stage.plane.api, stage.client
    api.create(ACCOUNTS, {"metadata": {"name": "leaver"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "console"}
    subject = {"kind": "ServiceAccount", "name": "leaver", "namespace": "console"}
    api.create(
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "console-leaver"}, "roleRef": role, "subjects": [subject]},
    )
    try:
        token = stage.plane.service_account_token("console", "leaver")
        wait_for("the right", lambda: client.sign_in(token).status == 200)
        named = client.sign_in(token).headers["Set-Cookie"].partition(";")[0]
        assert client.ask("api/flow", Cookie=named).status == 200
        api.delete(f"{ACCOUNTS}/leaver")
        wait_for("the end", lambda: client.ask("api/flow", Cookie=named).status == 401)
    finally:
        api.delete(f"{RBAC}/clusterrolebindings/console-leaver")


def test_a_scheduler_with_tokens_of_the_cluster(stage: Stage, tmp_path: Path) -> None:
    run = ("run", "--leader-elect=false", "--secure-port=0", "--scheduler-name=console-test")
    kubeconfig = ("--kubeconfig", str(stage.plane.kubeconfig))
    with serving(tmp_path / "log", *run, "--console=:0", *kubeconfig) as client:
        assert client.ask("api/flow").status == 401
        assert client.ask("api/flow", Authorization=f"Bearer {stage.stranger}").status == 403
        reader = f"Bearer {stage.reader}"
        wait_for("the lists", lambda: client.ask("api/flow", Authorization=reader).body["live"])


def test_credentials_that_cannot_check_tokens(stage: Stage, tmp_path: Path) -> None:
    kubeconfig = stage.plane.write_kubeconfig("console-stranger", stage.stranger)
    command = ("console", "--bind-address", "0.0.0.0", "--port", "0")
    done = subprocess.run(
        [sys.executable, "-m", "stowplan", *command, "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    (error,) = done.stderr.splitlines()
    assert 'cannot create resource "tokenreviews"' in error
    assert "Fix: give them the ClusterRole system:auth-delegator" in error


@pytest.mark.slow
async def test_a_real_cluster_in_a_browser(stage: Stage) -> None:
    async with open_browser("--ignore-certificate-errors") as tab:
        await tab.open(f"{stage.client.url}/console/")
        await until(tab, "document.activeElement?.id", lambda said: said == "token")
        await tab.ask(f"document.getElementById('token').value = {json.dumps(stage.reader)}")
        await press(tab, "Enter", "\r")
        await until_text(tab, " nodes, ")
        await until(
            tab,
            "document.querySelector('header').innerText",
            lambda said: "system:serviceaccount:console:reader" in said,
        )
        await tab.ask("location.hash = '#/decision/console/huge'")
        await until_text(tab, "console/huge is pending", "NodeResourcesFit")
        stage.plane.api.create("/api/v1/nodes", as_manifest(node("console-late", cpu=96)))
        try:
            await until_text(tab, "console-late")
        finally:
            stage.plane.api.delete("/api/v1/nodes/console-late")
        await tab.ask("location.hash = '#/cluster/console-1'")
        await until_text(tab, "console-1", "Taints")
        assert "Loading" not in await tab.ask(TEXT)
