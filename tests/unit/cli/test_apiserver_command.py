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

import pytest
import yaml

from stowplan.cli.apiserver import write_kubeconfig
from stowplan.errors import ConfigError


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
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        write_kubeconfig(tmp_path / "none" / "config", "x")
