"""`stowplan apiserver` as a process: it says how to use it, serves, and ends on a signal."""

from __future__ import annotations

import json
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.cli.apiserver import write_kubeconfig
from stowplan.errors import ConfigError
from tests.waiting import wait_for


@contextmanager
def apiserver(*argv: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The process and the three lines it greets with."""
    code = "from stowplan.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "apiserver", "--port", "0", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, [process.stdout.readline().rstrip("\n") for _ in range(3)]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "kube config"
    with apiserver("--kubeconfig-out", str(file)) as (process, lines):
        assert lines[0].startswith("Serving an in-memory Kubernetes API on http://127.0.0.1:")
        url = lines[0].rsplit(" ", 1)[1]
        assert lines[1] == f"Use it with:  export KUBECONFIG='{file}'"
        config = yaml.safe_load(file.read_text())
        assert config["clusters"][0]["cluster"]["server"] == url
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with urllib.request.urlopen(f"{url}/api/v1/namespaces/default") as response:
            assert json.load(response)["metadata"]["name"] == "default"
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in err


def test_without_a_kubeconfig_it_names_the_server() -> None:
    with apiserver("--no-kubelet") as (_, lines):
        url = lines[0].rsplit(" ", 1)[1]
        assert lines[1] == f"Use it with:  kubectl --server={url} get nodes"


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url) as response:
        body: dict[str, Any] = json.load(response)
        return body


def test_nodes_and_a_deployment_without_another_program() -> None:
    size = "cpu=8,example.com/gpu=1,hugepages-2Mi=64Mi"
    argv = ("--nodes", "5", "--zones", "2", "--node-size", size, "--node-name", "worker-")
    with apiserver(*argv, "--kubelet-delay", "0") as (_, lines):
        url = lines[0].rsplit(" ", 1)[1]
        nodes = get(f"{url}/api/v1/nodes")["items"]
        assert [node["metadata"]["name"] for node in nodes] == [f"worker-{i}" for i in range(1, 6)]
        zones = [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes]
        assert zones == ["zone-1", "zone-2", "zone-1", "zone-2", "zone-1"]
        expected = {"cpu": "8", "memory": "16Gi", "pods": "110", "example.com/gpu": "1"}
        assert expected.items() <= nodes[0]["status"]["allocatable"].items()

        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "c"}], "nodeName": "worker-1"},
        }
        deployment = {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        }
        path = f"{url}/apis/apps/v1/namespaces/default/deployments"
        request = urllib.request.Request(
            path, json.dumps(deployment).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request):
            pass
        wait_for("it is 3/3", lambda: get(f"{path}/web")["status"].get("readyReplicas") == 3)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ("--nodes", "2", "--node-size", "cpu"),
            "Error: Invalid value for '--node-size': 'cpu' is not an amount such as cpu=8 or "
            "memory=32Gi",
        ),
        (
            ("--nodes", "2", "--node-size", "cpu=many"),
            "Error: Invalid value for '--node-size': 'cpu=many' is not an amount such as cpu=8 or "
            "memory=32Gi",
        ),
        (
            ("--nodes", "2", "--node-size", "cpus=4"),
            "Error: Invalid value for '--node-size': a node has no resource 'cpus'; did you mean "
            '"cpu"? Fix: use a known name, or one with a domain such as example.com/gpu',
        ),
        (
            ("--nodes", "2", "--node-size", "gpu=1"),
            "Error: Invalid value for '--node-size': a node has no resource 'gpu'; there are cpu, "
            "memory, ephemeral-storage, pods. Fix:",
        ),
        (("--zones", "2"), "Error: --zones needs --nodes N, which creates the nodes."),
        (
            ("--nodes", "1", "--node-name", "My Node "),
            'Error: --nodes: Node "My Node 1" is invalid: [metadata.name',
        ),
    ],
)
def test_bad_nodes_are_one_line(argv: tuple[str, ...], message: str) -> None:
    with apiserver(*argv) as (process, _):
        _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith(message)
    assert "Traceback" not in err


def test_a_taken_port_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with apiserver("--port", str(port)) as (process, _):
            _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err.splitlines()[-1] == (
        f"Error: --host, --port: cannot listen on 127.0.0.1:{port}: Address already in use; "
        "choose another address or port"
    )
    assert "Traceback" not in err


def test_a_users_own_kubeconfig_is_never_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("kind: Config\n")
    with pytest.raises(ConfigError, match="was not written by this command"):
        write_kubeconfig(mine, "new")
    assert mine.read_text() == "kind: Config\n"
    mine.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be written: it is not a text file"):
        write_kubeconfig(mine, "new")


def test_its_own_kubeconfig_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "config"
    write_kubeconfig(file, "first\n")
    write_kubeconfig(file, "second\n")
    assert file.read_text().splitlines()[1:] == ["second"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "none" / "config"
    with apiserver("--kubeconfig-out", str(file)) as (process, lines):
        _, err = process.communicate(timeout=30)
    assert (process.returncode, lines) == (2, ["", "", ""])
    # Nothing is logged before it: the server has not started.
    assert err == (
        f"Error: --kubeconfig-out {file}: the folder {file.parent} does not exist. "
        f"Fix: mkdir -p {file.parent}\n"
    )


def test_a_users_own_kubeconfig_is_refused_before_serving(tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("kind: Config\n")
    with apiserver("--kubeconfig-out", str(mine)) as (process, lines):
        _, err = process.communicate(timeout=30)
    assert (process.returncode, lines) == (2, ["", "", ""])
    assert err.startswith(f"Error: --kubeconfig-out {mine}: already exists")
    assert mine.read_text() == "kind: Config\n"
