"""`stowplan console` and `stowplan run --console` as processes: what they serve and refuse."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stowplan.api.client import ApiClient
from stowplan.api.kubeconfig import load_cluster_config
from stowplan.api.resources import LEASES, NODES, PODS
from stowplan.apiserver.faults import Fault
from stowplan.apiserver.server import ApiServer
from stowplan.lab.controlplane.processes import free_port
from stowplan.testing import as_manifest, node, pod
from tests.embedded_fixtures import EmbeddedServer, running_embedded_server
from tests.waiting import wait_for

RUN = ("run", "--leader-elect=false", "--secure-port=0", "--console=0")


@contextmanager
def console(log: Path, *arguments: str) -> Iterator[str]:
    """The address of a console, without the slash at the end."""
    command = [sys.executable, "-m", "stowplan", *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:

        def address() -> str | None:
            assert process.poll() is None, log.read_text()
            found = re.search(r"http://127.0.0.1:\d+/console(?=/)", log.read_text())
            return found[0] if found else None

        url = wait_for("the console's address", address)
        wait_for("the lists", lambda: get(url, "cluster")["synced"])
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def get(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}/api/{path}", timeout=10) as response:
        return json.load(response)


def refusal(url: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, method=method, headers=named)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-")
        return answer.code, json.load(answer)["Error"]


@pytest.fixture(scope="module")
def kubeconfig(embedded_server: EmbeddedServer) -> str:
    nodes = [node(f"n{number}", cpu=4, zone=f"z{number % 2}") for number in range(4)]
    pods = [pod("web", cpu=1), pod("huge", cpu=64), pod("held", gates=["example.com/wait"])]

    async def create() -> None:
        config = load_cluster_config(kubeconfig=str(embedded_server.kubeconfig_path))
        async with ApiClient(config) as client:
            for each in nodes:
                await client.create(NODES, as_manifest(each))
            for made in pods:
                await client.create(PODS, as_manifest(made), namespace="default")

    asyncio.run(create())
    return str(embedded_server.kubeconfig_path)


@pytest.fixture(scope="module")
def read_only(kubeconfig: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("console") / "log"
    with console(log, "console", "--port", "0", "--kubeconfig", kubeconfig) as url:
        yield url


def test_a_cluster_that_no_scheduler_of_ours_serves(read_only: str) -> None:
    shown = get(read_only, "cluster")
    assert shown["names"] == ["n0", "n1", "n2", "n3"]
    assert shown["group"]["values"] == ["z0", "z1"]
    queue = get(read_only, "queue")
    assert queue["live"] is False
    assert {each["state"]: each["pods"] for each in queue["states"]}["gated"] == 1
    said = get(read_only, "pods/default/huge")
    assert "All 4 nodes are too small" in said["explanation"]["summary"]
    assert len(said["matrix"]["nodes"]) == 4
    assert [each["pod"] for each in get(read_only, "pods?q=hu")] == ["default/huge"]
    assert get(read_only, "nodes/n1")["allowedPods"] == 110
    assert get(read_only, "flow")["live"] is False


def test_files_come_from_the_package(read_only: str) -> None:
    with urllib.request.urlopen(f"{read_only}/", timeout=10) as response:
        text = response.read().decode()
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Access-Control-Allow-Origin"] is None
        assert "unsafe-inline" not in response.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|https?:", text)
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css")):
        with urllib.request.urlopen(f"{read_only}/{name}", timeout=10) as response:
            assert response.headers["Content-Type"].startswith(kind)
    root = read_only.removesuffix("/console")
    with urllib.request.urlopen(root, timeout=10) as response:
        assert response.url == f"{read_only}/"


def test_what_is_refused(read_only: str) -> None:
    api = f"{read_only}/api/cluster"
    code, said = refusal(api, Host="rebound.example.com")
    assert (code, "must name loopback" in said) == (421, True)
    assert refusal(api, Host="127.0.0.1.example.com:80")[0] == 421
    assert refusal(api, Sec_Fetch_Site="cross-site")[0] == 403
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert refusal(api, method)[0] == 405
        assert refusal(f"{read_only}/api/try/create", method)[0] == 405
    assert get(read_only, "about") == {"tries": False, "shadows": False, "standby": ""}
    assert refusal(f"{read_only}/api/try")[0] == 404
    for path in ("/api/nodes/nowhere", "/api/pods/default/nobody", "/api/pods/x", "/api/", "/x.js"):
        assert refusal(read_only + path)[0] == 404
    assert refusal(f"{read_only}/../mirror.py")[0] == 404
    assert refusal(f"{read_only}/vendor/%2e%2e/%2e%2e/mirror.py")[0] == 404


def test_other_names_of_loopback_are_served(read_only: str) -> None:
    for host in ("localhost", "localhost:9000", "[::1]:80", "127.0.0.5"):
        request = urllib.request.Request(f"{read_only}/api/queue", headers={"Host": host})
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 200


def test_events_are_resumed(read_only: str) -> None:
    def events(after: str, count: int) -> list[tuple[str, str]]:
        found = []
        request = urllib.request.Request(
            f"{read_only}/api/events", headers={"Last-Event-ID": after} if after else {}
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            number = ""
            for line in response:
                name, _, value = line.decode().strip().partition(": ")
                if name == "id":
                    number = value
                elif name == "event":
                    found.append((number, value))
                    if len(found) == count:
                        break
        return found

    first = events("", 3)
    assert first[0][1] == "reset"
    assert events(first[1][0], 1) == first[2:]
    assert events("another.7", 1)[0][1] == "reset"


def test_a_taken_port_is_an_error_of_one_line(read_only: str, kubeconfig: str) -> None:
    port = read_only.rpartition(":")[2].removesuffix("/console")
    command = [sys.executable, "-m", "stowplan", "console", "--kubeconfig", kubeconfig]
    done = subprocess.run([*command, "--port", port], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"Error: --port: cannot listen on 127.0.0.1:{port}: Address already in use; choose another"
        " address or port"
    ]


def forbidden(server: ApiServer, plural: str) -> None:
    message = f'{plural} is forbidden: User "dev" cannot list resource "{plural}"'
    server.faults.append(
        Fault(path=f"/{plural}", status=403, reason="Forbidden", message=message, times=None)
    )


def test_kinds_that_may_not_be_read_are_left_out(tmp_path: Path) -> None:
    with running_embedded_server(tmp_path) as server:
        server.call(lambda running: forbidden(running, "storageclasses"))
        log, kubeconfig = tmp_path / "log", str(server.kubeconfig_path)
        with console(log, "console", "--port", "0", "--kubeconfig", kubeconfig) as url:
            assert get(url, "cluster")["names"] == []
        warnings = [line for line in log.read_text().splitlines() if line.startswith("Warning")]
        assert len(warnings) == 1
        assert warnings[0].startswith("Warning: storageclasses are left out: ")


def test_without_the_right_to_read_nodes_it_ends(tmp_path: Path) -> None:
    with running_embedded_server(tmp_path) as server:
        server.call(lambda running: forbidden(running, "nodes"))
        command = [sys.executable, "-m", "stowplan", "console", "--port", "0"]
        done = subprocess.run(
            [*command, "--kubeconfig", str(server.kubeconfig_path)],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode != 0
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert 'User "dev" cannot list resource "nodes". Fix: use credentials that may list' in error
    assert "Console on" not in done.stdout
    assert "Traceback" not in done.stderr


def test_a_scheduler_shows_its_queue_and_its_figures(
    read_only: str, kubeconfig: str, tmp_path: Path
) -> None:
    with console(tmp_path / "log", *RUN, "--kubeconfig", kubeconfig) as url:

        def unschedulable() -> Any:
            states = {each["state"]: each for each in get(url, "queue")["states"]}
            return states["unschedulable"]["groups"]

        (group,) = wait_for("the condition", unschedulable)
        assert group["plugins"] == ["NodeResourcesFit"]
        assert group["listed"][0]["pod"] == "default/huge"
        wait_for("the bind", lambda: get(url, "flow")["attempts"][0][-1] >= 0)
        assert get(url, "flow")["live"] is True
        (attempt,) = get(url, "pods/default/huge")["attempts"]
        assert (attempt["attempt"], attempt["result"]) == (1, "unschedulable")
        placed = wait_for("the pod", lambda: get(url, "pods?q=web")[0]["node"])
        assert sum(get(url, "cluster")["pods"]) == 1
        assert get(url, f"nodes/{placed}")["pods"][0]["pod"] == "default/web"
        # The other console watches the same cluster.
        wait_for("the other console", lambda: get(read_only, "pods?q=web")[0]["node"] == placed)


def test_a_standby_says_that_it_does_not_schedule(tmp_path: Path) -> None:
    """Its queue holds every pod as if none had been tried, and must not be shown."""
    spec = {"holderIdentity": "host-a_1", "leaseDurationSeconds": 3600, "leaseTransitions": 0}
    lease = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition = {**refused, "message": "0/1 nodes are available: 1 Insufficient cpu."}

    async def create() -> None:
        async with ApiClient(load_cluster_config(kubeconfig=file)) as client:
            await client.create(NODES, as_manifest(node("n1", cpu=4)))
            await client.create(PODS, as_manifest(pod("huge", cpu=64)), namespace="default")
            status = {"status": {"conditions": [condition]}}
            await client.patch(PODS, "huge", status, namespace="default", subresource="status")
            await client.create(LEASES, lease, namespace="kube-system")

    async def release() -> None:
        async with ApiClient(load_cluster_config(kubeconfig=file)) as client:
            free = {"spec": {"holderIdentity": ""}}
            await client.patch(LEASES, "kube-scheduler", free, namespace="kube-system")

    with running_embedded_server(tmp_path) as server:
        file, port = str(server.kubeconfig_path), free_port()
        server.run(create())
        flags = ("--console=0", "--authorization-always-allow-paths=/v1/*", "--kubeconfig")
        command = ("run", f"--secure-port={port}", *flags, file)
        with console(tmp_path / "log", *command) as url:
            queue = get(url, "queue")
            assert "host-a_1 holds the lease. Fix: ask that replica" in queue["standby"]
            assert queue["live"] is False
            states = {each["state"]: each["pods"] for each in queue["states"]}
            assert (states["active"], states["unschedulable"]) == (0, 1)
            shown = get(url, "pods/default/huge")
            assert (shown["standby"], shown["attempts"]) == (queue["standby"], [])
            assert get(url, "about")["standby"] == queue["standby"]
            assert get(url, "flow")["live"] is False
            assert refusal(f"{url}/api/pods/default/huge/attempts/1") == (503, queue["standby"])
            asked = f"https://127.0.0.1:{port}/v1/explain/default/huge"
            tls = ssl._create_unverified_context()
            with pytest.raises(urllib.error.HTTPError) as answer:
                urllib.request.urlopen(asked, timeout=10, context=tls)
            with answer.value as body:
                assert (body.code, json.load(body)["message"]) == (503, queue["standby"])
            server.run(release())
            wait_for("the takeover", lambda: get(url, "queue")["live"])
            assert get(url, "about")["standby"] == ""
